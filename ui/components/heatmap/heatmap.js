import { begin, digits, el, gaze, label, live, theme, widest } from "../gaze.shared/shared.js";
import { paintBar, paintCells } from "./painting.js";

/** The numbers with one more column, the sink's. */
function wider(array, Q, last) {
  const K = array.length / Q + 1, wide = new array.constructor(Q * K);
  for (let r = 0; r < Q; r++) { wide.set(array.subarray(r * (K - 1), (r + 1) * (K - 1)), r * K); wide[r * K + K - 1] = last(r); }
  return Object.assign(wide, { places: array.places });
}

export default function ({ data, parentElement }) {
  const { root, kept, first, meta, arrays } = begin(parentElement, data);
  const { view, queries, keys, words, factor } = meta, Q = queries.length, K = keys.length;
  const { scaled, steps } = arrays, { show } = meta, signed = show !== "weights";
  let { raw, final, weights, allowed } = arrays;
  if (steps) final = Object.assign(steps.subarray(-raw.length), { places: steps.places });
  if (meta.sink) {                                   // it has a weight, and no score
    weights = wider(weights, Q, r => arrays.sink[r]); allowed = wider(allowed, Q, () => 1);
    raw &&= wider(raw, Q, () => NaN); final &&= wider(final, Q, () => NaN);
  }
  if (first) {
    const looks = { frame: "frame", corner: "corner", columns: "", rows: "rows", plot: "plot", bar: "", tip: "tip",
      row: "mark band", column: "mark band", pinned: "mark pinned", spot: "mark spot" };
    for (const [name, look] of Object.entries(looks)) kept[name] = el("div", look);
    kept.canvas = el("canvas", "map");
    kept.plot.append(kept.canvas, kept.row, kept.column, kept.pinned, kept.spot);
    kept.frame.append(kept.corner, kept.columns, kept.rows, kept.plot, kept.bar);
    root.append(kept.frame, kept.tip);
    Object.assign(kept.canvas, { tabIndex: 0, role: "img" });
    kept.tip.role = "status";
    kept.tip.popover = "manual";                     // the top layer: nothing on the page can clip it or be widened by it
    kept.tip.hidden = true;
  }
  const { corner, columns, rows, plot, canvas, bar, tip } = kept;
  canvas.ariaLabel = words.alt ?? "";
  Object.assign(root.dataset, { rows: Q, cols: K, show });
  corner.replaceChildren(el("span", "", `${words.key ?? ""} \u2192`), el("span", "", `${words.query ?? ""} \u2193`));
  if (kept.cell && (kept.cell[0] >= Q || kept.cell[1] >= K)) kept.cell = null;

  const scaledAt = i => scaled ? scaled[i] : raw[i] * factor;
  const valueAt = show === "raw" ? i => raw[i] : show === "scaled" ? scaledAt : i => weights[i];
  const blocked = i => allowed !== undefined && !allowed[i];
  let cell, rowLabels, columnLabels;                 // css px of a cell; label elements by position (thinned: not all)

  function paint(scale) {
    const started = performance.now(), look = theme(root), dpr = window.devicePixelRatio || 1, width = root.clientWidth;
    // Room for the labels first, then the cells: square, at most 44 px, whole device pixels unless that wastes a fifth.
    let font = 14 * scale;
    const axes = widest([...corner.children].map(axis => axis.textContent), 13 * scale, root) + 14;
    const left = Math.ceil(Math.max(Math.min(widest(queries, font, root) + 14, width * 0.27), axes));
    const long = Math.ceil(Math.min(widest(keys, font, root) + 6, 110 * scale)), slanted = (width - left) / K >= 20 * scale;
    const high = slanted ? Math.ceil(long * 0.71 + 18 * scale) : long + 12, beyond = slanted ? Math.ceil(long * 0.71) : 4;
    const fit = Math.min((width - left - beyond) / K, 720 * scale / Q) * dpr;   // and the whole map fits a screen
    cell = Math.min(44 * scale, (Math.floor(fit) > 0.8 * fit ? Math.floor(fit) : fit) / dpr);
    cell = Math.max(cell, 0.5 / dpr);
    font = Math.max(13, Math.min(font, cell * (slanted ? 0.55 : 0.95)));
    const w = K * cell, h = Q * cell;
    root.style.setProperty("--font", font); root.style.setProperty("--reach", long + "px");
    columns.className = `columns ${slanted ? "slanted" : "upright"}`;
    Object.assign(rows.style, { width: left + "px", height: h + "px" });
    Object.assign(columns.style, { width: w + "px", height: high + "px", marginRight: beyond + "px" });
    Object.assign(plot.style, { width: w + "px", height: h + "px" });
    const crowded = Math.max(4, 11 * scale - cell / 2);              // the first labels reach beyond the map
    corner.style.padding = `0 ${crowded + 4}px ${crowded}px 0`;
    const step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].find(n => n * cell >= (n === 1 ? 12 : 17 * scale)) ?? 2000;
    const labels = (box, texts, side) => {
      const made = new Map();
      for (let i = 0; i < texts.length; i += step) {
        const tag = Object.assign(el("span", "", label(texts[i])), { title: texts[i] });
        tag.style[side] = (i + 0.5) * cell + "px";
        made.set(i, tag);
      }
      box.replaceChildren(...made.values());
      return made;
    };
    rowLabels = labels(rows, queries, "top"); columnLabels = labels(columns, keys, "left");

    const { lo, hi } = meta, most = signed ? Math.max(Math.abs(lo ?? 0), Math.abs(hi ?? 0)) || 1 : hi || 1;
    const scene = { Q, K, cell, dpr, scale, look, valueAt, blocked, signed, least: signed ? -most : 0, most,
      log: Boolean(meta.log) && !signed, stops: signed ? [look.blue, look.ground, look.orange] : [look.ground, look.accent] };
    paintCells(canvas, scene);
    paintBar(bar, scene, signed ? lo ?? -most : 0, signed ? hi ?? most : most, words[show] ?? "");
    mark();
    root.dataset.paintMs = (performance.now() - started).toFixed(2);
  }

  // Row and column that are looked at, from here or from another component of the view.
  function mark() {
    const started = performance.now(), hover = gaze.hover(view), pin = gaze.pin(view), w = K * cell, h = Q * cell;
    const place = (box, shown, x, y, dx, dy) => {
      box.hidden = !shown;
      if (shown) Object.assign(box.style, { transform: `translate(${x}px, ${y}px)`, width: dx + "px", height: dy + "px" });
    };
    const r = hover?.query ?? null, c = hover?.key ?? null;
    place(kept.row, r !== null, 0, r * cell, w, cell);
    place(kept.column, c !== null, c * cell, 0, cell, h);
    place(kept.spot, r !== null && c !== null && cell >= 4, c * cell, r * cell, cell, cell);
    place(kept.pinned, pin !== null, 0, pin * cell, w, cell);
    kept.lit?.forEach(tag => tag?.classList.remove("lit"));
    kept.lit = [rowLabels.get(r), rowLabels.get(pin), columnLabels.get(c)];
    kept.lit.forEach(tag => tag?.classList.add("lit"));
    root.dataset.pin = pin ?? "";
    if (kept.tipAt?.r === r && kept.tipAt?.c === c) explain(); else hide();
    if (hover) root.dataset.hoverMs = (performance.now() - started).toFixed(3);
  }
  // Looking at a cell only notes it; what follows is drawn once a frame, however often the pointer moved.
  function lookAt(r, c, x, y) {                        // x, y: in the window, where the tip stands beside
    const same = kept.tipAt?.r === r && kept.tipAt?.c === c;
    kept.tipAt = { r, c, x, y };
    root.dataset.hover = `${r},${c}`;
    if (same && !tip.hidden && kept.told) { stand(); return; }
    const before = gaze.hover(view);
    kept.told = false;
    gaze.setHover(view, { query: r, key: c });
    if (gaze.hover(view) === before) explain();      // someone else was there already
  }
  function explain() {
    kept.told = true;
    const { r, c } = kept.tipAt, i = r * K + c, lines = [];
    const add = (kind, name, text) => {
      lines.push(el("div", kind === show ? "line main" : "line", el("span", "", name ?? ""), el("span", "", text)));
    };
    const number = array => digits(array[i], array.places ?? 4);
    if (raw && Number.isFinite(raw[i])) {
      add("raw", words.raw, number(raw));
      if (factor) {
        add("factor", words.factor, `\u00d7 ${meta.factor_text}`);
        add("scaled", words.scaled, `= ${digits(scaledAt(i), 4)}`);
      }
    }
    if (scaled) add("scaled", words.scaled, number(scaled));
    if (final && Number.isFinite(final[i]) && !blocked(i)) add("final", words.final, number(final));
    const far = words.too_far && c + Q - (K - (meta.sink ? 1 : 0)) <= r;       // before the query: outside the window
    if (blocked(i)) add("closed", far ? words.too_far : words.not_allowed, "");
    else if (weights) add("weights", words.weights, number(weights));
    tip.replaceChildren(el("div", "pair", label(queries[r]), " \u2192 ", label(keys[c])), ...lines);
    if (tip.hidden) { tip.hidden = false; tip.showPopover?.(); }
    // Measuring makes the browser lay out the page in the middle of a hover; so only when the size may have changed.
    const shape = `${lines.length} ${kept.scale} ${queries[r].length + keys[c].length > 20 ? `${r} ${c}` : ""}`;
    if (kept.tipShape !== shape) Object.assign(kept, { tipShape: shape, tipSize: [tip.offsetWidth, tip.offsetHeight] });
    stand();
  }
  function stand() {
    const [wide, high] = kept.tipSize, { x, y } = kept.tipAt;
    const beside = (from, size, room) => {
      const after = from + 18, before = from - 18 - size;
      return Math.max(8, Math.min(after + size <= room ? after : before, room - size));
    };
    tip.style.left = beside(x, wide, document.documentElement.clientWidth - 8) + "px";
    tip.style.top = beside(y, high, window.innerHeight - 8) + "px";
  }
  function hide() {
    kept.tipAt = null;
    if (!tip.hidden) { tip.hidePopover?.(); tip.hidden = true; }
    delete root.dataset.hover;
  }
  const leave = () => { hide(); gaze.setHover(view, null); };
  const at = event => {
    const box = canvas.getBoundingClientRect(), limit = (v, n) => Math.max(0, Math.min(n - 1, Math.floor(v)));
    return [limit((event.clientY - box.top) / cell, Q), limit((event.clientX - box.left) / cell, K)];
  };
  const pin = r => gaze.setPin(view, gaze.pin(view) === r ? null : r);
  canvas.onpointermove = event => lookAt(...at(event), event.clientX, event.clientY);
  canvas.onpointerdown = canvas.onpointermove;
  canvas.onpointerleave = event => { if (event.pointerType !== "touch") leave(); };   // a tap's tip stays until the next tap
  canvas.onblur = leave;
  canvas.onclick = event => { kept.cell = at(event); pin(kept.cell[0]); };
  canvas.onkeydown = event => {
    const [r, c] = kept.cell ?? [gaze.pin(view) ?? 0, 0];
    const to = { ArrowUp: [r - 1, c], ArrowDown: [r + 1, c], ArrowLeft: [r, c - 1], ArrowRight: [r, c + 1],
      Home: [r, 0], End: [r, K - 1] }[event.key];
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); pin(r); }
    if (!to) return;
    event.preventDefault();
    kept.cell = [Math.max(0, Math.min(Q - 1, to[0])), Math.max(0, Math.min(K - 1, to[1]))];
    const box = canvas.getBoundingClientRect();
    lookAt(...kept.cell, box.left + (kept.cell[1] + 0.5) * cell, box.top + (kept.cell[0] + 0.5) * cell);
  };

  hide();
  gaze.join(root, meta, mark);
  const stop = live(root, paint);
  return () => { hide(); stop(); };
}
