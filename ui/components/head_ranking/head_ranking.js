import { begin, digits, el, live, radios } from "../gaze.shared/shared.js";

export default function ({ data, parentElement, setTriggerValue }) {
  const { root, kept, meta, arrays } = begin(parentElement, data);
  const { rows, columns, compared, words } = meta, { values } = arrays, [L, H] = values.shape;
  const colours = ["#e69f00", "#009e73", "#cc79a7"];                     // Okabe-Ito
  const most = Math.max(...values, 1e-9), name = head => words.head.replace("{layer}", 1 + Math.floor(head / H)).replace("{head}", 1 + head % H);
  if (!kept.list) {
    for (const part of ["list", "side", "legend", "grid", "status", "bar"]) kept[part] = el("div", part);
    kept.title = el("div", "title");
    kept.side.append(kept.title, kept.grid, kept.bar, kept.status);
    kept.status.role = "status";
    root.append(kept.legend, kept.list, kept.side);
  }
  if (kept.rows?.length !== rows.length) {           // rows stay over the runs, and with them the focus
    kept.rows = rows.map(() => Object.assign(el("button", "row"), { type: "button", role: "radio" }));
    kept.opens = rows.map(() => Object.assign(el("a", "open", "\u2197"), { target: "_blank", rel: "noopener" }));
    kept.header = el("div", "line header");
    kept.list.replaceChildren(kept.header, ...rows.map((_, i) => el("div", "line", kept.rows[i], kept.opens[i])));
  }
  const tick = n => { const mark = el("span", "mark"); mark.style.setProperty("--c", colours[n]); return mark; };
  kept.legend.replaceChildren(el("span", "", el("i", "best"), meta.value), ...compared.map((text, n) => el("span", "", el("i", "", tick(n)), text)));
  const shown = texts => el("span", "cells", ...texts);
  kept.header.replaceChildren(el("div", "row", el("span", ""), el("span", ""), el("span", ""), el("span", ""), shown(columns.map(text => el("span", "", text)))));
  kept.header.ariaHidden = "true";                   // each row says its columns itself
  kept.rows.forEach((row, i) => {
    const { place, head, name, value, cells, marks, href } = rows[i], track = el("span", "track"), fill = el("span", "fill");
    fill.style.width = 100 * value + "%";
    track.append(fill, ...marks.flatMap((at, n) => {
      if (at === null) return [];
      const mark = tick(n), there = marks.slice(0, n).filter(other => other !== null && Math.abs(other - at) < 0.01).length;
      mark.style.left = 100 * at + "%"; mark.style.marginLeft = 4 * there - 1.5 + "px";   // beside those that stand there
      mark.title = `${compared[n]} ${digits(at, 2)}`; mark.dataset.value = at;
      return [mark];
    }));
    row.dataset.head = head;
    row.replaceChildren(el("span", "place", String(place)), el("span", "head", name), track, el("span", "weight", digits(value, 2)),
      shown(cells.map((cell, n) => el("span", "cell", el("small", "", columns[n]), el("span", "", cell)))));
    row.ariaLabel = [place, name, `${meta.value} ${digits(value, 2)}`, ...cells.map((cell, n) => `${columns[n]} ${cell}`)].join(", ");
    kept.opens[i].hidden = href === null;              // the text is too long to travel
    Object.assign(kept.opens[i], { href: href ?? "", title: words.open, ariaLabel: `${words.open}: ${name}` });
  });
  kept.title.replaceChildren(words.map);
  const pick = head => setTriggerValue("picked", head), chosen = rows[meta.chosen].head;
  root.style.setProperty("--cells", columns.length);
  const forget = radios(root, kept.rows, meta.chosen, words.alt, i => pick(rows[i].head));
  root.dataset.heads = L * H;
  root.dataset.head = chosen;

  const say = head => kept.status.replaceChildren(`${name(head)}: ${digits(values[head], 3)}`);
  const stop = live(root, scale => {
    const stacked = root.clientWidth < 640 * scale, room = stacked ? root.clientWidth : 230 * scale;
    root.classList.toggle("stacked", stacked);
    root.classList.toggle("narrow", root.clientWidth < 780 * scale);
    const size = Math.max(7, Math.floor(Math.min(24 * scale, (room - 26 * scale) / H, 440 * scale / L)));
    const number = (n, every) => el("span", "number", n % every ? "" : String(n)), every = size < 12 * scale ? 5 : 1;
    const cells = [el("span", "")];
    for (let h = 1; h <= H; h++) cells.push(number(h, size < 14 * scale ? 5 : 1));
    for (let l = 0; l < L; l++) {
      cells.push(number(l + 1, every));
      for (let h = 0; h < H; h++) {
        const head = l * H + h, cell = el("span", "spot" + (head === chosen ? " chosen" : ""));
        cell.dataset.head = head;
        cell.style.setProperty("--w", 100 * values[head] / most + "%");
        cells.push(cell);
      }
    }
    kept.grid.style.gridTemplateColumns = `${24 * scale}px repeat(${H}, ${size}px)`;
    kept.grid.style.gridAutoRows = size + "px";
    kept.grid.replaceChildren(...cells);
    kept.bar.style.width = 24 * scale + H * size + "px";
    kept.bar.replaceChildren(el("span", "", "0"), el("span", "ramp"), el("span", "", digits(most, 2)));
    say(chosen);
  });
  const at = event => event.target.closest("[data-head].spot")?.dataset.head;
  kept.grid.onmousemove = event => { const head = at(event); if (head !== undefined) say(+head); };
  kept.grid.onmouseleave = () => say(chosen);
  kept.grid.onclick = event => { const head = at(event); if (head !== undefined && +head !== chosen) pick(+head); };
  Object.assign(kept.grid, { role: "img", ariaLabel: words.map });
  return () => { forget(); stop(); };
}
