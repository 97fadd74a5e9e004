import { begin, css, drawing, el, live, mix, pictureButtons, ramp, rgb, sheet } from "../gaze.shared/shared.js";

const RAMP = ["#0072b2", "#009e73", "#e69f00"];      // Okabe-Ito: early layers blue, late ones orange

export default function ({ data, parentElement, setTriggerValue }) {
  const { root, kept, first, meta, arrays } = begin(parentElement, data);
  const { names, notes, groups, colours, legend, marks, words } = meta, { places } = arrays, N = names.length;
  if (first) {
    Object.assign(kept, { legend: el("div", "legend"), plane: el("div", "plane"), svg: drawing("svg", { tabindex: 0, role: "img" }), tip: el("div", "tip") });
    kept.tip.hidden = true; kept.tip.role = "status";
    kept.plane.append(kept.svg, kept.tip);
    root.append(kept.legend, kept.plane);
  }
  const { svg, tip, plane } = kept, stops = RAMP.map(rgb), most = Math.max(...groups, 1);
  const shade = t => { const at = Math.min(stops.length - 2, Math.floor(t * (stops.length - 1))); return css(mix(stops[at], stops[at + 1], t * (stops.length - 1) - at)); };
  const grey = share => `color-mix(in srgb, var(--st-text-color) ${100 * share}%, var(--st-background-color))`;
  const told = group => typeof colours[group] === "string" ? colours[group] : grey(colours[group] ?? 1);
  const colour = group => colours ? told(group) : shade(group / most);
  svg.setAttribute("aria-label", `${words.alt}. ${words.hint}`);
  root.dataset.heads = N;
  if (kept.at >= N) kept.at = null;

  const swatch = (name, group) => {                    // pointing at a group's name leaves the others pale
    const entry = el("span", "", el("i"), name), dim = on => { svg.classList.toggle("dim", on); kept.dots.forEach((dot, i) => dot.classList.toggle("in", on && groups[i] === group)); };
    entry.style.setProperty("--c", colour(group));
    entry.onpointerenter = () => dim(true); entry.onpointerleave = () => dim(false);
    return entry;
  };
  const ramp = el("span", "ramp");
  ramp.style.background = `linear-gradient(90deg, ${RAMP})`;
  const shown = new Set(groups);
  kept.legend.replaceChildren(...(colours ? legend.flatMap((name, group) => shown.has(group) ? [swatch(name, group)] : []) : [el("span", "", legend[0]), ramp, el("span", "", legend[1])]), pictureButtons(words, "gaze-map-of-heads", picture));

  kept.dots = names.map((name, i) => {
    const dot = drawing("circle", { class: "dot" });
    dot.style.fill = colour(groups[i]);
    dot.dataset.head = i;
    return dot;
  });
  let spots = [];                                      // [x, y] of each head in css px

  function paint(scale) {
    const width = root.clientWidth, rim = 26 * scale, xs = Array.from({ length: N }, (_, i) => places[2 * i]), ys = Array.from({ length: N }, (_, i) => places[2 * i + 1]);
    const box = list => [Math.min(...list), Math.max(...list) - Math.min(...list) || 1e-9];
    const [left, wide] = box(xs), [low, tall] = box(ys), height = Math.min(Math.max(300, width * 0.76), 560 * scale);
    const by = Math.min((width - 2 * rim) / wide, (height - 2 * rim) / tall);      // the same in both directions: distances are what counts
    spots = xs.map((x, i) => [width / 2 + (x - left - wide / 2) * by, height / 2 + (ys[i] - low - tall / 2) * by]);
    const radius = (N > 150 ? 4.5 : 6.5) * scale;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`); svg.style.height = height + "px";
    kept.dots.forEach((dot, i) => { dot.setAttribute("cx", spots[i][0]); dot.setAttribute("cy", spots[i][1]); dot.setAttribute("r", radius); });
    const letters = new Map();
    for (const { letter, head } of marks) letters.set(head, [...letters.get(head) ?? [], letter]);
    const panes = [...letters].flatMap(([head, those]) => {
      const [x, y] = spots[head], text = drawing("text", { class: "letter", x, y: y - radius - 8 * scale });
      text.textContent = those.join(" ");
      return [drawing("circle", { class: "ring", cx: x, cy: y, r: radius + 4 * scale }), text];
    });
    svg.replaceChildren(...kept.dots, ...panes);
    look(kept.at ?? null, false);
  }

  /** The map as the text of an SVG, for a file: what the stylesheet says is written into it. */
  function picture() {
    const drawn = [...svg.querySelectorAll("circle, text")].map(part => {
      const copy = part.cloneNode(true), style = getComputedStyle(part);
      copy.removeAttribute("style");
      for (const name of ["fill", "stroke", "stroke-width", "font-size", "font-weight", "text-anchor", "paint-order"]) copy.setAttribute(name, style.getPropertyValue(name));
      return copy;
    });
    const groupsShown = [...shown].sort((a, b) => a - b), of = group => getComputedStyle(kept.dots[groups.indexOf(group)]).fill;
    return sheet(root, svg.clientWidth, svg.clientHeight, drawn, colours ? groupsShown.map(group => [of(group), legend[group]])
      : [[RAMP[0], legend[0]], [RAMP[2], legend[1]]]);
  }
  function look(i, told = true) {
    kept.dots.forEach((dot, n) => dot.classList.toggle("at", n === i));
    root.dataset.at = i ?? "";
    kept.at = i;
    tip.hidden = i === null || !told;
    if (tip.hidden) return;
    tip.replaceChildren(el("b", "", names[i]), notes[i] ?? "");
    const [x, y] = spots[i], { offsetWidth: w, offsetHeight: h } = tip;
    tip.style.transform = `translate(${Math.max(0, Math.min(plane.clientWidth - w, x + 14 + w < plane.clientWidth ? x + 14 : x - 14 - w))}px, ${Math.max(0, Math.min(plane.clientHeight - h, y - h / 2))}px)`;
  }
  const near = event => {
    const box = svg.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    const far = spots.map(([a, b]) => Math.hypot(a - x, b - y)), best = far.indexOf(Math.min(...far));
    return far[best] <= 22 ? best : null;
  };
  const pick = i => setTriggerValue("picked", i);
  svg.onpointermove = event => { const i = near(event); if (i !== kept.at || tip.hidden) look(i); };
  svg.onpointerleave = event => { if (event.pointerType !== "touch") look(null); };
  svg.onclick = event => { const i = near(event); look(i); if (i !== null) pick(i); };
  svg.onblur = () => look(null);
  svg.onkeydown = event => {                           // to the nearest head in the arrow's direction, Enter opens it
    const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key], from = kept.at ?? marks[0]?.head ?? 0;
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if ((event.key === "Enter" || event.key === " ") && kept.at !== null) { event.preventDefault(); pick(kept.at); }
    if (!way) return;
    event.preventDefault();
    const cost = ([x, y]) => {
      const dx = x - spots[from][0], dy = y - spots[from][1], along = dx * way[0] + dy * way[1];
      return along > 0.5 ? along + 2.5 * Math.abs(dx * way[1] + dy * way[0]) : Infinity;
    };
    const costs = spots.map((spot, i) => i === from ? Infinity : cost(spot)), best = costs.indexOf(Math.min(...costs));
    look(costs[best] < Infinity ? best : from);
  };
  return live(root, paint);
}
