import { begin, css, el, label, live, mix, theme, widest } from "../gaze.shared/shared.js";

export default function ({ data, parentElement, setTriggerValue }) {
  const { root, kept, first, meta, arrays } = begin(parentElement, data);
  const { tokens, words } = meta, T = tokens.length, allowed = Uint8Array.from(arrays.allowed), { reach } = arrays;
  if (first) {
    kept.canvas = el("canvas"); kept.legend = el("div", "legend"); kept.told = el("div", "told");
    root.append(kept.legend, kept.canvas, kept.told);
    Object.assign(kept.canvas, { tabIndex: 0, role: "img" });
    kept.told.role = "status";
  }
  const { canvas, told } = kept, fill = (text, values) => text.replace(/\{(\w+)\}/g, (all, name) => values[name] ?? all);
  canvas.ariaLabel = words.alt;
  let stroke = null, at = kept.at ?? null, cell = 20, left = 0, top = 0;
  const shade = (look, q, k) => allowed[q * T + k] ? look.accent : { 2: mix(look.ground, look.accent, 0.5), 3: mix(look.ground, look.accent, 0.22) }[reach[q * T + k]] ?? mix(look.ground, look.text, 0.06);

  function paint(scale) {
    const look = theme(root), dpr = window.devicePixelRatio || 1, size = 13 * scale;
    left = Math.min(110 * scale, widest(tokens, size, root) + 10); top = left * 0.75 + 8;
    cell = Math.max(12, Math.min(36 * scale, (root.clientWidth - 1.7 * left - 4) / T));
    const wide = 1.7 * left + cell * T + 2, high = top + cell * T + 2, pen = canvas.getContext("2d");
    canvas.width = Math.round(wide * dpr); canvas.height = Math.round(high * dpr);
    Object.assign(canvas.style, { width: wide + "px", height: high + "px" });
    pen.scale(dpr, dpr);
    pen.font = `${size}px ${getComputedStyle(root).fontFamily}`;
    pen.fillStyle = css(look.text);
    const short = text => { let line = text; while (line.length > 1 && pen.measureText(line).width > left - 8) line = line.slice(0, -1); return line; };
    tokens.forEach((token, i) => {
      pen.textAlign = "right"; pen.textBaseline = "middle";
      pen.fillText(short(token), left - 6, top + (i + 0.5) * cell);
      pen.save();
      pen.translate(left + (i + 0.5) * cell, top - 6); pen.rotate(-Math.PI / 4); pen.textAlign = "left";
      pen.fillText(short(token), 0, 0);
      pen.restore();
    });
    for (let q = 0; q < T; q++) for (let k = 0; k < T; k++) {
      pen.fillStyle = css(shade(look, q, k));
      pen.fillRect(left + k * cell + 1, top + q * cell + 1, cell - 2, cell - 2);
    }
    if (at) { pen.strokeStyle = css(look.text); pen.lineWidth = 2; pen.strokeRect(left + at[1] * cell + 1, top + at[0] * cell + 1, cell - 2, cell - 2); }
    const sample = (colour, text) => { const spot = el("i"); spot.style.background = css(colour); return el("span", "", spot, text); };
    kept.legend.replaceChildren(sample(look.accent, fill(words.one, { n: 1 })), ...[2, 3].map(n => sample(mix(look.ground, look.accent, n === 2 ? 0.5 : 0.22), fill(words.layers, { n }))), sample(mix(look.ground, look.text, 0.06), words.never));
    const n = at ? allowed[at[0] * T + at[1]] ? 1 : reach[at[0] * T + at[1]] : null;
    told.replaceChildren(...(at ? [`${words.query} `, label(tokens[at[0]]), `, ${words.key} `, label(tokens[at[1]]), `: ${n ? fill(n === 1 ? words.one : words.layers, { n }) : words.never}`] : [words.paint]));
    root.dataset.cells = Array.from(allowed).join("");
  }
  const find = event => {
    const box = canvas.getBoundingClientRect(), k = Math.floor((event.clientX - box.left - left) / cell), q = Math.floor((event.clientY - box.top - top) / cell);
    return q >= 0 && k >= 0 && q < T && k < T ? [q, k] : null;
  };
  const dab = () => { if (stroke !== null && at) allowed[at[0] * T + at[1]] = stroke; };
  const send = () => setTriggerValue("painted", Array.from(allowed).join(""));
  canvas.onpointerdown = event => {
    at = kept.at = find(event);
    if (!at || event.button) return;
    stroke = allowed[at[0] * T + at[1]] ? 0 : 1;
    canvas.setPointerCapture(event.pointerId);
    dab(); kept.paint();
  };
  canvas.onpointermove = event => { at = kept.at = find(event) ?? (stroke === null ? null : at); dab(); kept.paint(); };
  canvas.onpointerup = canvas.onpointercancel = () => { if (stroke !== null) { stroke = null; send(); } };
  canvas.onpointerleave = () => { if (stroke === null) { at = kept.at = null; kept.paint(); } };
  canvas.onkeydown = event => {
    const [q, k] = at ?? [0, 0], to = { ArrowUp: [q - 1, k], ArrowDown: [q + 1, k], ArrowLeft: [q, k - 1], ArrowRight: [q, k + 1] }[event.key];
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (to) { event.preventDefault(); at = kept.at = to.map(n => Math.max(0, Math.min(T - 1, n))); kept.paint(); }
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); at = kept.at = [q, k]; allowed[q * T + k] ^= 1; kept.paint(); send(); }
  };
  return live(root, paint);
}
