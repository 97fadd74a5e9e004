export default function ({ data, parentElement, setTriggerValue }) {
  const { root, kept, meta, arrays } = begin(parentElement, data);
  const { names, words } = meta, { tiles } = arrays, [H, h, w] = tiles.shape;
  if (kept.heads?.length !== H) {                    // buttons stay over the runs, and with them the focus
    kept.heads = Array.from({ length: H }, (_, i) => {
      const head = Object.assign(el("button", "head", el("canvas"), el("span", "name")), { type: "button", role: "radio" });
      head.dataset.head = i;
      return head;
    });
    root.replaceChildren(...kept.heads);
  }
  const { heads } = kept, forget = radios(root, heads, meta.chosen, words.alt, i => setTriggerValue("picked", i));

  const stop = live(root, () => {
    const look = theme(root), table = ramp(look.ground, look.accent);
    heads.forEach((head, i) => {
      const [canvas, name] = head.children, image = new ImageData(w, h), pixels = new Uint32Array(image.data.buffer);
      for (let p = 0; p < pixels.length; p++) pixels[p] = table[tiles[i * h * w + p]];
      Object.assign(canvas, { width: w, height: h });
      canvas.style.imageRendering = Math.max(w, h) <= 56 ? "pixelated" : "auto";
      canvas.getContext("2d").putImageData(image, 0, 0);
      name.replaceChildren(label(names[i])); head.title = names[i]; head.ariaLabel = names[i];
    });
  });
  return () => { forget(); stop(); };
}
