import { begin, css, el, live, theme } from "../gaze.shared/shared.js";

export default function ({ data, parentElement }) {
  const { root, kept, first, meta } = begin(parentElement, data), { heads, parts, words } = meta;
  const draw = (tag, marks, ...content) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(marks)) element.setAttribute(name, value);
    element.append(...content);
    return element;
  };
  if (first) { kept.parts = el("div", "parts"); root.replaceChildren(kept.parts); }
  root.dataset.groups = parts.map(part => part.groups).join(" ");
  const boxes = parts.map(part => {
    const svg = draw("svg", { role: "img", "aria-label": `${words.alt}: ${heads} → ${part.groups}` });
    const box = el("div", part.chosen ? "part chosen" : "part", el("b", "", part.title), svg, el("div", "size", part.size));
    return box;
  });
  kept.parts.replaceChildren(...boxes);
  return live(root, scale => {
    const look = theme(root), colours = [look.accent, look.orange], text = css(look.text);
    boxes.forEach((box, n) => {
      const svg = box.querySelector("svg"), wide = svg.clientWidth || 240, high = 110 * scale, { groups } = parts[n];
      svg.setAttribute("viewBox", `0 0 ${wide} ${high}`);
      const place = (i, count) => (i + 0.5) * wide / count, side = count => Math.min(16 * scale, 0.7 * wide / count);
      const top = 32 * scale, base = 84 * scale, made = [];
      const square = (i, count, y, fill) => {
        const s = side(count);
        return draw("rect", { x: place(i, count) - s / 2, y: y - s / 2, width: s, height: s, rx: s / 5, fill });
      };
      for (let h = 0; h < heads; h++) {
        const g = Math.floor(h * groups / heads), fill = css(colours[g % 2]);
        made.push(draw("line", { x1: place(h, heads), y1: top, x2: place(g, groups), y2: base, stroke: fill, "stroke-opacity": 0.55, "stroke-width": heads > 40 ? 1 : 1.6 }));
      }
      for (let h = 0; h < heads; h++) made.push(square(h, heads, top, text));
      for (let g = 0; g < groups; g++) made.push(square(g, groups, base, css(colours[g % 2])));
      made.push(draw("text", { class: "name", x: 0, y: 14 * scale }, `${words.query}: ${heads}`),
        draw("text", { class: "name", x: 0, y: high - 4 * scale }, `${words.key}: ${groups}`));
      svg.replaceChildren(...made);
    });
  });
}
