import { begin, css, digits, el, live, theme } from "../gaze.shared/shared.js";

const DASHES = ["", "9 5", "2 4", "12 4 2 4"], HIGH = 300, TICKS = [5, 4];

function draw(tag, marks, ...content) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(marks)) element.setAttribute(name, value);
  element.append(...content);
  return element;
}

export default function ({ data, parentElement }) {
  const { root, kept, first, meta, arrays } = begin(parentElement, data);
  const { names, seeds, total, top, words } = meta, { losses } = arrays, [layers, runs, length] = losses.shape;
  const loss = (layer, run, step) => losses[(layer * runs + run) * length + step];
  if (first) {
    kept.legend = el("div", "legend"); kept.read = el("div", "read");
    kept.svg = draw("svg", { role: "img", tabindex: 0 });
    root.replaceChildren(kept.legend, kept.svg, kept.read);
  }
  const { legend, svg, read } = kept;
  root.dataset.step = length - 1;
  svg.setAttribute("aria-label", words.alt);

  const stop = live(root, scale => {
    const look = theme(root), colours = [css(look.orange), css(look.accent)];
    const sample = (stroke, dash, name) => el("span", "", draw("svg", { viewBox: "0 0 30 10" },
      draw("line", { x1: 0, y1: 5, x2: 30, y2: 5, stroke, "stroke-width": 3, "stroke-dasharray": dash })), name);
    legend.replaceChildren(...names.map((name, i) => sample(colours[i], "", name)),
      ...seeds.map((seed, i) => sample(css(look.text), DASHES[i % DASHES.length], `${words.seed} ${seed}`)));
    const wide = root.clientWidth, high = HIGH * scale, left = 34 * scale, base = high - 40 * scale, head = 10;
    const x = step => left + step / total * (wide - left - 14), y = value => base - Math.min(value / top, 1) * (base - head);
    svg.setAttribute("viewBox", `0 0 ${wide} ${high}`);
    svg.style.height = `${high}px`;
    const parts = [];
    for (let i = 0; i <= TICKS[1]; i++) {
      const value = top * i / TICKS[1];
      parts.push(draw("line", { class: "grid", x1: left, x2: wide - 14, y1: y(value), y2: y(value) }),
        draw("text", { x: left - 8, y: y(value) + 4 * scale, "text-anchor": "end" }, String(value)));
    }
    for (let i = 0; i <= TICKS[0]; i++) {
      const step = Math.round(total * i / TICKS[0]);
      parts.push(draw("text", { x: x(step), y: base + 18 * scale, "text-anchor": "middle" }, String(step)));
    }
    parts.push(draw("text", { x: (left + wide) / 2, y: base + 36 * scale, "text-anchor": "middle" }, words.step));
    for (let layer = 0; layer < layers; layer++) for (let run = 0; run < runs; run++) {
      const points = Array.from({ length }, (_, step) => `${x(step).toFixed(1)},${y(loss(layer, run, step)).toFixed(1)}`);
      parts.push(length > 1
        ? draw("polyline", { points: points.join(" "), stroke: colours[layer], "stroke-dasharray": DASHES[run % DASHES.length] })
        : draw("circle", { cx: x(0), cy: y(loss(layer, run, 0)), r: 4, fill: colours[layer] }));
    }
    const rule = draw("line", { class: "rule", y1: head, y2: base, visibility: "hidden" });
    svg.replaceChildren(...parts, rule);

    // Pointing, or the arrow keys, reads the losses of a step.
    kept.point = step => {
      kept.step = step === null ? null : Math.max(0, Math.min(length - 1, step));
      rule.setAttribute("visibility", kept.step === null ? "hidden" : "visible");
      if (kept.step === null) { read.textContent = ""; return; }
      rule.setAttribute("x1", x(kept.step)); rule.setAttribute("x2", x(kept.step));
      const of = layer => seeds.map((_, run) => digits(loss(layer, run, kept.step), 2)).join(" · ");
      read.textContent = `${words.step} ${kept.step}: ${names.map((name, layer) => `${name} ${of(layer)}`).join("  |  ")}`;
    };
    kept.point(kept.step ?? null);
    svg.onpointermove = event => {
      const at = event.clientX - svg.getBoundingClientRect().left;
      kept.point(Math.round((at - left) / (wide - left - 14) * total));
    };
    svg.onpointerleave = svg.onblur = () => kept.point(null);
    svg.onkeydown = event => {
      const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!move) return;
      event.preventDefault();
      kept.point((kept.step ?? length - 1) + move * (event.shiftKey ? 10 : 1));
    };
  });
  return stop;
}
