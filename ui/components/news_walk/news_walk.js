import { begin, css, drawing, el, live, theme, widest } from "../gaze.shared/shared.js";

const BEATS = [140, 600], ALL = 7000;                // ms of a step, at least and at most, and of the longest walk

export default function ({ data, parentElement, setTriggerValue }) {
  const { root, kept, first, meta } = begin(parentElement, data);
  const { tokens, ends, lanes, words } = meta, longest = Math.max(1, ...lanes.map(lane => lane.places.length - 1));
  const beat = Math.max(BEATS[0], Math.min(BEATS[1], ALL / longest)), walk = JSON.stringify([tokens, ends, lanes.map(lane => lane.places)]);
  if (first) {
    kept.play = Object.assign(el("button", "play"), { type: "button" });
    kept.lanes = el("div", "lanes");
    root.append(kept.play, kept.lanes);
    root.role = "group";
  }
  root.ariaLabel = words.alt;
  kept.play.textContent = `\u25b6 ${words.play}`;
  kept.play.onclick = () => play();

  function paint(scale) {
    const look = theme(root), accent = css(look.accent), text = css(look.text), wide = root.clientWidth, pad = 26 * scale, size = 13 * scale;
    const gap = tokens.length > 1 ? (wide - 2 * pad) / (tokens.length - 1) : 0, x = i => tokens.length > 1 ? pad + i * gap : wide / 2;
    const every = widest(tokens, size, root) + 8 < gap;      // whether each word has room
    const shown = i => every || ends.includes(i);
    kept.drawn = lanes.map(({ kind, name, places, layers }) => {
      const tall = kind === "convolution", level = 26 * scale, high = tall ? Math.max(1, layers) * level + 12 * scale : 58 * scale, base = high;
      const y = step => tall ? base - step * level : base, parts = [], hops = [];
      for (let step = 0; step <= (tall ? layers : 0); step++) for (let i = 0; i < tokens.length; i++) {
        const dot = drawing("circle", { cx: x(i), cy: y(step), r: (ends.includes(i) && (!tall || step === 0 || step === layers) ? 4.5 : 2.5) * scale, fill: text, "fill-opacity": ends.includes(i) ? 0.9 : 0.35 });
        parts.push(dot);
      }
      for (let step = 1; step < places.length; step++) {
        const [a, b] = [places[step - 1], places[step]], up = Math.min(48 * scale, (10 + 5 * Math.abs(b - a)) * scale);
        const d = tall ? `M${x(a)} ${y(step - 1)}L${x(b)} ${y(step)}` : `M${x(a)} ${base}Q${(x(a) + x(b)) / 2} ${base - 2 * up} ${x(b)} ${base}`;
        hops.push(drawing("path", { d, fill: "none", stroke: accent, "stroke-width": 2.5 * scale, "stroke-linecap": "round" }));
      }
      const ball = drawing("circle", { r: 7 * scale, fill: accent });
      const names = tokens.flatMap((word, i) => shown(i) ? [drawing("text", {
        x: Math.max(2, Math.min(wide - 2, x(i))), y: base + 20 * scale, fill: text, "font-size": size, "font-weight": ends.includes(i) ? 650 : 400,
        "text-anchor": every || (x(i) > 80 && x(i) < wide - 80) ? "middle" : x(i) < wide / 2 ? "start" : "end" }, word)] : []);
      const spots = tokens.map((word, i) => {
        const spot = drawing("rect", { x: x(i) - Math.max(gap, 20) / 2, y: base - 14 * scale, width: Math.max(gap, 20), height: 40 * scale, fill: "transparent", class: "spot" }, drawing("title", {}, word));
        spot.onclick = () => pick(i);
        return spot;
      });
      const svg = drawing("svg", { viewBox: `0 0 ${wide} ${base + 28 * scale}`, height: base + 28 * scale, "aria-hidden": "true" }, ...parts, ...hops, ball, ...names, ...spots);
      const said = el("span", "said"), lane = el("div", "lane", el("div", "head", el("b", "", name), said), svg);
      return { lane, hops, ball, said, at: step => [x(places[step]), y(step)] };
    });
    kept.lanes.replaceChildren(...kept.drawn.map(({ lane }) => lane));
    show();
  }

  function show() {
    const time = kept.begun === null ? Infinity : performance.now() - kept.begun;
    lanes.forEach(({ places, said }, n) => {
      const { hops, ball, said: line, at, lane } = kept.drawn[n], last = places.length - 1, step = Math.min(last, Math.floor(time / beat));
      const [x, y] = at(step);
      hops.forEach((hop, i) => hop.setAttribute("stroke-opacity", i < step ? 1 : 0.13));
      ball.setAttribute("cx", x); ball.setAttribute("cy", y);
      line.textContent = step < last ? `${step} / ${last}` : said;
      lane.classList.toggle("there", step === last);
      lane.dataset.step = step;
    });
    root.dataset.running = kept.begun === null ? "no" : "yes";
    if (kept.begun !== null && time < (longest + 1) * beat) kept.frame = requestAnimationFrame(show);
    else if (kept.begun !== null) { kept.begun = null; show(); }
  }
  function play() {
    cancelAnimationFrame(kept.frame);
    kept.begun = matchMedia("(prefers-reduced-motion: reduce)").matches ? null : performance.now();
    show();
  }
  function pick(i) {
    const near = Math.abs(i - ends[0]) <= Math.abs(i - ends[1]) ? 0 : 1, next = [...ends];
    next[near] = i;
    next.sort((a, b) => a - b);
    if (next[0] !== next[1]) setTriggerValue("ends", next);
  }
  Object.assign(root.dataset, { ends: ends.join("-"), steps: lanes.map(lane => lane.places.length - 1).join("-") });
  const moved = kept.walk !== undefined && kept.walk !== walk;
  kept.walk = walk;
  cancelAnimationFrame(kept.frame);
  kept.begun ??= null;
  const stop = live(root, paint);
  if (moved) play(); else if (kept.begun !== null) show();
  return () => { cancelAnimationFrame(kept.frame); stop(); };
}
