import { begin, css, digits, el, gaze, label, live, theme } from "../gaze.shared/shared.js";

export default function ({ data, parentElement }) {
  const { root, kept, first, meta } = begin(parentElement, data);
  const { view, rows, words, linked } = meta;
  if (first) {
    kept.scroll = el("div", "scroll");
    root.append(kept.scroll);
  }
  root.role = "group"; root.ariaLabel = words.alt;
  const word = (text, side) => el("td", `word ${side}`, text === null ? el("span", "absent", words.none) : label(text));
  kept.rows = rows.map(({ first, second, same, value }, i) => {
    const track = el("span", "track"), fill = el("span", "fill"), row = el("tr", same ? "" : "differs", word(first, "first"), word(second, "second"));
    fill.style.width = 100 * (value ?? 0) + "%";
    track.append(fill);
    row.append(el("td", "", ...(value === null ? [] : [track])), el("td", "number", value === null ? "" : digits(value, 2)));
    row.dataset.row = i; row.dataset.value = value ?? "";
    if (linked) row.onpointerenter = event => { if (event.pointerType !== "touch") gaze.setHover(view, { query: i, key: null }); };
    return row;
  });
  const heads = [["word", words.first], ["word", words.second], ["", words.value], ["number", ""]].map(([look, text]) => el("th", look, text));
  const table = el("table", "", el("thead", "", el("tr", "", ...heads)), el("tbody", "", ...kept.rows));
  kept.scroll.replaceChildren(table);
  table.onpointerleave = () => { if (linked) gaze.setHover(view, null); };

  function mark() {
    const at = linked ? gaze.hover(view)?.query ?? gaze.pin(view) : null;
    kept.rows.forEach((row, i) => row.classList.toggle("lit", i === at));
    root.dataset.lit = at ?? "";
  }
  gaze.join(root, meta, mark);
  return live(root, () => {
    const look = theme(root);
    for (const name of ["orange", "blue"]) root.style.setProperty("--" + name, css(look[name]));
    mark();
  });
}
