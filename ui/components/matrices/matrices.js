import { begin, css, digits, el, gaze, label, light, live, ramp, theme, unramp, widest } from "../gaze.shared/shared.js";
import { filled, named, productOf, short, softmaxOf } from "./arithmetic.js";
import { drawMovement } from "./movement.js";

const ROW = 25, WIDEST = 52;                         // css px of a cell: its height, and its width at most

export default function ({ data, parentElement, setTriggerValue }) {
  const { root, kept, first, meta, arrays } = begin(parentElement, data);
  const { view, kind, words } = meta, list = meta.matrices, last = list.length - 1;
  const sizes = list.map(({ id }) => arrays[id].shape), value = (m, r, c) => arrays[list[m].id][r * sizes[m][1] + c];
  if (first) {
    kept.board = el("div", "board"); kept.foot = el("div", "foot"); kept.sum = el("div", "sum");
    kept.what = el("div", "what"); kept.terms = el("div", "terms"); kept.refused = Object.assign(el("div", "refused"), { role: "alert" });
    kept.sum.append(kept.what, kept.terms, kept.refused);
    kept.sum.role = "status";
    kept.foot.append(kept.sum);
    root.append(kept.board, kept.foot);
    root.role = "group";
  }
  const { board, foot, sum } = kept;
  root.ariaLabel = words.alt;
  root.dataset.stage = meta.stage;
  kept.refused.textContent = meta.refused ?? "";

  // The blocks are built anew when the stage or its shapes change; then the cell cursor goes where the stage begins.
  const shape = JSON.stringify([meta.stage, kind, list.map(({ id, edit }) => [id, edit]), sizes, meta.move]);
  if (kept.shape !== shape) {
    kept.shape = shape; kept.hover = null; kept.at = null; kept.box = null;
    kept.blocks = list.map((_, m) => {
      const block = { title: el("div", "title"), columns: el("div", "columns"), rows: el("div", "rows"), plot: el("div", "plot"), sums: el("div", "sums") };
      block.canvas = Object.assign(el("canvas"), { tabIndex: 0 });
      block.canvas.role = "img";
      block.marks = ["band", "band", "spot"].map(look => el("div", `mark ${look}`));
      block.plot.append(block.canvas, ...block.marks);
      block.canvas.dataset.matrix = list[m].id;
      block.root = el("div", "block", block.title, block.columns, block.rows, block.plot);
      if (kind === "softmax" && m === last) block.root.append(block.sums);
      return block;
    });
    kept.corner = el("div", "corner");
    kept.arrow = el("div", "arrow");
  }
  const { blocks, corner, arrow } = kept;
  blocks.forEach(({ title, canvas, plot }, m) => {
    const { name, edit } = list[m];
    title.replaceChildren(el("b", "", ...named(name)), el("span", "", sizes[m].join(" \u00d7 ")));
    canvas.ariaLabel = `${name.replace("_", "")}, ${sizes[m].join(" \u00d7 ")}${edit ? `. ${words.edit}` : ""}`;
    plot.classList.toggle("edit", Boolean(edit));
  });
  arrow.replaceChildren(kind === "softmax" ? `${words.softmax} \u2192` : `${meta.scaling ?? ""} \u2192`);

  // Where one looks: under the pointer, else at the cell cursor, else where the stage begins, in the row of the pinned word.
  function begun() {
    const pin = gaze.pin(view), row = pin !== null && list[last].words && pin < sizes[last][0] ? pin : meta.at[0];
    if (row === meta.at[0]) return { m: last, r: row, c: meta.at[1] };
    const [, C] = sizes[last], square = C === meta.keys.length && kind !== "single" && list[last].columns.length;
    let most = 0;
    for (let c = 1; c < C; c++) if (Math.abs(value(last, row, c)) > Math.abs(value(last, row, most))) most = c;
    return { m: last, r: row, c: square && kind !== "product" || meta.stage === "raw" ? arrays.targets[row] : most };
  }
  const inside = at => at && at.m < list.length && at.r < sizes[at.m][0] && at.c < sizes[at.m][1];
  if (!inside(kept.at)) kept.at = null;
  if (!inside(kept.hover)) kept.hover = null;
  const place = () => kept.hover ?? kept.at ?? begun();

  let cells = [];                                     // for each matrix the css px of a cell: [width, height]
  function paint(scale) {
    const width = root.clientWidth, look = theme(root), names = list.map(({ rows }) => Math.min(98 * scale, widest(rows, 13 * scale, root) + 12));
    // A product stands like a times table (its factors to the left and above), or abreast where the movement is drawn too.
    const abreast = meta.move, product = kind === "product" && !abreast, ROWS = ROW * scale, numbers = m => list[m].columns.length > 0;
    const strip = n => (n > 64 ? 230 : 150) * Math.min(1, width / 600) / n;
    const left = names[0], right = product ? Math.max(names[1], names[2]) : names[last];
    // Side by side if there is room for numbers; else one below the other.
    const arrowed = kind === "scale" || kind === "softmax", pointer = widest([arrow.textContent], 15 * scale, root) + 26;
    const fixed = left + (product ? right : abreast ? names[1] + 44 * scale : arrowed ? pointer + (kind === "softmax" ? 46 : 0) * scale : 0) + (abreast ? 46 : 30) * scale;
    const counted = kind === "single" ? [0] : product ? [0, 2] : abreast ? [0, 1, 2] : [0, 1];
    const strips = counted.filter(m => !numbers(m)).reduce((s, m) => s + strip(sizes[m][1]) * sizes[m][1], 0);
    const many = counted.filter(numbers).reduce((s, m) => s + sizes[m][1], 0) || 1;
    let cell = Math.min(kind === "single" ? 74 * scale : WIDEST * scale, (width - fixed - strips) / many);
    const stack = cell < (many > 12 ? 14 : 30) * scale || width < 520;
    board.className = `board ${stack ? "stack" : product ? "" : "row"} ${kind === "single" ? "single" : ""}`;
    cells = list.map((_, m) => {
      const [R, C] = sizes[m], own = list[m].rows.length ? 1 : 0;
      const room = width - names[m] - (kind === "softmax" && m === last ? 46 * scale : 4);
      const w = !numbers(m) ? (stack ? Math.min(room / C, 8) : strip(C)) : stack ? Math.min(WIDEST * scale, room / C) : cell;
      const h = own ? ROWS : Math.min(ROWS, (R > 64 ? 130 : 104) * scale / R);
      return [w, h];
    });
    if (product && !stack) { cells[1][0] = cells[2][0]; }
    arrow.style.width = stack ? "" : pointer + "px";
    const roots = blocks.map(block => block.root);
    board.replaceChildren(...(arrowed ? [roots[0], arrow, roots[1]] : product && !stack ? [corner, roots[1], roots[0], roots[2]]
      : abreast && !stack ? [roots[0], el("div", "sign", "\u00b7"), roots[1], el("div", "sign", "="), roots[2]] : abreast ? roots : [...roots, corner]));
    foot.replaceChildren(...(abreast ? [corner, sum] : [sum]));
    foot.className = `foot ${abreast && !stack ? "wide" : ""}`;

    // Column names: upright where they fit a cell, slanted where they don't (on a phone, where there is no room beyond, steep); matrices side by side agree on the height.
    const heads = list.map(({ columns }, m) => {
      if (!columns.length) return { high: 4 };
      const parts = columns.flatMap(name => name.split(" ")), slanted = widest(parts, 13 * scale, root) > cells[m][0] - 1;
      const lines = Math.max(...columns.map(name => name.split(" ").length > 1 && widest([name], 13 * scale, root) > cells[m][0] - 1 ? 2 : 1));
      const long = Math.min(92 * scale, widest(columns, 13 * scale, root));
      return { slanted, high: !slanted ? lines * 15 * scale + 6 : stack ? long + 10 : long * 0.62 + 16 * scale };
    });
    const level = product ? Math.max(heads[0].high, heads[2].high) : Math.max(...heads.map(({ high }) => high));
    blocks.forEach((block, m) => {
      const [R, C] = sizes[m], [w, h] = cells[m], { rows, columns } = list[m], beside = product && !stack && m > 0 ? right : abreast && !stack && m === 2 ? 0 : arrowed && !stack && m ? 0 : names[m];
      const high = stack || (product && m === 1) ? heads[m].high : level;
      Object.assign(block.columns.style, { height: high + "px", width: C * w + "px" });
      block.columns.className = `columns ${heads[m].slanted ? "slanted" : ""} ${stack ? "steep" : ""}`;
      block.columns.style.setProperty("--cell", w + "px");
      Object.assign(block.rows.style, { width: beside + "px", height: R * h + "px" });
      Object.assign(block.plot.style, { width: C * w + "px", height: R * h + "px" });
      const tags = (texts, side, step, shift) => texts.map((text, i) => {
        const tag = Object.assign(el("span", "", label(text)), { title: text });
        tag.style[side] = (i + shift) * step + "px";
        return tag;
      });
      block.rowTags = beside ? tags(rows, "top", h, 0.5) : [];
      block.columnTags = tags(columns, "left", w, heads[m].slanted && !stack ? 0.62 : 0.5);
      block.rows.replaceChildren(...block.rowTags); block.columns.replaceChildren(...block.columnTags);
      if (kind === "softmax" && m === last) {
        const sums = rows.map((_, r) => { let s = 0; for (let c = 0; c < C; c++) s += value(m, r, c); return `\u03a3 ${digits(s, 2)}`; });
        block.sums.replaceChildren(...tags(sums, "top", h, 0.5));
      }
      paintMatrix(block.canvas, { R, C, w, h, scale, look, signed: list[m].colour !== "weights", valueAt: i => arrays[list[m].id][i] });
    });
    kept.room = stack ? [width, Math.min(250 * scale, width * 0.68)] : [Math.min(390 * scale, width * 0.47), 188 * scale];
    corner.style.width = stack ? "auto" : product ? left + sizes[0][1] * cells[0][0] + "px" : abreast ? kept.room[0] + "px" : "";
    show();
  }

  function show() {
    const { m, r, c } = place(), look = (block, bands, spot) => {
      const [w, h] = cells[block], [R, C] = sizes[block], boxes = [bands.row !== undefined && [0, bands.row * h, C * w, h],
        bands.column !== undefined && [bands.column * w, 0, w, R * h], spot && [spot[1] * w, spot[0] * h, w, h]];
      boxes.forEach((box, i) => {
        const mark = blocks[block].marks[i];
        mark.hidden = !box;
        if (box) Object.assign(mark.style, { transform: `translate(${box[0]}px, ${box[1]}px)`, width: Math.max(2, box[2]) + "px", height: box[3] + "px" });
      });
      blocks[block].rowTags?.forEach((tag, i) => tag.classList.toggle("lit", i === (bands.row ?? spot?.[0])));
      blocks[block].columnTags?.forEach((tag, i) => tag.classList.toggle("lit", i === (bands.column ?? spot?.[1])));
    };
    if (kind === "product") {                        // a row of the first times a column of the second
      look(0, m === 1 ? {} : { row: r }, m === 0 ? [r, c] : null);
      look(1, m === 0 ? {} : { column: c }, m === 1 ? [r, c] : null);
      look(2, m === 0 ? { row: r } : m === 1 ? { column: c } : {}, m === 2 ? [r, c] : null);
    } else if (kind === "softmax") { look(0, { row: r }, [r, c]); look(1, { row: r }, [r, c]); }
    else list.forEach((_, block) => look(block, {}, [r, c]));
    explain(kind === "product" ? m : last, r, c);
    root.dataset.cell = `${list[m].id},${r},${c}`;
    aside(m, r);
  }
  function explain(m, r, c) {
    const { cell, rows, columns, edit } = list[m], now = value(m, r, c);
    kept.what.replaceChildren(...filled(cell, { row: rows[r] ?? `${r + 1}`, column: columns[c] ?? `${c + 1}` }));
    const line = (matrix, index) => Array.from({ length: sizes[matrix][1] }, (_, k) => value(matrix, index, k));
    let terms = [el("span", "", "="), el("span", "result", short(now))];
    if (kind === "product" && m === last) {
      const b = Array.from({ length: sizes[1][0] }, (_, k) => value(1, k, c));
      terms = productOf(line(0, r), b, arrays.bias?.[c], meta.inner, now, words);
    } else if (kind === "scale") {
      terms = [el("span", "", `= ${short(value(0, r, c))} ${meta.scaling} =`), el("span", "result", short(now))];
    } else if (kind === "softmax") terms = softmaxOf(line(0, r), c, now, words);
    if (edit) terms.push(el("small", "", words.edit));
    kept.terms.replaceChildren(...terms);
  }
  function aside(m, r) {
    if (!meta.move) {
      corner.replaceChildren(...(meta.formula ? [el("div", "formula", ...named(meta.formula))] : []), ...meta.aside.map(text => el("p", "", ...named(text))));
      return;
    }
    const T = meta.keys.length, row = m === 1 ? kept.at?.m !== 1 && kept.at ? kept.at.r : begun().r : r;
    const [width, height] = kept.room, part = (array, n) => array.subarray(row * n, row * n + n);
    drawMovement(corner, { row, names: meta.keys, places: part(arrays.places, 2 * T), end: part(arrays.ends, 2), pulls: part(arrays.pulls, T),
      target: arrays.targets[row], before: arrays.cosines[2 * row], after: arrays.cosines[2 * row + 1], words }, width, height, kept.scale);
  }

  // One number is typed in a box over its cell; the server is the judge of it.
  function change(m, r, c, typed) {
    kept.box?.onblur();
    const [w, h] = cells[m], box = Object.assign(el("input"), { type: "text", inputMode: "text", value: typed ?? String(+value(m, r, c).toPrecision(6)) });
    Object.assign(box.style, { left: Math.min(c * w, Math.max(0, sizes[m][1] * w - 52)) + "px", top: r * h + "px", width: w + "px", height: h + "px" });
    box.ariaLabel = kept.what.textContent;
    kept.box = box;
    blocks[m].plot.append(box);
    const before = box.value, start = typed === undefined ? before : null;
    const close = keep => {
      if (kept.box !== box) return;
      kept.box = null; box.remove();
      if (keep && box.value !== start) setTriggerValue("edited", { matrix: list[m].id, row: r, column: c, text: box.value.slice(0, 60) });
    };
    box.onblur = () => close(true);
    box.onkeydown = event => {
      event.stopPropagation();
      if (event.isComposing) return;
      const on = event.key === "Tab" ? r * sizes[m][1] + c + (event.shiftKey ? -1 : 1) : null;
      if (event.key === "Enter" || event.key === "Escape") { close(event.key === "Enter"); blocks[m].canvas.focus(); event.preventDefault(); }
      if (on !== null && on >= 0 && on < sizes[m][0] * sizes[m][1]) {
        event.preventDefault(); close(true);
        kept.at = { m, r: Math.floor(on / sizes[m][1]), c: on % sizes[m][1] }; show();
        change(m, kept.at.r, kept.at.c);
      }
    };
    box.focus();
    if (typed === undefined) box.select();
  }
  blocks.forEach(({ canvas }, m) => {
    const at = event => {
      const box = canvas.getBoundingClientRect(), limit = (v, n) => Math.max(0, Math.min(n - 1, Math.floor(v)));
      return { m, r: limit((event.clientY - box.top) / cells[m][1], sizes[m][0]), c: limit((event.clientX - box.left) / cells[m][0], sizes[m][1]) };
    };
    canvas.onpointermove = event => {
      const to = at(event), was = kept.hover;
      if (was && was.m === m && was.r === to.r && was.c === to.c) return;
      kept.hover = to;
      kept.soon ||= requestAnimationFrame(() => { kept.soon = 0; if (root.isConnected) show(); });
    };
    canvas.onpointerleave = () => { kept.hover = null; show(); };
    canvas.onclick = event => {
      kept.at = at(event); kept.hover = null; show();
      if (list[m].words) gaze.setPin(view, kept.at.r);
      if (list[m].edit) change(m, kept.at.r, kept.at.c);
    };
    canvas.onkeydown = event => {
      if (event.altKey || event.ctrlKey || event.metaKey) return;
      const { r, c } = kept.at?.m === m ? kept.at : m === last ? begun() : { r: 0, c: 0 }, [R, C] = sizes[m];
      const to = { ArrowUp: [r - 1, c], ArrowDown: [r + 1, c], ArrowLeft: [r, c - 1], ArrowRight: [r, c + 1], Home: [r, 0], End: [r, C - 1] }[event.key];
      if (to) {                                       // the page's own arrow keys turn to the next stage: not from in here
        event.preventDefault(); event.stopPropagation();
        kept.hover = null;
        kept.at = { m, r: Math.max(0, Math.min(R - 1, to[0])), c: Math.max(0, Math.min(C - 1, to[1])) };
        show();
      } else if (list[m].edit && (event.key === "Enter" || /^[-+.,0-9]$/.test(event.key))) {
        event.preventDefault();
        kept.at = { m, r, c };
        change(m, r, c, event.key === "Enter" ? undefined : event.key);
      } else if (list[m].words && event.key === "Enter") gaze.setPin(view, r);
    };
  });

  let pinned = null;
  gaze.join(root, meta, () => {                       // another word is pinned, or none any more
    const pin = gaze.pin(view);
    if (pin === pinned) return;
    pinned = pin;
    if (kept.at && (pin === null || (list[kept.at.m].words && kept.at.r !== pin))) kept.at = null;
    show();
  });
  pinned = gaze.pin(view);
  // A canvas does not wait for its font, which may be linked after the first paint.
  kept.arrived ??= () => { if (root.isConnected) kept.paint?.(); };
  document.fonts?.addEventListener("loadingdone", kept.arrived);
  const stop = live(root, paint);
  return () => { document.fonts?.removeEventListener("loadingdone", kept.arrived); stop(); };
}

/** One matrix on its canvas: colours, thin gaps, and numbers where a cell has room for them. */
function paintMatrix(canvas, { R, C, w, h, scale, look, signed, valueAt }) {
  const dpr = window.devicePixelRatio || 1, pen = canvas.getContext("2d");
  // The deepest colour is the largest number's; in very long vectors that of the top hundredth, which may stand far out.
  const sorted = Float64Array.from({ length: R * C }, (_, i) => Math.abs(valueAt(i))).sort();
  const most = sorted[C > 64 ? Math.floor(0.99 * (R * C - 1)) : R * C - 1] || 1;
  const table = signed ? ramp(look.blue, look.ground, look.orange) : ramp(look.ground, look.accent);
  const image = new ImageData(C, R), pixels = new Uint32Array(image.data.buffer);
  for (let i = 0; i < pixels.length; i++) {
    const share = signed ? (valueAt(i) / most + 1) / 2 : valueAt(i) / most;
    pixels[i] = table[Math.max(0, Math.min(255, Math.round(share * 255)))];
  }
  const small = new OffscreenCanvas(C, R);
  small.getContext("2d").putImageData(image, 0, 0);
  canvas.width = Math.max(1, Math.round(C * w * dpr)); canvas.height = Math.max(1, Math.round(R * h * dpr));
  Object.assign(canvas.style, { width: C * w + "px", height: R * h + "px" });
  pen.imageSmoothingEnabled = w * dpr < 1 || h * dpr < 1;
  pen.drawImage(small, 0, 0, canvas.width, canvas.height);
  pen.setTransform(dpr, 0, 0, dpr, 0, 0);
  pen.fillStyle = css(look.ground);
  if (w >= 12) for (let c = 1; c < C; c++) pen.fillRect(c * w - 0.5, 0, 1, R * h);
  if (h >= 12) for (let r = 1; r < R; r++) pen.fillRect(0, r * h - 0.5, C * w, 1);
  if (w < 24 || h < 16) return;
  pen.textAlign = "center"; pen.textBaseline = "middle";
  const room = text => pen.measureText(text).width <= w - 3, usual = i => Math.abs(valueAt(i)) < 1000;
  const usualSize = Math.min(13.5, w / 2.35), sizes = [...new Set([usualSize * (w > 30 ? scale : 1), usualSize, 0.85 * usualSize])];
  const fits = (size, n) => {
    pen.font = `${size}px ${look.font}`;
    return pixels.every((_, i) => !usual(i) || room(digits(valueAt(i), n)));
  };
  // The same decimals everywhere, or no numbers; rather two small ones than a large one.
  const places = [2, 1].find(n => sizes.some(size => fits(size, n)));
  if (places === undefined) return;
  for (let i = 0; i < pixels.length; i++) {
    const value = valueAt(i), power = value.toExponential(0).replace("e+", "e").replace("-", "\u2212");
    const text = usual(i) ? digits(value, places) : [digits(value, 0), power].find(text => text.length < 8 && room(text));
    if (!text) continue;
    pen.fillStyle = light(unramp(pixels[i])) > 0.55 ? "#14161f" : "#fff";
    pen.globalAlpha = Math.abs(value) < 0.005 ? 0.42 : 1;
    pen.fillText(text, (i % C + 0.5) * w, (Math.floor(i / C) + 0.54) * h);
  }
  pen.globalAlpha = 1;
}
