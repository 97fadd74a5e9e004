import { css, digits, el, light, mix, ramp, unramp } from "../gaze.shared/shared.js";

// The canvas and the colour bar of the heat map; a scene says what to paint, and nothing here knows of pins or tips.

/** Where between the first and the last colour a value lies, 0 to 1. Logarithmic: three powers of ten below the largest. */
const placed = (value, { least, most, log }) => log
  ? value > 0 ? 1 + Math.log10(value / most) / DECADES : 0
  : (value - least) / (most - least);
const DECADES = 3;

export function paintCells(canvas, scene) {
  const { Q, K, cell, dpr, scale, look, valueAt, blocked, signed, stops } = scene;
  // One pixel a cell, then enlarged by a whole number without smoothing, then (seldom) fitted with smoothing.
  const table = ramp(...stops), grey = ramp(look.ground, look.text)[23];
  const image = new ImageData(K, Q), pixels = new Uint32Array(image.data.buffer);
  for (let i = 0; i < pixels.length; i++) {
    const value = valueAt(i);
    pixels[i] = blocked(i) || value !== value ? grey : table[Math.max(0, Math.min(255, Math.round(255 * placed(value, scene))))];
  }
  const small = new OffscreenCanvas(K, Q), pen = canvas.getContext("2d"), w = K * cell, h = Q * cell;
  small.getContext("2d").putImageData(image, 0, 0);
  canvas.width = Math.max(1, Math.round(w * dpr)); canvas.height = Math.max(1, Math.round(h * dpr));
  Object.assign(canvas.style, { width: w + "px", height: h + "px" });
  const times = Math.ceil(cell * dpr - 1e-6), uneven = Math.abs(times - cell * dpr) > 1e-6;
  const large = uneven && times > 1 ? new OffscreenCanvas(K * times, Q * times) : small;
  if (large !== small) {
    const enlarge = large.getContext("2d");
    enlarge.imageSmoothingEnabled = false;
    enlarge.drawImage(small, 0, 0, large.width, large.height);
  }
  pen.imageSmoothingEnabled = uneven; pen.imageSmoothingQuality = "high";
  pen.drawImage(large, 0, 0, canvas.width, canvas.height);
  pen.setTransform(dpr, 0, 0, dpr, 0, 0);

  if (cell >= 6) {                                   // not allowed: stripes, so that it cannot be taken for a small value
    pen.fillStyle = stripes(pen, css(mix(look.ground, look.text, 0.24)), dpr);
    pen.beginPath();
    for (let i = 0; i < Q * K; i++) if (blocked(i)) pen.rect(i % K * cell, Math.floor(i / K) * cell, cell, cell);
    pen.fill();
  }
  if (cell >= 12) {                                  // thin gaps make the cells countable
    pen.fillStyle = css(look.ground);
    for (let c = 1; c < K; c++) pen.fillRect(c * cell - 0.5, 0, 1, h);
    for (let r = 1; r < Q; r++) pen.fillRect(0, r * cell - 0.5, w, 1);
  }
  if (cell < 34) return;
  pen.font = `${13 * Math.min(scale, cell / 34)}px ${look.font}`;
  pen.textAlign = "center"; pen.textBaseline = "middle";
  for (let i = 0; i < pixels.length; i++) {
    const value = valueAt(i), texts = [2, 1, 0].map(places => digits(value, places));
    const fits = texts.find(text => pen.measureText(text).width <= cell - 4);
    if (blocked(i) || !Number.isFinite(value) || !fits) continue;
    pen.fillStyle = light(unramp(pixels[i])) > 0.55 ? "#14161f" : "#fff";
    pen.globalAlpha = !signed && value < 0.005 ? 0.45 : 1;
    pen.fillText(fits, (i % K + 0.5) * cell, (Math.floor(i / K) + 0.54) * cell);
  }
  pen.globalAlpha = 1;
}

function stripes(pen, colour, dpr) {
  const size = 6, tile = new OffscreenCanvas(size * dpr, size * dpr), g = tile.getContext("2d");
  g.scale(dpr, dpr); g.strokeStyle = colour;
  for (const d of [-size, 0, size]) { g.moveTo(d - 1, size + 1); g.lineTo(d + size + 1, -1); }
  g.stroke();
  const pattern = pen.createPattern(tile, "repeat");
  pattern.setTransform(new DOMMatrix().scale(1 / dpr));
  return pattern;
}

/** From the true least to the true greatest value shown, with a mark at zero where it lies well inside. */
export function paintBar(bar, scene, from, to, name) {
  const { signed, most, log, stops } = scene;
  if (log) from = most / 10 ** DECADES;
  const shades = Array.from({ length: 17 }, (_, i) => {
    const value = log ? from * (to / from) ** (i / 16) : from + (to - from) * i / 16;
    const t = placed(value, scene) * (stops.length - 1);
    const at = Math.max(0, Math.min(stops.length - 2, Math.floor(t)));
    return css(mix(stops[at], stops[at + 1], t - at));
  });
  const strip = el("div", "ramp"), zero = el("i", "zero"), near = 0.12 * (to - from);
  const inside = signed && from < -near && to > near;
  strip.style.background = `linear-gradient(90deg, ${shades})`;
  zero.style.left = `${100 * -from / (to - from)}%`;
  if (inside) strip.append(zero);
  bar.className = inside ? "bar signed" : "bar";
  bar.replaceChildren(el("span", "name", name), el("span", "", log ? `\u2264 ${from.toPrecision(1)}` : digits(from, 2)), strip, el("span", "", digits(to, 2)));
}
