import { begin, digits, el, label, live, radios } from "../gaze.shared/shared.js";

export default function ({ data, parentElement, setTriggerValue }) {
  const { root, kept, first, meta, arrays } = begin(parentElement, data);
  const { names, words, shares } = meta, sides = [arrays.before, arrays.after];
  if (first) {
    kept.legend = el("div", "legend"); kept.list = el("div", "list");
    root.append(kept.legend, kept.list);
  }
  root.classList.toggle("long", !shares);              // whole sentences
  kept.legend.replaceChildren(...["before", "after"].map(side => el("span", "", el("i", side), words[side])));
  const written = value => shares ? `${digits(100 * value, value > 0 && value < 0.0995 ? 1 : 0)}%` : digits(value, 2);
  if (kept.rows?.length !== names.length) {            // rows stay over the runs: their bars then grow and shrink
    kept.rows = names.map(() => {
      const row = Object.assign(el("button", "row"), { type: "button", role: "radio" });
      row.append(el("span", "name"), ...["before", "after"].flatMap(side => [el("span", `track ${side}`, el("span", "fill")), el("span", `number ${side}`)]));
      return row;
    });
    kept.list.replaceChildren(...kept.rows);
  }
  kept.rows.forEach((row, n) => {
    const [name, ...cells] = row.children;
    name.replaceChildren(label(names[n]));
    sides.forEach((side, s) => {
      cells[2 * s].firstChild.style.width = `${100 * Math.max(0, Math.min(1, side[n]))}%`;
      cells[2 * s + 1].textContent = written(side[n]);
    });
    row.ariaLabel = `${names[n]}: ${words.before} ${written(sides[0][n])}, ${words.after} ${written(sides[1][n])}`;
    row.dataset.before = sides[0][n]; row.dataset.after = sides[1][n];
  });
  const forget = radios(root, kept.rows, meta.chosen ?? -1, words.alt, n => setTriggerValue("picked", n));
  const stop = live(root, () => {});
  return () => { forget(); stop(); };
}
