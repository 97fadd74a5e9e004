import { begin, css, digits, el, live, radios, theme } from "../gaze.shared/shared.js";

export default function ({ data, parentElement, setTriggerValue }) {
  const { root, kept, first, meta, arrays } = begin(parentElement, data);
  const { words, signed, places } = meta, { values } = arrays, [L, H] = values.shape;
  const name = head => words.head.replace("{layer}", 1 + Math.floor(head / H)).replace("{head}", 1 + head % H);
  const known = [...values].filter(Number.isFinite), most = Math.max(...known.map(Math.abs), 1e-12);
  if (first) {
    for (const part of ["title", "grid", "bar", "status"]) kept[part] = el("div", part);
    kept.status.role = "status";
    root.append(kept.title, kept.grid, kept.bar, kept.status);
  }
  kept.title.textContent = meta.title;
  if (kept.shape !== `${L} ${H}`) {                    // cells stay over the runs, and with them the focus
    kept.shape = `${L} ${H}`;
    kept.cells = Array.from({ length: L * H }, () => Object.assign(el("button", "cell"), { type: "button", role: "radio" }));
    kept.columns = Array.from({ length: H }, () => el("span", "number"));
    kept.rows = Array.from({ length: L }, () => el("span", "number"));
    kept.grid.replaceChildren(el("span", ""), ...kept.columns, ...kept.rows.flatMap((row, l) => [row, ...kept.cells.slice(l * H, (l + 1) * H)]));
  }
  const say = head => kept.status.replaceChildren(head === null ? "" : `${name(head)}: ${Number.isFinite(values[head]) ? digits(values[head], places) : words.none}`);
  const told = kept.cells[meta.chosen] ? meta.chosen : null;
  kept.cells.forEach((cell, head) => {
    const value = values[head];
    cell.className = `cell${Number.isFinite(value) ? "" : " none"}`;
    cell.style.setProperty("--w", `${Number.isFinite(value) ? 100 * Math.min(1, Math.abs(value) / most) : 0}%`);
    cell.style.setProperty("--c", signed ? (value < 0 ? "var(--low)" : "var(--high)") : "var(--st-primary-color)");
    cell.ariaLabel = `${name(head)}: ${Number.isFinite(value) ? digits(value, places) : words.none}`;
    cell.dataset.head = head;
  });
  const forget = radios(root, kept.cells, told ?? -1, words.alt, head => setTriggerValue("picked", head));
  kept.grid.onmousemove = event => { const head = event.target.closest(".cell")?.dataset.head; if (head !== undefined) say(+head); };
  kept.grid.onfocusin = event => { const head = event.target.closest(".cell")?.dataset.head; if (head !== undefined) say(+head); };
  kept.grid.onmouseleave = () => say(told);
  root.dataset.known = known.length;
  const stop = live(root, scale => {
    const look = theme(root), size = Math.max(7, Math.floor(Math.min(24 * scale, (root.clientWidth - 28 * scale) / H, 520 * scale / L)));
    root.style.setProperty("--low", css(look.blue)); root.style.setProperty("--high", css(look.orange));
    const every = size < 14 * scale ? 5 : 1;
    kept.columns.forEach((number, n) => { number.textContent = (n + 1) % every ? "" : n + 1; });
    kept.rows.forEach((number, n) => { number.textContent = (n + 1) % (size < 12 * scale ? 5 : 1) ? "" : n + 1; });
    kept.grid.style.gridTemplateColumns = `${24 * scale}px repeat(${H}, ${size}px)`;
    kept.grid.style.gridAutoRows = size + "px";
    kept.bar.style.width = Math.max(150 * scale, 24 * scale + H * size) + "px";
    kept.bar.replaceChildren(el("span", "", known.length ? digits(signed ? -most : 0, places) : ""), el("span", signed ? "ramp signed" : "ramp"), el("span", "", known.length ? digits(most, places) : ""));
    say(told);
  });
  return () => { forget(); stop(); };
}
