import { begin, css, digits, el, gaze, label, live, rgb } from "../gaze.shared/shared.js";

/** A share as people write it: never 0 for what is above 0, nor 100 % for what is below 1. */
function share(weight) {
  const percent = weight * 100;
  if (weight <= 0) return "0%";
  if (percent < 0.1) return "<0.1%";
  if (weight < 1 && percent >= 99.95) return ">99.9%";
  return `${percent >= 9.95 && percent < 99.5 || weight >= 1 ? percent.toFixed(0) : percent.toFixed(1)}%`;
}
const WIDE = 200, HIGH = 300;                        // pixels of the blended poster
/** The posters' pixels; an SVG is drawn once, when it has been read. */
async function pixelsOf(posters) {
  const pen = new OffscreenCanvas(WIDE, HIGH).getContext("2d", { willReadFrequently: true });
  const images = posters.map(svg => Object.assign(new Image(), { src: source(svg) }));
  await Promise.all(images.map(image => image.decode()));
  return images.map(image => { pen.drawImage(image, 0, 0, WIDE, HIGH); return pen.getImageData(0, 0, WIDE, HIGH).data; });
}
const source = svg => "data:image/svg+xml," + encodeURIComponent(svg);
/** weights · V, pixel by pixel: no layers of the browser's, which would round 24 times. */
function mean(pixels, weights) {
  const sum = new Float32Array(WIDE * HIGH * 4), image = new ImageData(WIDE, HIGH);
  pixels.forEach((values, i) => {
    const weight = weights[i];
    if (weight > 0) for (let p = 0; p < sum.length; p++) sum[p] += weight * values[p];
  });
  image.data.set(sum);                               // a Uint8ClampedArray: rounds
  return image;
}
const SMALLEST = 0.5;                                // of a poster that has no weight, so that it can still be seen
const sizeOf = weight => SMALLEST + (1 - SMALLEST) * Math.sqrt(weight);

export default function ({ data, parentElement }) {
  const { root, kept, first, meta, arrays } = begin(parentElement, data);
  const { view, queries, keys, groups, posters, tags, about, words } = meta, K = keys.length, films = posters.length > 0;
  const fill = (text, values) => text.replace(/\{(\w+)\}/g, (_, name) => values[name]);
  if (first) {
    root.role = "group";
    kept.asks = el("div", "asks"); kept.wall = el("div", "wall"); kept.detail = el("div", "detail"); kept.blend = el("div", "blend");
    kept.colours = el("div", "colours"); kept.list = el("ol", "list"); kept.spoken = el("div", "spoken"); kept.spoken.ariaLive = "polite";
    kept.keyName = el("p", "stage"); kept.valueName = el("p", "stage"); kept.askName = el("p", "stage");
    root.append(kept.askName, kept.asks, el("div", "sides", el("div", "left", kept.keyName, kept.wall, kept.detail),
      el("div", "right", kept.valueName, el("div", "mixed", kept.blend, kept.colours), kept.list)), kept.spoken);
  }
  const { asks, wall, detail, blend, colours, list, spoken } = kept;
  root.ariaLabel = words.alt;
  root.classList.toggle("films", films);
  kept.askName.textContent = words.query; kept.keyName.textContent = words.keys; kept.valueName.textContent = words.value;
  kept.askName.hidden = asks.hidden = queries.length < 2;

  // Built again only when the things change: a new query or temperature moves what is there.
  const picture = i => {
    if (!films) return el("span", "card", label(keys[i]));
    const image = Object.assign(new Image(), { src: source(posters[i]), alt: "", draggable: false });
    image.className = "poster";
    return image;
  };
  const same = JSON.stringify([queries, keys, groups, posters, tags, words]);
  if (kept.same !== same) {
    kept.same = same; kept.look = null; kept.tab = 0;
    kept.cells = keys.map((name, i) => {
      const cell = el("button", "cell", el("span", "frame", picture(i)), el("span", "track", el("span", "bar")), el("span", "percent"));
      Object.assign(cell, { type: "button", tabIndex: i ? -1 : 0, ariaLabel: name });
      cell.dataset.k = i;
      cell.classList.toggle("muted", Boolean(meta.muted[i]));
      return cell;
    });
    kept.layers = films ? [] : keys.map((_, i) => { const layer = picture(i); layer.classList.add("layer"); return layer; });
    kept.canvas = films ? Object.assign(el("canvas"), { width: WIDE, height: HIGH }) : null;
    blend.replaceChildren(...(films ? [kept.canvas] : kept.layers));
    kept.pixels = null;
    if (films) pixelsOf(posters).then(pixels => { if (kept.same === same) { kept.pixels = pixels; kept.mix(); } });
    wall.replaceChildren(...(groups.length ? groups.map((name, g) => el("div", "group", el("span", "name", name),
      ...kept.cells.filter((_, i) => meta.group[i] === g))) : kept.cells));
    kept.asked = (queries.length > 1 ? queries : []).map((name, i) => {
      const ask = Object.assign(el("button", "ask", label(name)), { type: "button" });
      ask.dataset.q = i;
      ask.classList.toggle("muted", Boolean(meta.muted[i]));
      return ask;
    });
    asks.replaceChildren(...kept.asked);
  }
  const { cells, layers } = kept;

  let query = 0, order = [];
  const row = (name, q = query) => arrays[name].subarray(q * K, (q + 1) * K);
  function show() {
    const pin = gaze.pin(view), hover = gaze.hover(view)?.query ?? null;
    query = pin ?? hover ?? meta.default;
    const weights = row("weights"), opacity = row("opacity");
    order = Array.from(weights, (weight, i) => [weight, i]).sort((a, b) => b[0] - a[0] || a[1] - b[1]).map(pair => pair[1]);
    cells.forEach((cell, i) => {
      const weight = weights[i], [frame, track, percent] = cell.children;
      frame.style.setProperty("--size", sizeOf(weight));
      frame.style.setProperty("--ink", Math.min(1, 0.58 + 1.6 * Math.sqrt(weight)));
      track.firstChild.style.width = `${100 * weight}%`;
      percent.textContent = share(weight);
      cell.classList.toggle("first", i === order[0]);
      cell.dataset.weight = weight;
      if (layers[i]) layers[i].style.opacity = opacity[i];
    });
    kept.asked.forEach((ask, i) => { ask.ariaPressed = String(i === query); ask.classList.toggle("on", i === query); });
    const C = arrays.colours.shape[1], at = query * C * 3;
    colours.replaceChildren(...Array.from({ length: C }, (_, c) => {
      const rgb = Array.from(arrays.colours.subarray(at + 3 * c, at + 3 * c + 3), v => Math.round(255 * v));
      const dot = el("span", "dot");
      dot.style.background = css(rgb); dot.title = rgb.join(" ");
      return dot;
    }), ...(C ? [el("span", "why", words.colours)] : []));
    contributions(weights);
    tell(kept.look);
    kept.mix();
    spoken.textContent = order.slice(0, 3).map(i => `${keys[i]} ${share(weights[i])}`).join(", ");
    root.dataset.query = query; root.dataset.first = order[0];
  }
  kept.mix = () => {
    if (!kept.pixels) return;
    kept.canvas.getContext("2d").putImageData(mean(kept.pixels, row("weights")), 0, 0);
    root.dataset.mixed = order[0];
  };
  function contributions(weights) {
    const shown = order.filter(i => weights[i] > 0).slice(0, meta.most);
    const rest = keys.length - shown.length, left = Math.max(0, 1 - shown.reduce((sum, i) => sum + weights[i], 0));
    list.replaceChildren(...shown.map(i => {
      const line = el("li", "", el("b", "", share(weights[i])), el("span", "text", el("span", "title", fill(words.part, { title: keys[i] }))));
      if (about.length) line.lastChild.append(el("span", "about", about[i]));
      line.style.setProperty("--ink", Math.min(1, 0.55 + weights[i]));
      return line;
    }), ...(rest ? [el("li", "rest", el("b", "", weights[order[shown.length]] > 0 ? share(left) : "0%"), el("span", "text", fill(words.rest, { rest })))] : []));
  }
  /** What is pointed at, else the first: its tags, its score, its weight. */
  function tell(i) {
    const at = i ?? order[0], chips = (tags[at] ?? []).map((tag, n) => el("span", n < meta.used ? "tag" : "tag unused", tag));
    cells.forEach((cell, n) => cell.classList.toggle("look", n === i));
    detail.replaceChildren(
      el("div", "head", el("b", "", label(keys[at])), ...(chips.length ? [el("span", "tags", ...chips)] : [])),
      el("div", "sum", `${words.score} ${digits(row("raw")[at], 3)} × ${meta.factor_text} = ${digits(row("scaled")[at], 2)}  →  ${words.weight} `,
        el("b", "", share(row("weights")[at]))));
    root.dataset.look = at;
  }
  function look(i) { if (kept.look !== i) { kept.look = i; tell(i); } }
  const thing = event => { const cell = event.target.closest?.(".cell"); return cell ? +cell.dataset.k : null; };
  wall.onpointerover = event => { const i = thing(event); if (i !== null) look(i); };
  wall.onpointerleave = event => { if (event.pointerType !== "touch") look(null); };
  wall.onclick = event => look(thing(event));
  cells.forEach((cell, i) => {                         // browsers have no onfocusin
    cell.onfocus = () => { if (cell.matches(":focus-visible")) look(i); };
    cell.onblur = () => look(null);
  });
  wall.onkeydown = event => {
    const i = thing(event), column = groups.length ? meta.group.filter(g => g === 0).length : 1, down = groups.length ? 1 : 0;
    const to = { ArrowLeft: i - column, ArrowRight: i + column, ArrowUp: i - down, ArrowDown: i + down, Home: 0, End: K - 1 }[event.key];
    if (i === null || to === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const next = Math.max(0, Math.min(K - 1, to));
    cells[kept.tab].tabIndex = -1; kept.tab = next; cells[next].tabIndex = 0;
    cells[next].focus();
  };
  const asked = event => { const ask = event.target.closest?.(".ask"); return ask ? +ask.dataset.q : null; };
  asks.onpointerover = event => { if (event.pointerType !== "touch" && asked(event) !== null) gaze.setHover(view, { query: asked(event), key: null }); };
  asks.onpointerleave = () => gaze.setHover(view, null);
  asks.onclick = event => {
    const q = asked(event);
    if (q !== null) gaze.setPin(view, gaze.pin(view) === q ? null : q);
  };

  gaze.join(root, meta, show);
  return live(root, scale => {
    const wide = root.clientWidth >= 640 * scale;
    root.classList.toggle("wide", wide);
    root.style.setProperty("--columns", groups.length ? (wide ? groups.length : Math.ceil(groups.length / 2)) : 1);
    show();
  });
}
