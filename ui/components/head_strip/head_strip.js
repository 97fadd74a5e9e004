import { begin, el, label, live, radios, ramp, theme } from "../gaze.shared/shared.js";

export default function ({ data, parentElement, setTriggerValue }) {
  const { root, kept, meta, arrays } = begin(parentElement, data);
  const { names, words, groups = names.length } = meta, { tiles } = arrays, [H, h, w] = tiles.shape;
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
      const group = Math.floor(i * groups / H), [from, to] = [group, group + 1].map(n => n * H / groups);
      const told = () => words.group.replace("{heads}", `${names[from]}–${names[to - 1]}`).replace("{group}", group + 1);
      const shared = groups < H ? `${names[i]} · ${told()}` : names[i];
      name.replaceChildren(label(names[i])); head.title = shared; head.ariaLabel = shared;
      head.classList.toggle("shares", groups < H);         // a line under the heads that read one key-value head
      head.classList.toggle("last", groups < H && (i + 1) * groups % H === 0);
    });
  });
  return () => { forget(); stop(); };
}
