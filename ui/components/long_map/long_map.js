import { begin, css, digits, el, label, live, ramp, theme } from "../gaze.shared/shared.js";

export default function ({ data, parentElement, setTriggerValue }) {
  const { root, kept, first, meta, arrays } = begin(parentElement, data);
  const { region, sizes, log, words, queries } = meta, keys = meta.keys ?? queries, { weights, allowed } = arrays;
  const A = queries.length, B = keys.length, most = weights.reduce((a, b) => Math.max(a, b), 0) || 1;
  if (first) {
    for (const name of ["axes", "corner", "top", "left", "plot", "bar", "told", "text asks", "text looks"]) kept[name.split(" ").pop()] = el("div", name);
    for (const name of ["row", "picked", "drag"]) kept[name] = el("div", `mark ${name}`);
    kept.canvas = el("canvas");
    kept.titles = [el("h4"), el("h4")];
    kept.plot.append(kept.canvas, kept.row, kept.picked, kept.drag);
    kept.axes.append(el("span"), kept.corner, el("span"), kept.top, kept.left, kept.plot);
    root.append(el("div", "side", kept.axes, kept.bar, kept.told), el("div", "side", kept.titles[0], kept.asks, kept.titles[1], kept.looks));
    Object.assign(kept.canvas, { tabIndex: 0, role: "img" });
    kept.told.role = "status";
    kept.looks.tabIndex = kept.asks.tabIndex = 0;
  }
  const { canvas } = kept, fill = (text, values) => text.replace(/\{(\w+)\}/g, (all, name) => values[name] ?? all);
  canvas.ariaLabel = words.alt;
  kept.titles[0].textContent = words.asks; kept.titles[1].textContent = words.looks;
  kept.corner.textContent = `${words.key} \u2192, ${words.query} \u2193`;
  Object.assign(root.dataset, { rows: A, cols: B, region: region.join("-") });
  let picked = meta.picked, hover = null, from = null, width = 1, height = 1;
  const span = (side, n) => {                          // the tokens of a tile, from 0, without the last
    const low = region[2 * side] + n * sizes[side];
    return [low, Math.min(low + sizes[side], region[2 * side + 1])];
  };
  const places = (side, n) => {
    const [low, high] = span(side, n);
    return high - low > 1 ? fill(words.tokens, { from: low + 1, to: high }) : fill(words.token, { from: low + 1 });
  };
  const shade = value => log ? value > 0 ? Math.max(0, 1 + Math.log10(value / most) / 3) : 0 : value / most;

  // The text of the keys, once a map: a span a tile.
  kept.spans = keys.map((text, i) => {
    const part = el("span", "", text);
    part.onclick = () => pick(picked[0], i);
    part.onpointerenter = () => { hover = [picked[0], i]; mark(); };
    part.onpointerleave = () => { hover = null; mark(); };
    return part;
  });
  kept.looks.replaceChildren(...kept.spans.flatMap((part, i) => i ? [document.createTextNode(/\s$/.test(keys[i - 1]) || /^\s/.test(keys[i]) ? "" : "\u200b"), part] : [part]));

  function paint(scale) {
    root.classList.toggle("narrow", root.clientWidth < 720);
    const dpr = window.devicePixelRatio || 1, look = theme(root), room = kept.axes.clientWidth - kept.left.offsetWidth - 2;
    const side = Math.max(60, Math.min(room, 620 * scale)), ratio = ((region[1] - region[0]) / (region[3] - region[2]));
    width = ratio > 1 ? Math.max(side / 3, side / ratio) : side;
    height = ratio > 1 ? side : Math.max(side / 3, side * ratio);
    const table = ramp(look.ground, look.accent), closed = ramp(look.ground, look.text)[15];
    const image = new ImageData(B, A), pixels = new Uint32Array(image.data.buffer);
    for (let i = 0; i < pixels.length; i++) pixels[i] = allowed[i] ? table[Math.round(255 * Math.min(1, shade(weights[i])))] : closed;
    const small = new OffscreenCanvas(B, A), pen = canvas.getContext("2d");
    small.getContext("2d").putImageData(image, 0, 0);
    canvas.width = Math.round(width * dpr); canvas.height = Math.round(height * dpr);
    Object.assign(canvas.style, { width: width + "px", height: height + "px" });
    for (const box of [kept.plot, kept.top]) box.style.width = width + "px";
    pen.imageSmoothingEnabled = canvas.width < 2 * B || canvas.height < 2 * A;
    pen.drawImage(small, 0, 0, canvas.width, canvas.height);
    // Token numbers, from 1, at the ends and between.
    const ticks = (box, low, high, length, room, side) => {
      const count = Math.max(1, Math.min(Math.floor(length / room), high - low - 1)), made = [];
      for (let n = 0; n <= (high - low > 1 ? count : 0); n++) {
        const share = high - low > 1 ? n / count : 0, tag = el("span", "", String(low + 1 + Math.round(share * (high - low - 1))));
        tag.style[side] = share * length + "px";
        made.push(tag);
      }
      box.replaceChildren(...made);
    };
    ticks(kept.top, region[2], region[3], width, 90 * scale, "left");
    ticks(kept.left, region[0], region[1], height, 60 * scale, "top");
    const strip = el("div", "ramp");
    strip.style.background = `linear-gradient(90deg, ${css(look.ground)}, ${css(look.accent)})`;
    kept.bar.replaceChildren(el("span", "", words.weight), el("span", "", log ? `\u2264 ${(most / 1000).toPrecision(1)}` : "0"), strip, el("span", "", most >= 0.01 ? digits(most, 2) : most.toPrecision(1)));
    mark();
  }

  function mark() {
    const place = (box, cells) => {
      box.hidden = !cells;
      if (!cells) return;
      const [r0, r1, c0, c1] = cells, x = c0 * width / B, y = r0 * height / A;
      Object.assign(box.style, { transform: `translate(${x}px, ${y}px)`, width: (c1 + 1 - c0) * width / B + "px", height: (r1 + 1 - r0) * height / A + "px" });
    };
    const [r, c] = hover ?? picked;
    place(kept.row, [r, r, 0, B - 1]);
    place(kept.picked, [picked[0], picked[0], picked[1], picked[1]]);
    place(kept.drag, from?.far ? box(from.at, from.to) : null);
    const row = weights.subarray(r * B, r * B + B), top = row.reduce((a, b) => Math.max(a, b), 0) || 1;
    const again = kept.lit?.row !== r || kept.lit?.weights !== weights;
    kept.spans.forEach((part, i) => {
      if (again) {
        const strong = Math.round(60 * (log ? Math.max(0, 1 + Math.log10(row[i] / top) / 3) : row[i] / top));
        part.style.background = row[i] > 0 && strong ? `color-mix(in srgb, var(--st-primary-color) ${strong}%, transparent)` : "";
        part.dataset.strong = strong || 0;
        part.title = `${places(1, i)} · ${words.weight} ${digits(row[i], 4)}`;
      }
      part.classList.toggle("on", i === c);
    });
    if (again) {
      kept.asks.replaceChildren(label(queries[r]));
      kept.titles[0].textContent = `${words.asks} · ${places(0, r)}`;
      kept.titles[1].textContent = `${words.looks} · ${fill(words.tokens, { from: region[2] + 1, to: region[3] })}`;
    }
    kept.lit = { row: r, weights };
    const short = text => { const line = text.replace(/\s+/g, " ").trim() || text.replace(/\n/g, "\u21b5"); return line.length > 90 ? line.slice(0, 88) + "\u2026" : line; };
    const open = allowed[r * B + c];
    kept.told.replaceChildren(
      el("div", "", `${places(0, r)}: `, label(short(queries[r]))), el("div", "", `\u2192 ${places(1, c)}: `, label(short(keys[c]))),
      el("div", "", open ? `${words.weight} ${digits(weights[r * B + c], 4)}` : words.closed));
    Object.assign(root.dataset, { row: r, column: c, picked: picked.join("-") });
  }
  const box = (a, b) => [Math.min(a[0], b[0]), Math.max(a[0], b[0]), Math.min(a[1], b[1]), Math.max(a[1], b[1])];
  const at = event => {
    const place = canvas.getBoundingClientRect(), limit = (v, n) => Math.max(0, Math.min(n - 1, Math.floor(v)));
    return [limit((event.clientY - place.top) / height * A, A), limit((event.clientX - place.left) / width * B, B)];
  };
  function pick(r, c) {
    picked = [r, c]; hover = null;
    mark();
    const part = kept.spans[c], looks = kept.looks;     // within its own box: the page stays where it is
    looks.scrollTop += part.getBoundingClientRect().top - looks.getBoundingClientRect().top - looks.clientHeight / 3;
    setTriggerValue("picked", picked);
  }
  canvas.onpointerdown = event => {
    if (event.button) return;
    from = { at: at(event), to: at(event), x: event.clientX, y: event.clientY, touch: event.pointerType === "touch" };
    if (!from.touch) canvas.setPointerCapture(event.pointerId);
  };
  canvas.onpointermove = event => {
    if (from && !from.touch) {
      from.to = at(event);
      from.far ||= Math.hypot(event.clientX - from.x, event.clientY - from.y) > 6;
    }
    hover = at(event);
    mark();
  };
  canvas.onpointerup = () => {
    if (!from) return;
    const { far, at: start, to } = from;
    from = null;
    if (far) { hover = null; mark(); setTriggerValue("region", box(start, to)); } else pick(...start);
  };
  canvas.onpointercancel = () => { from = null; mark(); };
  canvas.onpointerleave = () => { if (!from) { hover = null; mark(); } };
  canvas.onkeydown = event => {
    const [r, c] = hover ?? picked;
    const to = { ArrowUp: [r - 1, c], ArrowDown: [r + 1, c], ArrowLeft: [r, c - 1], ArrowRight: [r, c + 1] }[event.key];
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Escape") { from = null; hover = null; mark(); }
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); pick(r, c); }
    if (!to) return;
    event.preventDefault();
    hover = [Math.max(0, Math.min(A - 1, to[0])), Math.max(0, Math.min(B - 1, to[1]))];
    mark();
  };
  return live(root, paint);
}
