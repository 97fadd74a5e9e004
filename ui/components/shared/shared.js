// Shared by all components, which import it from where it is served (payload.mount). Data become text nodes, never markup.

/** The bytes of payload.pack -> {meta, arrays}: typed views on the message itself, copied where it is misaligned or in fewer bits. */
export function unpack(data) {
  if (data.arrays) return data;                      // unpacked already, in a file of its own (standalone.py)
  const bytes = data instanceof Uint8Array ? data : new Uint8Array(data), arrays = {};
  const size = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + size)));
  for (const [name, { dtype, shape, offset, low, step, places }] of Object.entries(header.arrays)) {
    const count = shape.reduce((a, b) => a * b, 1), length = dtype === "b1" ? Math.ceil(count / 8) : count;
    const Kind = { f4: Float32Array, b1: Uint8Array, u1: Uint8Array, u2: Uint16Array, i4: Int32Array }[dtype];
    const start = bytes.byteOffset + 4 + size + offset, fits = start % Kind.BYTES_PER_ELEMENT === 0;
    const buffer = fits ? bytes.buffer : bytes.buffer.slice(start, start + length * Kind.BYTES_PER_ELEMENT);
    const sent = new Kind(buffer, fits ? start : 0, length);
    const read = dtype === "b1" ? i => sent[i >> 3] >> (i & 7) & 1 : step && (i => sent[i] === 65535 ? NaN : low + sent[i] * step);
    const array = read ? new (step ? Float32Array : Uint8Array)(count) : sent;
    if (read) for (let i = 0; i < count; i++) array[i] = read(i);
    arrays[name] = Object.assign(array, { shape, places });
  }
  return { meta: header.meta, arrays };
}

// The pins of the page: which query each view looks at. In the browser only; the server never hears of it.
export const gaze = (window.gaze ??= (() => {
  const views = new Map();                 // name -> {pin, last, hover, param, listeners: root -> function}
  const homes = new Map();                 // root -> name of its view
  const roots = new Map();                 // root -> repaint, for what concerns everyone (presentation mode)
  const lent = new Map();                  // root -> {of, arrays}: numbers that others of the page draw as well
  const waiting = new Map();               // root -> {of, draw}: who waits for such numbers
  let written = 0, later = 0;
  // Browsers refuse more than about a hundred address changes in half a minute, so a held arrow key writes its last one.
  function write(param, pin) {
    clearTimeout(later);
    const wait = written + 300 - performance.now();
    if (wait > 0) { later = setTimeout(write, wait, param, pin); return; }
    written = performance.now();
    const name = encodeURIComponent(param) + "=";
    const rest = location.search.slice(1).split("&").filter(part => part && !part.startsWith(name));
    if (pin !== null) rest.push(name + pin);
    history.replaceState(history.state, "", location.pathname + (rest.length ? "?" + rest.join("&") : "") + location.hash);
  }
  // Listeners run once a frame, however many moves of the pointer there were.
  function tell(view) {
    const v = views.get(view);
    if (v) v.soon ||= requestAnimationFrame(() => { v.soon = 0; v.listeners.forEach(listener => listener()); });
  }
  function part(root) {                    // a view that nobody shows for a moment is forgotten
    const view = homes.get(root), v = views.get(view);
    homes.delete(root); v?.listeners.delete(root);
    if (v) setTimeout(() => { if (!v.listeners.size && views.get(view) === v) views.delete(view); }, 400);
  }
  const api = {
    pin: view => views.get(view)?.pin ?? null,
    last: view => views.get(view)?.last ?? null,      // the latest pin, also after its release
    hover: view => views.get(view)?.hover ?? null,    // {query, key}, either may be null
    setPin(view, query) {
      const v = views.get(view);
      if (!v || v.pin === query) return;
      v.pin = query; v.last = query ?? v.last;
      if (typeof v.param === "string") write(v.param, query);
      tell(view);
    },
    setHover(view, hover) {
      const v = views.get(view);
      if (!v || (v.hover?.query === hover?.query && v.hover?.key === hover?.key)) return;
      v.hover = hover; tell(view);
    },
    join(root, meta, listener) {
      const { view, pinned = null } = meta, fits = (i, list) => i === null || i === undefined || (i >= 0 && i < list.length);
      if (homes.get(root) !== view) part(root);
      if (!views.has(view)) views.set(view, { pin: pinned, last: pinned, hover: null, listeners: new Map() });
      const v = views.get(view);
      homes.set(root, view); v.listeners.set(root, listener);
      v.param = meta.param ?? v.param;
      if (!fits(v.last, meta.queries)) v.last = null;
      if (!fits(v.hover?.query, meta.queries) || !fits(v.hover?.key, meta.keys)) v.hover = null;
      if (!fits(v.pin, meta.queries)) api.setPin(view, null);
    },
    lend(root, of, arrays) {
      lent.set(root, { of, arrays });
      waiting.forEach(({ of: wanted, draw }, who) => { if (wanted === of) { waiting.delete(who); draw(); } });
    },
    borrow(root, of, draw) {               // null until they are there; then it is drawn
      waiting.delete(root);
      for (const one of lent.values()) if (one.of === of) return one.arrays;
      waiting.set(root, { of, draw });
      return null;
    },
    leave(root) { part(root); lent.delete(root); waiting.delete(root); },
    // The server's own changes of the address know nothing of pins: what is pinned is written again after each.
    address: () => setTimeout(() => views.forEach(v => {
      if (v.listeners.size && v.pin !== null && typeof v.param === "string") write(v.param, v.pin);
    }), 100),
    roots,
  };
  // Once per page and for good: Escape releases wherever the focus is, except while someone is typing.
  document.addEventListener("keydown", event => {
    const at = event.composedPath()[0];
    if (event.key !== "Escape" || event.isComposing || at.matches?.("input, textarea, select, [contenteditable]")) return;
    views.forEach((v, view) => { v.hover = null; if (v.pin === null) tell(view); else api.setPin(view, null); });
  });
  new MutationObserver(() => roots.forEach(repaint => repaint()))
    .observe(document.documentElement, { attributes: true, attributeFilter: ["data-presenter"] });
  return api;
})());

/**
 * Start of every run: the root, the unpacked data, what earlier runs kept, and whether this is the first one.
 * Numbers that another component was sent are borrowed from it; until it has them there is no root, and then `draw` is called.
 */
export function begin(parentElement, data, draw) {
  const root = parentElement.querySelector("[data-gaze]"), first = !root.kept, told = unpack(data), { lends, borrows } = told.meta;
  const turn = root.turn = {}, borrowed = borrows ? gaze.borrow(root, borrows, draw) : {};
  if (!borrowed) return { leave: () => { if (root.turn === turn) { gaze.leave(root); root.kept?.stop(); } } };
  if (lends) gaze.lend(root, lends, told.arrays);
  root.dataset.runs = 1 + Number(root.dataset.runs || 0);
  root.kept ??= { width: 0 };
  return { root, kept: root.kept, first, meta: told.meta, arrays: { ...borrowed, ...told.arrays } };
}

/** End of every run: paint now and whenever the width, the fonts or the presentation mode change; gives the cleanup. */
export function live(root, paint) {
  const { kept, turn } = root;
  kept.paint = () => {
    root.style.setProperty("--scale", kept.scale = document.documentElement.hasAttribute("data-presenter") ? 1.35 : 1);
    kept.width = root.clientWidth;
    if (kept.width) paint(kept.scale);
  };
  if (!kept.sizes) {
    kept.sizes = new ResizeObserver(() => { if (root.clientWidth !== kept.width) kept.paint(); });
    kept.sizes.observe(root);
    kept.fonts = () => { if (root.isConnected) kept.paint(); };   // a canvas does not wait for the font by itself
    document.fonts?.addEventListener("loadingdone", kept.fonts);
    gaze.roots.set(root, () => kept.paint());
    kept.stop = () => { kept.sizes?.disconnect(); kept.sizes = null; document.fonts?.removeEventListener("loadingdone", kept.fonts); gaze.roots.delete(root); gaze.leave(root); };
  }
  kept.paint();
  return () => { if (root.turn === turn) kept.stop(); };   // a run that was overtaken is cleaned up after the next one has begun
}

/** An element; strings among the content become text nodes. */
export function el(tag, className = "", ...content) {
  const element = document.createElement(tag);
  element.className = className;
  element.append(...content);
  return element;
}
/** A token's label: its own direction, isolated from its neighbours. */
export const label = text => Object.assign(el("bdi", "", text), { dir: "auto" });
/** A number with a true minus and no minus zero. */
export const digits = (value, places) => Number.isFinite(value)
  ? value.toFixed(places).replace(/^-(?=[0.]*$)/, "").replace("-", "\u2212") : "\u2013";
const measure = new OffscreenCanvas(1, 1).getContext("2d");
/** Width in px of the widest of the texts. */
export function widest(texts, size, root) {
  measure.font = `${size}px ${getComputedStyle(root).fontFamily}`;
  return texts.reduce((most, text) => Math.max(most, measure.measureText(text).width), 0);
}

const probe = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
/** Any css colour -> [r, g, b]. */
export function rgb(css) {
  probe.fillStyle = "#000"; probe.fillStyle = css; probe.fillRect(0, 0, 1, 1);
  return [...probe.getImageData(0, 0, 1, 1).data.subarray(0, 3)];
}
export const mix = (a, b, t) => a.map((v, i) => Math.round(v + (b[i] - v) * t));
export const css = ([r, g, b]) => `rgb(${r},${g},${b})`;
export const light = ([r, g, b]) => (0.299 * r + 0.587 * g + 0.114 * b) / 255;
/** The theme as numbers: canvas knows no css variables. */
export function theme(root) {
  const style = getComputedStyle(root), get = name => rgb(style.getPropertyValue(name).trim());
  const ground = get("--st-background-color"), dark = light(ground) < 0.5;
  return { ground, dark, accent: get("--st-primary-color"), text: get("--st-text-color"),
    blue: rgb(dark ? "#5b9bff" : "#2563eb"), orange: rgb(dark ? "#ffa02e" : "#ea7a0c"), font: style.fontFamily };
}
/** Colours between the stops -> 256 pixels as ImageData wants them. */
export function ramp(...stops) {
  return Uint32Array.from({ length: 256 }, (_, i) => {
    const t = i / 255 * (stops.length - 1), at = Math.min(stops.length - 2, Math.floor(t));
    const [r, g, b] = mix(stops[at], stops[at + 1], t - at);
    return (255 << 24 | b << 16 | g << 8 | r) >>> 0;
  });
}
export const unramp = pixel => [pixel & 255, pixel >> 8 & 255, pixel >> 16 & 255];

/** Buttons of role radio as one group: a click picks, arrows move the focus. The ring moves at once; since answers to earlier picks may still arrive, the latest one wins over them for two seconds. Gives the cleanup. */
export function radios(root, items, chosen, name, pick) {
  const { kept } = root, count = items.length, at = event => items.indexOf(event.target.closest("[role=radio]"));
  function ring(chosen) {
    const tab = items[chosen] ? chosen : 0;
    items.forEach((item, i) => { item.ariaChecked = String(i === chosen); item.tabIndex = i === tab ? 0 : -1; });
    root.dataset.chosen = chosen;
  }
  Object.assign(root, { role: "radiogroup", ariaLabel: name ?? "" });
  kept.told = chosen;
  if (kept.picked === chosen) { clearTimeout(kept.wait); kept.picked = null; }
  ring(kept.picked ?? chosen);
  root.onclick = event => {                              // also Enter and Space: the button's own click
    const i = at(event);
    if (i < 0 || root.dataset.chosen === String(i)) return;
    ring(i);
    kept.picked = i;
    clearTimeout(kept.wait);
    kept.wait = setTimeout(() => { kept.picked = null; ring(kept.told); }, 2000);
    pick(i);
  };
  root.onkeydown = event => {
    const i = at(event), before = i - 1, after = i + 1;
    const to = { ArrowLeft: before, ArrowUp: before, ArrowRight: after, ArrowDown: after, Home: 0, End: count - 1 }[event.key];
    if (i < 0 || to === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    items[(to + count) % count].focus();
  };
  return () => clearTimeout(kept.wait);
}

/** Let the reader save a blob as a file. */
export function save(blob, file) {
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: file });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
/** Draw the text of an SVG at twice its size. What is written is drawn apart: an image sees no fonts of the page. */
async function raster(svg) {
  const { documentElement: drawn } = new DOMParser().parseFromString(svg, "image/svg+xml"), texts = [...drawn.querySelectorAll("text")];
  texts.forEach(text => text.remove());
  const image = new Image(), address = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(drawn)], { type: "image/svg+xml" }));
  image.src = address;
  await image.decode();
  const canvas = Object.assign(document.createElement("canvas"), { width: 2 * image.width, height: 2 * image.height }), pen = canvas.getContext("2d");
  pen.drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(address);
  for (const text of texts) {
    const get = (name, usual) => text.getAttribute(name) ?? usual, turned = text.transform.baseVal.consolidate()?.matrix;
    const font = `${get("font-weight", 400)} ${parseFloat(get("font-size", 13))}px ${drawn.getAttribute("font-family")}`;
    await document.fonts.load(font, text.textContent);
    pen.setTransform(2, 0, 0, 2, 0, 0);
    if (turned) pen.transform(turned.a, turned.b, turned.c, turned.d, turned.e, turned.f);
    Object.assign(pen, { font, globalAlpha: get("opacity", 1), fillStyle: get("fill", "black"), textAlign: { middle: "center", end: "right" }[get("text-anchor")] ?? "left" });
    const at = [text.textContent, Number(get("x")), Number(get("y"))];
    if (get("stroke", "none") !== "none") { Object.assign(pen, { strokeStyle: get("stroke"), lineWidth: parseFloat(get("stroke-width")), lineJoin: "round" }); pen.strokeText(...at); }
    pen.fillText(...at);
  }
  return new Promise(done => canvas.toBlob(done, "image/png"));
}
/** Save the text of an SVG as it is, or as a PNG. */
export const give = async (file, kind, svg) => save(kind === "png" ? await raster(svg) : new Blob([svg], { type: "image/svg+xml" }), `${file}.${kind}`);
/** An element of an SVG; strings among the content become text nodes. */
export function drawing(tag, attributes = {}, ...content) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...content);
  return element;
}
/** The text of an SVG: the parts on the page's ground, below them the colours and names of a legend. */
export function sheet(root, width, height, parts, legend) {
  const look = theme(root), edge = 12, line = 24, size = 13, spots = [];
  let x = edge, y = height + edge;
  for (const [, text] of legend) {
    const wide = widest([text], size, root) + 36;
    if (x > edge && x + wide > width) { x = edge; y += line; }
    spots.push([x, y]);
    x += wide;
  }
  const tall = legend.length ? y + line : height, text = css(look.text);
  const svg = drawing("svg", { width: Math.ceil(width), height: Math.ceil(tall), viewBox: `0 0 ${Math.ceil(width)} ${Math.ceil(tall)}`, "font-family": look.font },
    drawing("rect", { width: "100%", height: "100%", fill: css(look.ground) }), ...parts,
    ...legend.flatMap(([colour, name], i) => [drawing("rect", { x: spots[i][0], y: spots[i][1], width: 12, height: 12, fill: colour }),
      drawing("text", { x: spots[i][0] + 18, y: spots[i][1] + 10.5, "font-size": size, fill: text }, name)]));
  return new XMLSerializer().serializeToString(svg);
}
/** Buttons that save what `draw` gives, the text of an SVG: as PNG and as SVG. */
export function pictureButtons(words, file, draw) {
  const spoken = el("span", "failed");
  spoken.role = "status";
  return el("div", "files", spoken, ...["png", "svg"].map(kind => {
    const button = Object.assign(el("button", "file", kind.toUpperCase()), { type: "button", title: words[kind] });
    button.ariaLabel = words[kind];
    button.onclick = async () => { try { await give(file, kind, draw()); } catch { spoken.replaceChildren(words.failed); } };
    return button;
  }));
}
