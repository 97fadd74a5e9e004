import { digits, el, widest } from "../gaze.shared/shared.js";
import { filled } from "./arithmetic.js";

// How a word's vector moves: from its own value to its context, pulled by every value with its weight.

export function drawMovement(box, { row, names, places, end, pulls, target, before, after, words }, width, height, scale) {
  const svg = (tag, set, ...content) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(set)) made.setAttribute(name, value);
    made.append(...content);
    return made;
  };
  const T = names.length, xs = [end[0]], ys = [end[1]];
  for (let i = 0; i < T; i++) { xs.push(places[2 * i]); ys.push(places[2 * i + 1]); }
  const x0 = Math.min(...xs), y0 = Math.min(...ys), wide = Math.max(...xs) - x0, high = Math.max(...ys) - y0;
  const padX = 46 * scale, padY = 20 * scale;
  const unit = Math.min((width - 2 * padX) / (wide || 1e-9), (height - 2 * padY) / (high || 1e-9), 1e6);
  const offX = (width - wide * unit) / 2, offY = (height - high * unit) / 2;
  const at = (x, y) => wide + high > 1e-6 ? [offX + (x - x0) * unit, height - offY - (y - y0) * unit] : [width / 2, height / 2];
  const spots = names.map((_, i) => at(places[2 * i], places[2 * i + 1])), start = spots[row], stop = at(...end);
  const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": words.move_alt });

  spots.forEach(([x, y], i) => {
    if (i === row) return;
    const far = [start[0] + (x - start[0]) * pulls[i], start[1] + (y - start[1]) * pulls[i]];
    picture.append(svg("line", { class: "way", x1: start[0], y1: start[1], x2: x, y2: y }));
    picture.append(svg("line", { class: "pull", x1: start[0], y1: start[1], x2: far[0], y2: far[1],
      "stroke-width": 1.5 + 5 * pulls[i], "stroke-opacity": 0.35 + 0.5 * pulls[i], "data-word": i }));
  });
  spots.forEach(([x, y], i) => {
    if (i !== row) picture.append(svg("circle", { class: "dot", cx: x, cy: y, r: 3.5 + 5 * Math.sqrt(pulls[i]), "data-word": i },
      svg("title", {}, `${names[i]} ${digits(pulls[i], 3)}`)));
  });
  const dx = stop[0] - start[0], dy = stop[1] - start[1], long = Math.hypot(dx, dy);
  if (long > 14) {
    const [ux, uy] = [dx / long, dy / long], tip = [stop[0] - 8 * ux, stop[1] - 8 * uy];
    picture.append(svg("line", { class: "step", x1: start[0], y1: start[1], x2: tip[0] - 7 * ux, y2: tip[1] - 7 * uy }));
    const wing = s => `${tip[0] - 9 * ux + s * 5 * uy},${tip[1] - 9 * uy - s * 5 * ux}`;
    picture.append(svg("polygon", { class: "head", points: `${tip} ${wing(1)} ${wing(-1)}` }));
  }
  picture.append(svg("circle", { class: "start", cx: start[0], cy: start[1], r: 6 }));
  picture.append(svg("circle", { class: "end", cx: stop[0], cy: stop[1], r: 7, "data-end": "" }));

  // Names, the most important first; one that would cover another, or a mark that matters, stays in the hover text alone.
  const taken = [[start[0] - 7, start[1] - 7, start[0] + 7, start[1] + 7], [stop[0] - 8, stop[1] - 8, stop[0] + 8, stop[1] + 8]];
  const write = (text, [x, y], strong) => {
    const w = widest([text], 12.5 * scale, box) * (strong ? 1.07 : 1) + 4, h = 15 * scale;
    const tries = [[x - w / 2, y - 11 - h], [x - w / 2, y + 10], [x + 11, y - h / 2], [x - 11 - w, y - h / 2]];
    const place = tries.map(([left, top]) => [left, top, left + w, top + h])
      .find(r => r[0] >= 0 && r[1] >= 0 && r[2] <= width && r[3] <= height && !taken.some(t => r[0] < t[2] && t[0] < r[2] && r[1] < t[3] && t[1] < r[3]));
    if (!place) return;
    taken.push(place);
    picture.append(svg("text", { x: place[0] + w / 2, y: place[3] - 3.5 * scale, "text-anchor": "middle", class: strong ? "strong" : "" }, text));
  };
  const cut = name => name.length > 12 ? name.slice(0, 11) + "\u2026" : name;
  write(words.move_end, stop, true);
  write(`V(${cut(names[row])})`, start, true);
  if (target !== row) write(`V(${cut(names[target])})`, spots[target], true);
  [...names.keys()].filter(i => i !== row && i !== target).sort((i, j) => pulls[j] - pulls[i]).forEach(i => write(cut(names[i]), spots[i], false));

  const moved = el("div", "moved", ...filled(Math.abs(after - before) < 5e-4 ? words.stay : after > before ? words.move : words.away, { row: names[row], target: names[target], before: digits(before, 3), after: digits(after, 3) }));
  box.replaceChildren(picture, moved);
  box.dataset.before = before.toFixed(4); box.dataset.after = after.toFixed(4);
}
