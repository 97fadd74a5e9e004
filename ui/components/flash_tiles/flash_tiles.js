import { begin, css, digits, el, label, live, mix, theme } from "../gaze.shared/shared.js";

const BEAT = 650;                                    // ms a tile

export default function ({ data, parentElement }) {
  const { root, kept, first, meta, arrays } = begin(parentElement, data);
  const { tokens, rows, columns, words } = meta, { scores, maximum, total, context } = arrays;
  const T = tokens.length, S = rows.length, N = context.shape[2], most = scores.reduce((a, b) => Math.max(a, Math.abs(b)), 0) || 1;
  if (first) {
    kept.canvas = el("canvas"); kept.said = el("div", "said"); kept.table = el("table"); kept.bar = el("div", "bar");
    kept.range = Object.assign(el("input", "range"), { type: "range", min: 0 });
    for (const [name, sign] of [["back", "\u25c0"], ["forward", "\u25b6"], ["play", ""]]) kept[name] = Object.assign(el("button", name, sign), { type: "button" });
    kept.bar.append(kept.back, kept.range, kept.forward, kept.play);
    kept.grid = el("div", "grid", el("div", "map", kept.canvas), el("div", "rows", kept.table));
    root.append(kept.bar, kept.said, kept.grid);
    kept.canvas.role = "img"; kept.said.role = "status";
  }
  const { canvas, range, said } = kept, what = JSON.stringify([tokens, rows, columns]);
  if (kept.what !== what) { kept.step = S; kept.what = what; }   // at rest it has ended
  canvas.ariaLabel = range.ariaLabel = words.alt;
  for (const name of ["back", "forward", "play"]) kept[name].title = kept[name].ariaLabel = words[name];
  range.max = S; kept.play.textContent = words.play;
  const fill = (text, values) => text.replace(/\{(\w+)\}/g, (all, name) => values[name] ?? all);

  function paint(scale) {
    root.classList.toggle("narrow", root.clientWidth < 720);
    const look = theme(root), dpr = window.devicePixelRatio || 1, wide = Math.min(kept.grid.firstChild.clientWidth, 400 * scale), cell = wide / T;
    canvas.width = canvas.height = Math.round(wide * dpr);
    canvas.style.width = canvas.style.height = wide + "px";
    const pen = canvas.getContext("2d"), step = kept.step, blank = mix(look.ground, look.text, 0.06);
    pen.scale(dpr, dpr);
    pen.clearRect(0, 0, wide, wide);
    const done = (q, k) => { for (let s = 0; s < step; s++) if (q >= rows[s][0] && q < rows[s][1] && k >= columns[s][0] && k < columns[s][1]) return true; return false; };
    for (let q = 0; q < T; q++) for (let k = 0; k < T; k++) {
      const value = scores[q * T + k];
      pen.fillStyle = css(done(q, k) ? mix(look.ground, value < 0 ? look.blue : look.orange, Math.min(1, 0.08 + 0.92 * Math.abs(value) / most)) : blank);
      pen.fillRect(k * cell + 0.5, q * cell + 0.5, cell - 1, cell - 1);
    }
    pen.strokeStyle = css(look.text); pen.globalAlpha = 0.25;
    rows.forEach(([a, b], s) => pen.strokeRect(columns[s][0] * cell, a * cell, (columns[s][1] - columns[s][0]) * cell, (b - a) * cell));
    pen.globalAlpha = 1;
    if (step > 0) {
      const [a, b] = rows[step - 1], [c, d] = columns[step - 1];
      pen.strokeStyle = css(look.accent); pen.lineWidth = 3;
      pen.strokeRect(c * cell + 1.5, a * cell + 1.5, (d - c) * cell - 3, (b - a) * cell - 3);
    }
    const at = step - 1, fresh = q => at >= 0 && q >= rows[at][0] && q < rows[at][1];
    const number = (value, places) => Number.isFinite(value) ? digits(value, places) : "\u2212\u221e";
    kept.table.replaceChildren(el("tr", "", ...[words.word, words.maximum, words.total, words.context].map(text => el("th", "", text))),
      ...tokens.map((token, q) => {
        const moved = at > 0 && fresh(q) && maximum[at * T + q] !== maximum[(at - 1) * T + q];
        const cells = at < 0 ? ["\u2212\u221e", "0", ""] : [number(maximum[at * T + q], 2), digits(total[at * T + q], 3),
          Array.from({ length: N }, (_, n) => digits(context[(at * T + q) * N + n], 2)).join(" ")];
        const row = el("tr", fresh(q) ? "fresh" : "", el("th", "", label(token)), ...cells.map((text, n) => el("td", n === 0 && moved ? "moved" : "", text)));
        return row;
      }));
    said.textContent = step ? fill(words.step, { step, all: S, q: rows[at][0] + 1, r: rows[at][1], k: columns[at][0] + 1, l: columns[at][1] }) : words.start;
    range.value = step;
    kept.back.disabled = step === 0; kept.forward.disabled = step === S;
    Object.assign(root.dataset, { step, steps: S, running: kept.timer ? "yes" : "no" });
  }
  const go = step => { kept.step = Math.max(0, Math.min(S, step)); kept.paint(); };
  const halt = () => { clearInterval(kept.timer); kept.timer = 0; };
  kept.back.onclick = () => { halt(); go(kept.step - 1); };
  kept.forward.onclick = () => { halt(); go(kept.step + 1); };
  range.oninput = () => { halt(); go(Number(range.value)); };
  kept.play.onclick = () => {
    if (kept.timer) { halt(); go(kept.step); return; }
    kept.timer = setInterval(() => { if (kept.step >= S) halt(); go(kept.step + 1); }, Math.min(BEAT, 12000 / S));
    go(kept.step >= S ? 0 : kept.step);
  };
  halt();
  const stop = live(root, paint);
  return () => { halt(); stop(); };
}
