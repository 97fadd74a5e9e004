import { begin, digits, el, gaze, label, live } from "../gaze.shared/shared.js";

const WINDOW = 36;                                   // lines of a long table that exist at a time, between two gaps

export default function draw({ data, parentElement }) {
  let stop = null;
  const { root, kept, first, meta, arrays, leave } = begin(parentElement, data, () => { stop = draw({ data, parentElement }); });
  if (!root) return () => (stop ?? leave)();
  const { view, queries, keys, words, factor } = meta, { raw, weights, allowed, total, hidden, sink, steps } = arrays;
  const Q = queries.length, K = keys.length, long = K > 40, names = raw ? meta.steps ?? [] : [];
  if (first) {
    for (const name of ["title", "pick", "box", "more"]) kept[name] = el("div", name);
    kept.sorted = false;
    root.append(el("div", "head", kept.title, kept.pick), kept.box, kept.more);
    root.role = "group";
  }
  const { title, pick, box, more } = kept;
  root.ariaLabel = words.alt ?? "";
  pick.textContent = words.pick ?? "";
  more.textContent = long ? words.more ?? "" : "";
  box.className = long ? "box long" : "box";

  // The columns: what stands in the head (a small line: what is done; a big one: what comes out) and each cell's text.
  const columns = !raw ? [] : [
    { name: words.raw, text: i => digits(raw[i], 4) },
    { small: `\u00d7 ${meta.factor_text.split(" = ")[0]}`, name: words.scaled, title: meta.factor_text,
      text: i => digits(raw[i] * factor, 4) },
    ...names.map((name, s) => ({ name, text: i => digits(steps[s * Q * K + i], steps.places ?? 4) })),
  ];
  const sort = el("button", "", words.weights ?? "");
  sort.type = "button";
  const sorter = el("th", "weight", el("small", "", raw && words.softmax ? `\u2192 ${words.softmax}` : ""), sort);
  const named = ({ small = "", name = "", title = "" }) => Object.assign(el("th", "", el("small", "", small), name), { title });
  const head = el("tr", "", named({ name: words.key }), ...columns.map(named), sorter);
  [...head.cells].forEach(cell => { cell.scope = "col"; });
  const share = () => {
    const parts = { number: el("span", "number"), fill: el("div", "fill") };
    parts.cell = el("td", "weight", el("div", "share", parts.number, el("div", "track", parts.fill)));
    return parts;
  };
  const fill = (parts, value) => {
    parts.number.textContent = digits(value, 4);
    parts.fill.style.width = `${Math.min(100, 100 * value)}%`;
  };
  const lines = Array.from({ length: long ? WINDOW : K }, () => {
    const line = { word: el("td", "key"), cells: columns.map(() => el("td")), share: share() };
    line.tr = el("tr", "", line.word, ...line.cells, line.share.cell);
    return line;
  });
  const totals = ["hidden", "sink", "sum"].filter(kind => kind === "sum" || arrays[kind]).map(kind => {
    const total = { kind, share: share(), tr: el("tr", kind) };
    total.tr.append(Object.assign(el("td", "", words[kind] ?? ""), { colSpan: 1 + columns.length }), total.share.cell);
    return total;
  });
  const above = el("tr", "gap", el("td")), below = el("tr", "gap", el("td"));
  const body = el("tbody", "", above, ...lines.map(line => line.tr), below);
  const stay = box.scrollTop;
  const table = el("table", "", el("thead", "", head), body, el("tfoot", "", ...totals.map(total => total.tr)));
  table.ariaRowCount = K + 1 + totals.length;
  box.replaceChildren(table);
  box.scrollTop = stay;

  let row = 30, order = [], query = null, narrow = false;
  // A key that comes before the query and is closed all the same lies outside the window; a first token may be left out.
  const reason = k => words.too_far && k + Q - K <= query ? words.too_far : words.not_allowed ?? "";
  const chosen = () => gaze.pin(view) ?? gaze.hover(view)?.query ?? null;
  function show() {
    const next = chosen() ?? gaze.last(view) ?? Math.max(0, Math.min(Q - 1, meta.default ?? 0));
    pick.classList.toggle("off", chosen() !== null);
    if (next !== query || !order.length) {
      query = next;
      const parts = (words.title ?? "{query}").split("{query}");
      title.replaceChildren(...parts.flatMap((text, i) => i ? [label(queries[query] ?? ""), text] : [text]));
      order = Array.from({ length: K }, (_, k) => k);
      if (kept.sorted) order.sort((a, b) => weights[query * K + b] - weights[query * K + a] || a - b);
      const own = total[query];
      const sum = own + (hidden?.[query] ?? 0) + (sink?.[query] ?? 0);
      for (const { kind, share: parts } of totals) {  // grey is what went to tokens that are not in the table
        fill(parts, kind === "sum" ? sum : arrays[kind][query]);
        parts.fill.style.setProperty("--own", kind === "sum" ? `${100 * own / (sum || 1)}%` : "0%");
      }
      root.dataset.query = query; root.dataset.sum = sum.toFixed(4);
    }
    place();
    const pin = gaze.pin(view);
    if (!long || kept.sorted || pin === null || pin === kept.brought) return;
    let most = 0;                                    // a pin (not every hover) brings its strongest key into sight
    for (let k = 1; k < K; k++) if (weights[query * K + k] > weights[query * K + most]) most = k;
    kept.brought = pin;
    box.scrollTop = (most - 4) * row;
    place();
  }
  function place() {                                 // the lines around what is visible
    const key = gaze.hover(view)?.key, spare = K - lines.length;
    const start = Math.max(0, Math.min(spare, Math.floor(box.scrollTop / row) - 10));
    above.firstChild.style.height = start * row + "px"; below.firstChild.style.height = (spare - start) * row + "px";
    lines.forEach((line, n) => {
      const k = order[start + n], i = query * K + k, closed = allowed !== undefined && !allowed[i];
      line.tr.dataset.k = k; line.tr.ariaRowIndex = start + n + 2;
      line.tr.className = `${closed ? "closed" : ""} ${k === key ? "lit" : ""}`;
      if (line.k !== k) { line.k = k; line.word.replaceChildren(label(keys[k])); line.word.title = keys[k]; }
      columns.forEach((column, c) => { line.cells[c].textContent = column.text(i); });
      fill(line.share, closed ? 0 : weights[i]);
      if (closed) line.share.number.textContent = narrow ? "\u2013" : `\u2013 ${reason(k)}`;
      line.share.number.title = closed ? reason(k) : "";
    });
  }
  const state = () => {
    sorter.ariaSort = kept.sorted ? "descending" : "none";
    sort.textContent = (words.weights ?? "") + (kept.sorted ? " \u2193" : "");
  };
  sort.onclick = () => { kept.sorted = !kept.sorted; order = []; box.scrollTop = 0; state(); show(); };
  box.onscroll = () => { kept.soon ||= requestAnimationFrame(() => { kept.soon = 0; place(); }); };
  body.onpointerover = event => {
    const line = event.target.closest("[data-k]");
    if (line && event.pointerType !== "touch") gaze.setHover(view, { query, key: +line.dataset.k });
  };
  body.onpointerleave = () => gaze.setHover(view, null);

  state();
  gaze.join(root, meta, show);
  return live(root, scale => {
    narrow = root.clientWidth < 560 * scale;
    root.classList.toggle("narrow", narrow);
    row = Math.round((narrow ? 34 : 31) * scale);
    root.style.setProperty("--row", row + "px");
    show();
    // The last lines stick below one another, and the table keeps its height whatever row is shown.
    totals.forEach(({ tr }, n) => [...tr.cells].forEach(cell => { cell.style.bottom = (totals.length - 1 - n) * row + "px"; }));
  });
}
