import { css, mix } from "../gaze.shared/shared.js";

// The two canvases of the picture map; a scene says what to paint, and nothing here knows of pins or pointers.

/** The picture's pixels as a canvas; faded: mostly grey and near the ground, so that only weights have colour. */
export function pictureCanvas(pixels, look, faded) {
  const [h, w] = pixels.shape, image = new ImageData(w, h), to = image.data;
  for (let i = 0; i < w * h; i++) {
    const [r, g, b] = pixels.subarray(3 * i, 3 * i + 3), grey = 0.299 * r + 0.587 * g + 0.114 * b;
    const mixed = faded ? mix(mix([r, g, b], [grey, grey, grey], 0.85), look.ground, look.dark ? 0.5 : 0.55) : [r, g, b];
    to.set([...mixed, 255], 4 * i);
  }
  const canvas = new OffscreenCanvas(w, h);
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

/** The picture at the size of the grid, and the lines between its patches. */
export function paintPicture(canvas, scene, source) {
  const { width, height, wide, high, columns, rows, dpr, look, cell, owner, chosen } = scene, pen = canvas.getContext("2d");
  canvas.width = Math.round(width * dpr); canvas.height = Math.round(height * dpr);
  Object.assign(canvas.style, { width: width + "px", height: height + "px" });
  pen.setTransform(dpr, 0, 0, dpr, 0, 0);
  pen.fillStyle = css(mix(look.ground, look.text, 0.08)); pen.fillRect(0, 0, width, height);
  pen.imageSmoothingEnabled = source.width * 3 > wide * dpr; pen.imageSmoothingQuality = "high";
  pen.drawImage(source, 0, 0, wide, high);
  if (cell[1] >= 7) {
    pen.strokeStyle = "rgba(128,128,136,.42)"; pen.lineWidth = 1;
    pen.beginPath();
    for (let c = 1; c < columns; c++) { pen.moveTo(Math.round(c * cell[1]), 0); pen.lineTo(Math.round(c * cell[1]), height); }
    for (let r = 1; r < rows; r++) { pen.moveTo(0, Math.round(r * cell[0])); pen.lineTo(width, Math.round(r * cell[0])); }
    pen.stroke();
  }
  // A window's frame: where a patch and its neighbour are of two windows. After a shift, a window comes in parts.
  for (const [mine, colour, thick] of [[null, css(look.text), 1.25], [chosen, css(look.accent), 2.5]]) {
    if (chosen === null) break;
    const divided = (a, b) => owner[a] !== owner[b] && (mine === null || owner[a] === mine || owner[b] === mine);
    pen.strokeStyle = colour; pen.lineWidth = thick;
    pen.beginPath();
    for (let r = 0; r < rows; r++) for (let c = 0; c < columns; c++) {
      const i = r * columns + c, x = c * cell[1], y = r * cell[0];
      if (c && divided(i, i - 1)) { pen.moveTo(x, y); pen.lineTo(x, y + cell[0]); }
      if (r && divided(i, i - columns)) { pen.moveTo(x, y); pen.lineTo(x + cell[1], y); }
    }
    pen.stroke();
  }
  return pen;
}

/** An outline round one patch, legible on any picture. */
export function outline(pen, scene, [r, c], colour, thick) {
  if (r < 0) return;
  const [h, w] = scene.cell, around = thick / 2;
  for (const [line, style] of [[thick + 2.5, css(scene.look.ground)], [thick, colour]]) {
    pen.lineWidth = line; pen.strokeStyle = style;
    pen.strokeRect(c * w + around, r * h + around, Math.max(2, w - thick), Math.max(2, h - thick));
  }
}
