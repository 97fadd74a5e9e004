import { begin, css, digits, drawing, el, gaze, label, live, mix, pictureButtons, sheet, theme } from "../gaze.shared/shared.js";
import { outline, paintPicture, pictureCanvas } from "./painting.js";

export default function ({ data, parentElement, setTriggerValue }) {
  const { root, kept, first, meta, arrays } = begin(parentElement, data);
  const { view, queries, words, grid: [rows, columns], window: chosen } = meta;
  const { picture, weights, allowed, places, owner } = arrays, N = queries.length;
  if (first) {
    for (const side of ["from", "to"]) {
      const canvas = Object.assign(el("canvas"), { tabIndex: 0, role: "img" });
      kept[side] = { canvas, title: el("div", "title"), chips: el("div", "chips") };
      kept[side].box = el("div", `side ${side}`, kept[side].title, canvas, kept[side].chips);
    }
    Object.assign(kept, { pair: el("div", "pair", kept.from.box, kept.to.box), bar: el("div", "bar"), status: el("div", "status"), foot: el("div", "foot") });
    kept.status.role = "status";
    root.append(kept.pair, kept.status, kept.foot);
  }
  const { from, to, status } = kept, at = new Map();      // the token of each patch that is shown
  const place = i => [places[2 * i], places[2 * i + 1]], patches = [], others = [];
  for (let i = 0; i < N; i++) {
    const [r, c] = place(i);
    if (r >= 0) { at.set(r * columns + c, i); patches.push(i); } else others.push(i);
  }
  const pads = others.filter(i => queries[i] === "[PAD]"), named = others.filter(i => queries[i] !== "[PAD]");
  from.title.textContent = words.from; to.title.textContent = words.to;
  from.canvas.ariaLabel = words.from_alt; to.canvas.ariaLabel = words.to_alt;
  Object.assign(root.dataset, { tokens: N, rows, columns, window: chosen ?? "" });

  const asks = () => gaze.hover(view)?.query ?? gaze.pin(view) ?? meta.default;
  const fill = (text, values) => text.replace(/\{(\w+)\}/g, (all, name) => values[name] ?? all);
  const sum = (q, list) => list.reduce((all, k) => all + weights[q * N + k], 0);
  let scene, plain, faded;

  // The chips: tokens that are no patches. On the left they can be asked, on the right stands what they get.
  const chip = (i, side) => {
    const own = Object.assign(el(side === from ? "button" : "span", "chip", label(queries[i])), side === from ? { type: "button" } : {});
    own.dataset.token = i;
    if (side === from) {
      own.onpointerenter = own.onfocus = () => gaze.setHover(view, { query: i, key: null });
      own.onpointerleave = own.onblur = () => gaze.setHover(view, null);
      own.onclick = () => gaze.setPin(view, gaze.pin(view) === i ? null : i);
    } else {
      own.append(el("span", "number"));
      own.onpointerenter = () => gaze.setHover(view, { query: gaze.hover(view)?.query ?? null, key: i });
      own.onpointerleave = () => gaze.setHover(view, null);
    }
    return own;
  };
  from.chips.replaceChildren(...named.map(i => chip(i, from)));
  to.chips.replaceChildren(...named.map(i => chip(i, to)), ...pads.length ? [el("span", "chip pads", `[PAD] × ${pads.length}`, el("span", "number"))] : []);

  function paint(scale) {
    const look = theme(root), dpr = window.devicePixelRatio || 1, room = from.box.clientWidth, [share_h, share_w] = meta.cell;
    const [ph, pw] = picture.shape, ratio = (rows * share_h * ph) / (columns * share_w * pw);   // of the grid
    const width = Math.min(room, 470 * scale, 470 * scale / ratio), height = width * ratio;
    scene = { look, dpr, rows, columns, owner, chosen: chosen ?? null, width, height, cell: [height / rows, width / columns],
      wide: width / (columns * share_w), high: height / (rows * share_h) };
    plain = pictureCanvas(picture, look, false); faded = pictureCanvas(picture, look, true);
    kept.foot.replaceChildren(kept.bar, pictureButtons(words, meta.file, () => sheet(root, width, height,
      [drawing("image", { href: to.canvas.toDataURL(), width, height })], [[css(look.accent), strongest(asks())]])));
    mark();
  }

  function mark() {
    const q = asks(), pin = gaze.pin(view), key = gaze.hover(view)?.key ?? null, { look, cell } = scene;
    const left = paintPicture(from.canvas, scene, plain), right = paintPicture(to.canvas, scene, faded);
    const veil = (pen, r, c, colour) => { pen.fillStyle = colour; pen.fillRect(c * cell[1], r * cell[0], cell[1] + 0.5, cell[0] + 0.5); };
    const most = Math.max(1e-12, ...patches.map(k => weights[q * N + k]));
    const [r, g, b] = look.accent, ground = look.ground;
    for (let i = 0; i < rows * columns; i++) {
      const k = at.get(i), row = Math.floor(i / columns), column = i % columns;
      if (k === undefined) {
        veil(left, row, column, `rgba(${ground},.62)`); veil(right, row, column, `rgba(${ground},.8)`);
      } else if (!allowed[q * N + k]) veil(right, row, column, `rgba(${ground},.55)`);
      else veil(right, row, column, `rgba(${r},${g},${b},${(0.92 * weights[q * N + k] / most).toFixed(3)})`);
    }
    if (pin !== null && pin !== q) outline(left, scene, place(pin), css(mix(look.text, look.ground, 0.35)), 2);
    outline(left, scene, place(q), css(look.accent), 3); outline(right, scene, place(q), css(look.orange), 2);
    if (key !== null) outline(right, scene, place(key), css(look.text), 2.5);
    for (const own of from.chips.children) { own.classList.toggle("on", Number(own.dataset.token) === q); own.ariaPressed = String(Number(own.dataset.token) === pin); }
    for (const own of to.chips.children) {
      const weight = own.dataset.token === undefined ? sum(q, pads) : weights[q * N + Number(own.dataset.token)];
      own.lastChild.textContent = digits(weight, 3);
      own.classList.toggle("on", key !== null && Number(own.dataset.token) === key);
    }
    say(q, key);
    const strip = el("div", "ramp");
    strip.style.background = `linear-gradient(90deg, ${css(mix(ground, look.text, 0.12))}, ${css(look.accent)})`;
    kept.bar.replaceChildren(el("span", "", words.weight), el("span", "", "0"), strip, el("span", "", digits(most, 3)));
    Object.assign(root.dataset, { query: q, key: key ?? "", pin: pin ?? "", most: most.toFixed(4) });
  }
  function say(q, key) {
    const lines = [strongest(q)];
    if (named.length) lines.push(fill(words.shares, { patches: digits(sum(q, patches), 2), special: digits(sum(q, named), 2) }));
    if (pads.length) lines.push(fill(words.pads, { weight: digits(sum(q, pads), 2) }));
    const exact = key === null ? words.hint : allowed[q * N + key]
      ? fill(words.exact, { query: queries[q], key: queries[key], weight: digits(weights[q * N + key], 4) })
      : fill(words.masked, { query: queries[q], key: queries[key] });
    status.replaceChildren(el("div", "exact", exact), el("div", "", lines.join(" · ")));
  }
  function strongest(q) {
    const best = patches.reduce((top, k) => weights[q * N + k] > weights[q * N + top] ? k : top, patches[0]);
    return fill(words.most, { query: queries[q], key: queries[best], weight: digits(weights[q * N + best], 4) });
  }

  const cellAt = (canvas, event) => {
    const box = canvas.getBoundingClientRect(), limit = (v, n) => Math.max(0, Math.min(n - 1, Math.floor(v)));
    return [limit((event.clientY - box.top) / scene.cell[0], rows), limit((event.clientX - box.left) / scene.cell[1], columns)];
  };
  const tokenAt = ([r, c]) => at.get(r * columns + c);
  function choose(cell) {
    const token = tokenAt(cell), other = owner[cell[0] * columns + cell[1]];
    if (token === undefined) { if (other !== chosen) setTriggerValue("window", other); return; }
    gaze.setPin(view, gaze.pin(view) === token ? null : token);
  }
  const hovers = { from: token => ({ query: token, key: null }), to: token => ({ query: null, key: token }) };
  for (const side of ["from", "to"]) {
    const { canvas } = kept[side], show = cell => { const token = tokenAt(cell); gaze.setHover(view, token === undefined ? null : hovers[side](token)); };
    canvas.onpointermove = canvas.onpointerdown = event => show(cellAt(canvas, event));
    canvas.onpointerleave = event => { if (event.pointerType !== "touch") gaze.setHover(view, null); };
    canvas.onblur = () => { if ((gaze.hover(view)?.key != null) === (side === "to")) gaze.setHover(view, null); };   // the other's stays
    canvas.onclick = event => { const cell = cellAt(canvas, event); kept[side].cell = cell; if (side === "from") choose(cell); };
    canvas.onkeydown = event => {
      const [r, c] = kept[side].cell ?? (places[2 * asks()] >= 0 ? place(asks()) : place(patches[0]));
      const next = { ArrowUp: [r - 1, c], ArrowDown: [r + 1, c], ArrowLeft: [r, c - 1], ArrowRight: [r, c + 1], Home: [r, 0], End: [r, columns - 1] }[event.key];
      if (event.altKey || event.ctrlKey || event.metaKey) return;
      if ((event.key === "Enter" || event.key === " ") && side === "from") { event.preventDefault(); choose([r, c]); }
      if (!next) return;
      event.preventDefault();
      const cell = kept[side].cell = [Math.max(0, Math.min(rows - 1, next[0])), Math.max(0, Math.min(columns - 1, next[1]))];
      show(cell);
    };
  }

  gaze.join(root, meta, () => scene && mark());
  return live(root, paint);
}
