import { digits, el, label } from "../gaze.shared/shared.js";

// How a number came about, as elements: every function gives a list for the box under the matrices.

/** A number of any size in few letters: two decimals, or a power of ten. */
export function short(value, places = 2) {
  const size = Math.abs(value);
  return size >= 1e5 ? value.toExponential(1).replace("e+", "e").replace("-", "\u2212") : digits(value, size >= 1000 ? 0 : places);
}
/** "W_Q" -> W with a low Q. */
export function named(name) {
  const parts = name.split(/(_[A-Za-z]\u1d40?)/);
  return parts.map(part => part.startsWith("_") ? el("sub", "", part.slice(1)) : part);
}
/** A word of any length as a name: its beginning. */
const brief = text => String(text).length > 28 ? `${String(text).slice(0, 27)}…` : String(text);
/** A text with {places}, filled with labels that keep their own direction. */
export function filled(text, places) {
  return text.split(/(\{[a-z]+\})/).flatMap(part => part.startsWith("{") ? [label(brief(places[part.slice(1, -1)] ?? ""))] : named(part));
}
const term = (text, caption) => el("span", "term", el("span", "", text), el("small", "", ...(caption ? [label(brief(caption))] : ["\u00a0"])));
const between = (list, mark) => list.flatMap((item, i) => i ? [mark(), item] : [item]);
const plus = () => el("span", "", "+");

/** Row times column: all products where they are few, else the five largest and the sum of the others. */
export function productOf(a, b, bias, inner, value, words) {
  const products = a.map((x, i) => ({ x, y: b[i], i, size: Math.abs(x * b[i]) }));
  const many = products.length > 8;
  const shown = many ? [...products].sort((p, q) => q.size - p.size || p.i - q.i).slice(0, 5) : products;
  const terms = shown.map(({ x, y, i }) => term(`${short(x)} \u00d7 ${short(y)}`, inner[i] ?? `${i + 1}`));
  if (many) {
    const rest = products.reduce((s, { x, y }) => s + x * y, 0) - shown.reduce((s, { x, y }) => s + x * y, 0);
    terms.push(term(short(rest), words.others.replace("{count}", products.length - shown.length)));
  }
  if (bias !== undefined) terms.push(term(short(bias), words.bias));
  return [el("span", "", "="), ...between(terms, plus), el("span", "", "="), el("span", "result", short(value))];
}

/** The softmax of one cell: its power of e over the sum of its row's; from far-off scores the largest is taken first. */
export function softmaxOf(row, column, value, words) {
  const most = Math.max(...row), far = most > 40 || Math.min(...row) < -40, by = far ? most : 0;
  const power = score => el("span", "", "e", el("sup", "", short(score - by)));
  const parts = row.map(score => Math.exp(score - by)), total = parts.reduce((s, v) => s + v, 0);
  const order = row.map((_, i) => i), many = row.length > 10;
  const shown = many ? [...order].sort((i, j) => row[j] - row[i]).slice(0, 6) : order;
  const below = between(shown.map(i => power(row[i])), () => " + ");
  if (many) below.push(" + \u2026");
  const fraction = (up, down) => el("span", "fraction", el("span", "", ...up), el("span", "", ...down));
  const list = [el("span", "", "="), fraction([power(row[column])], below), el("span", "", "="),
    fraction([short(parts[column])], [short(total)]), el("span", "", "="), el("span", "result", short(value))];
  return far ? [...list, el("small", "", words.far)] : list;
}
