import { begin, digits, el, live, radios } from "../gaze.shared/shared.js";

export default function ({ data, parentElement, setTriggerValue }) {
  const { root, kept, meta } = begin(parentElement, data);
  const { rows, compared, words } = meta, colours = ["#e69f00", "#009e73", "#cc79a7", "#56b4e9"];   // Okabe-Ito
  if (kept.rows?.length !== rows.length) {           // rows stay over the runs, and with them the focus
    kept.legend = el("div", "legend");
    kept.rows = rows.map((_, i) => {
      const row = Object.assign(el("button", "row"), { type: "button", role: "radio" });
      row.dataset.row = i;
      return row;
    });
    root.replaceChildren(kept.legend, ...kept.rows);
  }
  const tick = n => { const mark = el("span", "mark"); mark.style.setProperty("--c", colours[n]); return mark; };
  kept.legend.replaceChildren(el("span", "", el("i", "best"), words.weight), ...compared.map((name, n) => el("span", "", el("i", "", tick(n)), name)));
  kept.rows.forEach((row, i) => {
    const { name, head, weight, hits, verdict, kind, marks } = rows[i], track = el("span", "track"), fill = el("span", "fill");
    fill.style.width = 100 * weight + "%";
    track.append(fill, ...marks.flatMap((value, n) => {
      if (value === null) return [];
      const mark = tick(n);
      mark.style.left = 100 * value + "%"; mark.title = `${compared[n]} ${digits(value, 2)}`; mark.dataset.value = value;
      return [mark];
    }));
    row.dataset.kind = kind;
    row.replaceChildren(el("span", "name", name), el("span", "head", head), track, el("span", "weight", digits(weight, 2)), el("span", "hits", hits), el("span", "verdict", verdict));
    row.ariaLabel = [name, head, `${words.weight} ${digits(weight, 2)}`, ...marks.flatMap((v, n) => v === null ? [] : [`${compared[n]} ${digits(v, 2)}`]), hits, verdict].join(", ");
  });

  const forget = radios(root, kept.rows, meta.chosen, words.alt, i => setTriggerValue("picked", i));
  const stop = live(root, scale => root.classList.toggle("narrow", root.clientWidth < 720 * scale));
  return () => { forget(); stop(); };
}
