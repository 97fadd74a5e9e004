import { begin, digits, el, label, live } from "../gaze.shared/shared.js";

export default function ({ data, parentElement }) {
  const { root, kept, first, meta } = begin(parentElement, data);
  const { labels, ranks, probabilities, chances, chosen, sampled, words } = meta;
  if (first) { kept.list = el("div", "list"); kept.list.role = "list"; root.replaceChildren(kept.list); }
  root.classList.toggle("sampled", sampled);
  root.dataset.chosen = labels[chosen];
  root.style.setProperty("--rank", `${0.5 + 0.65 * String(Math.max(...ranks)).length}em`);
  kept.list.ariaLabel = words.alt;
  const most = Math.max(...probabilities, ...(sampled ? chances : [])) || 1, wide = value => `${100 * value / most}%`;
  const bar = (name, value) => { const made = el("span", name); made.style.width = wide(value); return made; };
  const short = value => value > 0 && value < 0.0005 ? "< 0.001" : digits(value, 3);
  const rows = labels.map((text, i) => {
    const tracks = el("span", "track", bar("bar", probabilities[i]), ...(sampled && chances[i] > 0 ? [bar("drawn", chances[i])] : []));
    const name = el("span", "name", label(text));
    name.title = text;
    const row = el("div", i === chosen ? "row chosen" : "row", el("span", "rank", `${ranks[i]}.`), name, tracks,
      el("span", "number", short(probabilities[i])), ...(sampled ? [el("span", "number", short(chances[i]))] : []));
    row.role = "listitem";
    row.ariaLabel = `${text}: ${words.probability} ${digits(probabilities[i], 3)}${i === chosen ? `, ${words.chosen}` : ""}`;
    return row;
  });
  const head = el("div", "head", el("span"), el("span"), el("span"), el("span", "", words.probability), ...(sampled ? [el("span", "", words.chance)] : []));
  const spot = (colour, text) => { const mark = el("i"); mark.style.background = colour; return el("span", "", mark, text); };
  const key = sampled ? [el("div", "key", spot("color-mix(in srgb, var(--st-primary-color) 38%, transparent)", words.probability), spot("#e69f00", words.chance))] : [];
  kept.list.replaceChildren(head, ...rows, ...key);
  return live(root, () => {});
}
