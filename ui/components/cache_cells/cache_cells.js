import { begin, el, label, live } from "../gaze.shared/shared.js";

export default function ({ data, parentElement }) {
  const { root, kept, first, meta } = begin(parentElement, data), { labels, fresh, words } = meta, T = labels.length;
  if (first) { kept.box = el("div", "box"); kept.box.role = "group"; root.replaceChildren(kept.box); }
  kept.box.ariaLabel = words.alt;
  Object.assign(root.dataset, { tokens: T, fresh });
  const row = (name, before) => {
    const cells = labels.map((text, i) => {
      const kind = i < T - fresh ? before : "new", cell = el("span", `cell ${kind}`, label(text));
      cell.title = `${text}: ${words[kind]}`;
      return cell;
    });
    return el("div", "row", el("b", "", name), el("div", T > 80 ? "cells many" : "cells", ...cells));
  };
  const key = el("div", "key", ...["kept", "new", "again"].map(kind => el("span", "", el("i", kind), words[kind])));
  kept.box.replaceChildren(key, row(words.with, "kept"), row(words.without, "again"));
  return live(root, () => {});
}
