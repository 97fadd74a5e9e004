export default function ({ data, parentElement }) {
  const { root, kept, first, meta, arrays } = begin(parentElement, data);
  const { view, queries, keys, words, factor } = meta, { raw, final, weights, allowed } = arrays;
  const Q = queries.length, K = keys.length, show = raw ? meta.show : "weights", signed = show !== "weights";
  if (first) {
    Object.assign(kept, { frame: el("div", "frame"), corner: el("div", "corner"), columns: el("div"), rows: el("div", "rows"),
      plot: el("div", "plot"), canvas: el("canvas", "map"), bar: el("div"), tip: el("div", "tip"),
      row: el("div", "mark band"), column: el("div", "mark band"), pinned: el("div", "mark pinned"), spot: el("div", "mark spot") });
    kept.plot.append(kept.canvas, kept.row, kept.column, kept.pinned, kept.spot);
    kept.frame.append(kept.corner, kept.columns, kept.rows, kept.plot, kept.bar);
    root.append(kept.frame, kept.tip);
    Object.assign(kept.canvas, { tabIndex: 0, role: "img" });
    kept.tip.role = "status";
    kept.tip.popover = "manual";                     // the top layer: nothing on the page can clip it or be widened by it
    kept.tip.hidden = true;
  }
  const { corner, columns, rows, plot, canvas, bar, tip } = kept;
  canvas.ariaLabel = words.alt ?? "";
  Object.assign(root.dataset, { rows: Q, cols: K, show });
  corner.replaceChildren(el("span", "", `${words.key ?? ""} \u2192`), el("span", "", `${words.query ?? ""} \u2193`));
  if (kept.cell && (kept.cell[0] >= Q || kept.cell[1] >= K)) kept.cell = null;

  const scaledAt = i => factor === null || factor === undefined ? final?.[i] ?? NaN : raw[i] * factor;
  const valueAt = show === "raw" ? i => raw[i] : show === "scaled" ? scaledAt : i => weights[i];
  const blocked = i => allowed !== undefined && !allowed[i];
  let cell, rowLabels, columnLabels;                 // css px of a cell; label elements by position (thinned: not all)

  function paint(scale) {
    const started = performance.now(), look = theme(root), dpr = window.devicePixelRatio || 1, width = root.clientWidth;
    // Room for the labels first, then the cells: square, at most 44 px, whole device pixels unless that wastes a fifth.
    let font = 14 * scale;
    const left = Math.ceil(Math.max(Math.min(widest(queries, font, root) + 14, width * 0.27), widest([corner.textContent.slice(0, -2)], 8 * scale, root), 58 * scale));
    const long = Math.ceil(Math.min(widest(keys, font, root) + 6, 110 * scale)), slanted = (width - left) / K >= 20 * scale;
    const high = slanted ? Math.ceil(long * 0.71 + 18 * scale) : long + 12, beyond = slanted ? Math.ceil(long * 0.71) : 4;
    const fit = Math.min((width - left - beyond) / K, 720 * scale / Q) * dpr;   // and the whole map fits a screen
    cell = Math.min(44 * scale, (Math.floor(fit) > 0.8 * fit ? Math.floor(fit) : fit) / dpr);
    cell = Math.max(cell, 0.5 / dpr);
    font = Math.max(13, Math.min(font, cell * (slanted ? 0.64 : 0.95)));
    const w = K * cell, h = Q * cell;
    root.style.setProperty("--font", font); root.style.setProperty("--reach", long + "px");
    columns.className = `columns ${slanted ? "slanted" : "upright"}`;
    Object.assign(rows.style, { width: left + "px", height: h + "px" });
    Object.assign(columns.style, { width: w + "px", height: high + "px", marginRight: beyond + "px" });
    Object.assign(plot.style, { width: w + "px", height: h + "px" });
    const crowded = Math.max(4, 11 * scale - cell / 2);              // the first labels reach beyond the map
    corner.style.padding = `0 ${crowded + 4}px ${crowded}px 0`;
    const step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000].find(n => n * cell >= (n === 1 ? 12 : 17 * scale)) ?? 5000;
    const labels = (box, texts, side, offset) => {
      const made = new Map();
      texts.forEach((text, i) => {
        if (i % step) return;
        const tag = el("span", "", label(text));
        tag.style[side] = (i + 0.5) * cell - offset + "px"; tag.title = text;
        made.set(i, tag);
      });
      box.replaceChildren(...made.values());
      return made;
    };
    rowLabels = labels(rows, queries, "top", 0); columnLabels = labels(columns, keys, "left", 0);

    // One pixel a cell, then enlarged by a whole number without smoothing, then (seldom) fitted with smoothing.
    const { lo, hi } = meta, most = signed ? Math.max(Math.abs(lo ?? 0), Math.abs(hi ?? 0)) || 1 : hi || 1, least = signed ? -most : 0;
    const table = signed ? ramp(look.blue, look.ground, look.orange) : ramp(look.ground, look.accent);
    const stops = signed ? [look.blue, look.ground, look.orange] : [look.ground, look.accent];
    const [r, g, b] = mix(look.ground, look.text, 0.09), grey = (255 << 24 | b << 16 | g << 8 | r) >>> 0;
    const image = new ImageData(K, Q), pixels = new Uint32Array(image.data.buffer), by = 255 / (most - least);
    for (let i = 0; i < pixels.length; i++) {
      const value = valueAt(i);
      pixels[i] = blocked(i) || value !== value ? grey : table[Math.max(0, Math.min(255, Math.round((value - least) * by)))];
    }
    const small = new OffscreenCanvas(K, Q), pen = canvas.getContext("2d");
    small.getContext("2d").putImageData(image, 0, 0);
    canvas.width = Math.max(1, Math.round(w * dpr)); canvas.height = Math.max(1, Math.round(h * dpr));
    Object.assign(canvas.style, { width: w + "px", height: h + "px" });
    const times = Math.ceil(cell * dpr - 1e-6), uneven = times !== Math.round(cell * dpr * 1e3) / 1e3;
    const large = uneven && times > 1 ? new OffscreenCanvas(K * times, Q * times) : small;
    if (large !== small) {
      const enlarge = large.getContext("2d");
      enlarge.imageSmoothingEnabled = false;
      enlarge.drawImage(small, 0, 0, large.width, large.height);
    }
    pen.imageSmoothingEnabled = uneven; pen.imageSmoothingQuality = "high";
    pen.drawImage(large, 0, 0, canvas.width, canvas.height);
    pen.setTransform(dpr, 0, 0, dpr, 0, 0);
    if (cell >= 6) hatch(pen, look, w, h, dpr);
    if (cell >= 34) numbers(pen, look, pixels, scale);

    const from = signed ? lo ?? -most : 0, to = signed ? hi ?? most : most, at = v => (v - least) / (most - least);
    const shades = Array.from({ length: 17 }, (_, i) => {
      const t = at(from + (to - from) * i / 16) * (stops.length - 1), k = Math.max(0, Math.min(stops.length - 2, Math.floor(t)));
      return css(mix(stops[k], stops[k + 1], t - k));
    });
    const strip = el("div", "ramp"), zero = el("i", "zero");
    strip.style.background = `linear-gradient(90deg, ${shades})`;
    zero.style.left = `${100 * -from / (to - from)}%`;
    const inner = signed && from < -0.12 * (to - from) && to > 0.12 * (to - from);
    if (inner) strip.append(zero);
    bar.className = inner ? "bar signed" : "bar";
    bar.replaceChildren(el("span", "name", words[show] ?? ""), el("span", "", digits(from, 2)), strip, el("span", "", digits(to, 2)));
    mark();
    root.dataset.paintMs = (performance.now() - started).toFixed(2);
  }

  function hatch(pen, look, w, h, dpr) {             // not allowed: stripes, so that it cannot be taken for a small value
    const size = 6, tile = new OffscreenCanvas(size * dpr, size * dpr), g = tile.getContext("2d");
    g.scale(dpr, dpr); g.strokeStyle = css(mix(look.ground, look.text, 0.24)); g.lineWidth = 1;
    g.beginPath();
    for (const d of [-size, 0, size]) { g.moveTo(d - 1, size + 1); g.lineTo(d + size + 1, -1); }
    g.stroke();
    const pattern = pen.createPattern(tile, "repeat");
    pattern.setTransform(new DOMMatrix().scale(1 / dpr));
    pen.fillStyle = pattern; pen.beginPath();
    for (let i = 0; i < Q * K; i++) if (blocked(i)) pen.rect(i % K * cell, Math.floor(i / K) * cell, cell, cell);
    pen.fill();
    if (cell < 12) return;
    pen.fillStyle = css(look.ground);                // thin gaps make the cells countable
    for (let c = 1; c < K; c++) pen.fillRect(c * cell - 0.5, 0, 1, h);
    for (let r = 1; r < Q; r++) pen.fillRect(0, r * cell - 0.5, w, 1);
  }
  function numbers(pen, look, pixels, scale) {
    pen.font = `${13 * Math.min(scale, cell / 34)}px ${look.font}`;
    pen.textAlign = "center"; pen.textBaseline = "middle";
    for (let i = 0; i < pixels.length; i++) {
      if (blocked(i) || !Number.isFinite(valueAt(i))) continue;
      let text = digits(valueAt(i), 2);
      for (let places = 1; places >= 0 && pen.measureText(text).width > cell - 4; places--) text = digits(valueAt(i), places);
      if (pen.measureText(text).width > cell - 2) continue;
      pen.fillStyle = light(unramp(pixels[i])) > 0.55 ? "#14161f" : "#fff";
      pen.globalAlpha = !signed && valueAt(i) < 0.005 ? 0.45 : 1;
      pen.fillText(text, (i % K + 0.5) * cell, (Math.floor(i / K) + 0.54) * cell);
    }
    pen.globalAlpha = 1;
  }

  // Row and column that are looked at, from here or from another component of the view.
  function mark() {
    const started = performance.now(), hover = gaze.hover(view), pin = gaze.pin(view), w = K * cell, h = Q * cell;
    const place = (box, shown, x, y, dx, dy) => {
      box.hidden = !shown;
      if (shown) Object.assign(box.style, { transform: `translate(${x}px, ${y}px)`, width: dx + "px", height: dy + "px" });
    };
    const r = hover?.query ?? null, c = hover?.key ?? null;
    place(kept.row, r !== null, 0, r * cell, w, cell);
    place(kept.column, c !== null, c * cell, 0, cell, h);
    place(kept.spot, r !== null && c !== null && cell >= 4, c * cell, r * cell, cell, cell);
    place(kept.pinned, pin !== null, 0, pin * cell, w, cell);
    kept.lit?.forEach(tag => tag?.classList.remove("lit"));
    kept.lit = [rowLabels.get(r), rowLabels.get(pin), columnLabels.get(c)];
    kept.lit.forEach(tag => tag?.classList.add("lit"));
    root.dataset.pin = pin ?? "";
    if (kept.tipAt?.r === r && kept.tipAt?.c === c) explain(); else hide();
    if (hover) root.dataset.hoverMs = (performance.now() - started).toFixed(3);
  }
  // Looking at a cell only notes it; what follows is drawn once a frame, however often the pointer moved.
  function lookAt(r, c, x, y) {                        // x, y: in the window, where the tip stands beside
    const same = kept.tipAt?.r === r && kept.tipAt?.c === c;
    kept.tipAt = { r, c, x, y };
    root.dataset.hover = `${r},${c}`;
    if (same && !tip.hidden && kept.told) { stand(); return; }
    const before = gaze.hover(view);
    kept.told = false;
    gaze.setHover(view, { query: r, key: c });
    if (gaze.hover(view) === before) explain();      // someone else was there already
  }
  function explain() {
    kept.told = true;
    const { r, c } = kept.tipAt, i = r * K + c, line = (name, text, main = "") => {
      const entry = el("div", `line ${main}`, el("span", "", name ?? ""), el("span", "", text));
      return entry;
    };
    const lines = [];
    if (raw && Number.isFinite(raw[i])) {
      lines.push(line(words.raw, digits(raw[i], 4), show === "raw" ? "main" : ""));
      if (factor !== null && factor !== undefined) {
        lines.push(line(words.factor, `\u00d7 ${meta.factor_text ?? digits(factor, 4)}`));
        lines.push(line(words.scaled, `= ${digits(scaledAt(i), 4)}`, show === "scaled" ? "main" : ""));
      }
      if (final && (meta.extra || factor === null || factor === undefined) && !blocked(i)) lines.push(line(words.final, digits(final[i], 4)));
    }
    lines.push(blocked(i) ? line(words.not_allowed, "") : line(words.weights, digits(weights[i], 4), show === "weights" ? "main" : ""));
    tip.replaceChildren(el("div", "pair", label(queries[r]), " \u2192 ", label(keys[c])), ...lines);
    if (tip.hidden) { tip.hidden = false; tip.showPopover?.(); }
    // Measuring makes the browser lay out the page in the middle of a hover; so only when the size may have changed.
    const shape = `${lines.length} ${kept.scale} ${queries[r].length + keys[c].length > 20 ? `${r} ${c}` : ""}`;
    if (kept.tipShape !== shape) Object.assign(kept, { tipShape: shape, tipSize: [tip.offsetWidth, tip.offsetHeight] });
    stand();
  }
  function stand() {
    const [wide, high] = kept.tipSize, { x, y } = kept.tipAt, room = document.documentElement.clientWidth - 8, tall = window.innerHeight - 8;
    const fitX = x + 18 + wide <= room ? x + 18 : x - 18 - wide, fitY = y + 18 + high <= tall ? y + 18 : y - 18 - high;
    tip.style.left = Math.max(8, Math.min(fitX, room - wide)) + "px"; tip.style.top = Math.max(8, Math.min(fitY, tall - high)) + "px";
  }
  function hide() {
    kept.tipAt = null;
    if (!tip.hidden) { tip.hidePopover?.(); tip.hidden = true; }
    delete root.dataset.hover;
  }
  const leave = () => { hide(); gaze.setHover(view, null); };
  const at = event => {
    const box = canvas.getBoundingClientRect(), limit = (v, n) => Math.max(0, Math.min(n - 1, Math.floor(v)));
    return [limit((event.clientY - box.top) / cell, Q), limit((event.clientX - box.left) / cell, K)];
  };
  const pin = r => gaze.setPin(view, gaze.pin(view) === r ? null : r);
  canvas.onpointermove = event => lookAt(...at(event), event.clientX, event.clientY);
  canvas.onpointerdown = canvas.onpointermove;
  canvas.onpointerleave = event => { if (event.pointerType !== "touch") leave(); };   // a tap's tip stays until the next tap
  canvas.onblur = leave;
  canvas.onclick = event => { kept.cell = at(event); pin(kept.cell[0]); };
  canvas.onkeydown = event => {
    const [r, c] = kept.cell ?? [gaze.pin(view) ?? 0, 0];
    const to = { ArrowUp: [r - 1, c], ArrowDown: [r + 1, c], ArrowLeft: [r, c - 1], ArrowRight: [r, c + 1], Home: [r, 0], End: [r, K - 1] }[event.key];
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); pin(r); }
    if (!to) return;
    event.preventDefault();
    kept.cell = [Math.max(0, Math.min(Q - 1, to[0])), Math.max(0, Math.min(K - 1, to[1]))];
    const box = canvas.getBoundingClientRect();
    lookAt(...kept.cell, box.left + (kept.cell[1] + 0.5) * cell, box.top + (kept.cell[0] + 0.5) * cell);
  };

  hide();
  gaze.join(root, meta, mark);
  const stop = live(root, paint);
  return () => { hide(); stop(); };
}
