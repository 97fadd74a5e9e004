export default function ({ data, parentElement, setTriggerValue }) {
  const { root, kept, meta, arrays } = begin(parentElement, data);
  const { names, words } = meta, { tiles } = arrays, [H, h, w] = tiles.shape;
  root.role = "radiogroup";
  root.ariaLabel = words.alt ?? "";
  if (kept.heads?.length !== H) {                    // buttons stay over the runs, and with them the focus
    kept.heads = Array.from({ length: H }, (_, i) => {
      const head = Object.assign(el("button", "head", el("canvas"), el("span", "name")), { type: "button", role: "radio" });
      head.dataset.head = i;
      return head;
    });
    root.replaceChildren(...kept.heads);
  }
  const { heads } = kept;

  function ring(chosen) {
    const tab = heads[chosen] ? chosen : 0;
    heads.forEach((head, i) => { head.ariaChecked = String(i === chosen); head.tabIndex = i === tab ? 0 : -1; });
    root.dataset.chosen = chosen;
  }
  // The ring moves at once. Answers to earlier picks may still arrive: for two seconds the latest pick wins over them.
  kept.told = meta.chosen;
  if (kept.picked === meta.chosen) { clearTimeout(kept.wait); kept.picked = null; }
  ring(kept.picked ?? meta.chosen);
  function pick(i) {
    if (root.dataset.chosen === String(i)) return;
    ring(i);
    kept.picked = i;
    clearTimeout(kept.wait);
    kept.wait = setTimeout(() => { kept.picked = null; ring(kept.told); }, 2000);
    setTriggerValue("picked", i);
  }
  const at = event => { const head = event.target.closest(".head"); return head ? +head.dataset.head : null; };
  root.onclick = event => { if (at(event) !== null) pick(at(event)); };   // also Enter and Space: the button's own click
  root.onkeydown = event => {
    const i = at(event), before = i - 1, after = i + 1;
    const to = { ArrowLeft: before, ArrowUp: before, ArrowRight: after, ArrowDown: after, Home: 0, End: H - 1 }[event.key];
    if (i === null || to === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    heads[(to + H) % H].focus();
  };

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
  return () => { clearTimeout(kept.wait); stop(); };
}
