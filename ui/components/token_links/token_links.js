import { begin, css, digits, el, gaze, label, light, live, rgb, theme, widest } from "../gaze.shared/shared.js";
import { paintLines } from "./lines.js";

export default function ({ data, parentElement }) {
  const { root, kept, first, meta, arrays } = begin(parentElement, data);
  const { view, queries, keys, heads, words } = meta, several = heads.length > 1;
  if (first) {
    kept.legend = el("div", "legend"); kept.scroll = el("div", "scroll"); kept.canvas = el("canvas");
    kept.columns = el("div", "columns"); kept.note = el("div", "note"); kept.spoken = el("div", "spoken");
    kept.spoken.ariaLive = "polite";
    kept.scroll.append(kept.canvas, kept.columns, kept.note);
    root.append(kept.legend, kept.scroll, kept.spoken);
    root.role = "group";
  }
  const { legend, scroll, canvas, columns, note, spoken } = kept;
  root.ariaLabel = words.alt;

  // Tokens are built again only when they change, so that a new layer or head keeps the focus and the scroll.
  const titles = { queries: meta.titles, keys: meta.key_titles ?? meta.titles };
  const same = JSON.stringify([queries, keys, meta.muted_queries, meta.muted_keys, titles, words, meta.down]);
  if (kept.same !== same) {
    kept.same = same;
    const token = (kind, tag, text, i) => {
      const element = el(tag, "token", label(text), el("span", "numbers"));
      element.dataset[kind === "queries" ? "q" : "k"] = i;
      element.title = titles[kind]?.[i] ?? text;
      element.classList.toggle("muted", Boolean(meta["muted_" + kind]?.[i]));
      if (tag === "button") Object.assign(element, { type: "button", tabIndex: -1, ariaPressed: "false" });
      return element;
    };
    kept.queries = queries.map((text, i) => token("queries", "button", text, i));
    kept.keys = keys.map((text, i) => token("keys", "div", text, i));
    columns.replaceChildren(el("div", "top", el("span", "", words.queries), el("span", "", words.keys)),
      el("div", "side queries", ...kept.queries), el("div", "side keys", ...kept.keys));
    columns.style.setProperty("--down", meta.down ?? 0);
    kept.shown = []; kept.tab = 0; kept.pin = null;
  }
  const queryOf = kept.queries, keyOf = kept.keys;

  // The edges, weakest first (so that strong lines lie on top), and those of each token.
  const edgeAt = (weight, i) => ({ weight, query: arrays.query[i], key: arrays.key[i], head: arrays.head[i] });
  const edges = Array.from(arrays.weight, edgeAt).sort((a, b) => a.weight - b.weight);
  const byQuery = queries.map(() => []), byKey = keys.map(() => []);
  edges.forEach(edge => { byQuery[edge.query]?.push(edge); byKey[edge.key]?.push(edge); });
  legend.replaceChildren(...(several ? heads : []).map(head => {
    const entry = el("span", "", el("i"), head.name);
    entry.style.setProperty("--c", head.colour ?? "var(--st-primary-color)");
    return entry;
  }));

  let row, top, left, right, colours, space;         // geometry in css px, set by layout
  function layout(scale) {
    const look = theme(root), most = Math.max(queries.length, keys.length, 1), slot = Math.min(heads.length, 5) * 46 * scale;
    row = Math.max(Math.round(22 * scale), Math.min(Math.round(34 * scale), Math.floor(600 / most)));
    top = Math.round(30 * scale);
    space = root.clientWidth;
    const side = (texts, name) => Math.ceil(Math.min(space * (several ? 0.42 : 0.38),
      Math.max(widest(texts, 15.5 * scale, root) + 24 + slot, widest([name], 13 * scale, root) + 24)));
    kept.widths = { left: side(queries, words.queries), right: side(keys, words.keys) };
    for (const [name, px] of Object.entries({ row, top, slot, ...kept.widths }))
      root.style.setProperty("--" + name, px + "px");
    root.style.setProperty("--on-accent", light(look.accent) > 0.6 ? "#111" : "#fff");
    colours = heads.map(head => css(head.colour ? rgb(head.colour) : look.accent));
    const sides = columns.querySelectorAll(".side"), from = scroll.getBoundingClientRect().left;
    left = sides[0].getBoundingClientRect().right - from + 3;
    right = sides[1].getBoundingClientRect().left - from - 3;
    show(true);
  }

  // What is looked at: the pin, else the hovered query (its row), else the hovered key (its column), else all.
  function focus() {
    const hover = gaze.hover(view), query = gaze.pin(view) ?? hover?.query ?? null, key = hover?.key ?? null;
    return { query, key, edges: query !== null ? byQuery[query] ?? [] : key !== null ? byKey[key] ?? [] : edges };
  }
  function show(moved) {
    const { query, key, edges: lines } = focus(), pin = gaze.pin(view), resting = query === null && key === null;
    // Only what was and what is looked at is touched; the fading of all others is one class on their parent.
    for (const token of kept.shown) {
      token.style.removeProperty("--heat"); token.lastChild.replaceChildren(); token.classList.remove("on", "lit");
    }
    const partners = new Set(), counts = new Map();
    const fits = token => {
      const room = (query !== null ? kept.widths.right : kept.widths.left) - widest([token.firstChild.textContent], 15.5 * kept.scale, root) - 20;
      const all = Math.max(1, Math.floor(room / (38 * kept.scale)));
      return all >= heads.length ? all : Math.max(1, all - 1);
    };
    if (!resting) for (const edge of lines.toReversed()) {       // the strongest first
      const i = query !== null ? edge.key : edge.query, token = (query !== null ? keyOf : queryOf)[i];
      counts.set(token, (counts.get(token) ?? 0) + 1);
      const number = el("span", "", digits(edge.weight, 2));
      number.style.setProperty("--c", several ? colours[edge.head] : "var(--st-primary-color)");
      if (counts.get(token) <= fits(token)) token.lastChild.append(number);
      if (!partners.has(token)) {
        token.style.setProperty("--heat", `${Math.round(45 * edge.weight)}%`);
        token.style.setProperty("--c", colours[edge.head]);
        token.classList.add("on"); partners.add(token);
      }
    }
    for (const [token, count] of counts) {             // numbers that have no room are counted, never just left out
      if (count > token.lastChild.childElementCount) token.lastChild.append(el("span", "more", `+${count - token.lastChild.childElementCount}`));
    }
    const lit = [queryOf[query], keyOf[key]].filter(Boolean);
    lit.forEach(token => token.classList.add("lit"));
    kept.shown = [...partners, ...lit];
    columns.classList.toggle("focus", !resting);
    if (queryOf[kept.pin]) queryOf[kept.pin].ariaPressed = "false";
    if (queryOf[pin]) queryOf[pin].ariaPressed = "true";
    setTab(pin ?? kept.tab);
    if (pin !== null && pin !== kept.pin) reveal(pin);
    kept.pin = pin;
    note.hidden = lines.length > 0;
    note.textContent = words.none;
    note.style.top = top + row * ((query ?? (key === null ? null : key + (meta.down ?? 0)) ?? Math.min(queries.length, 16) / 2 - 0.5) + 0.5) + "px";
    const names = query !== null ? [queries[query], keys, "key"] : [keys[key], queries, "query"];
    spoken.textContent = resting ? "" : `${names[0]}: ` + lines.slice(-3).reverse()
      .map(edge => `${names[1][edge[names[2]]]} ${digits(edge.weight, 2)}`).join(", ");
    root.dataset.query = query ?? ""; root.dataset.pin = pin ?? ""; root.dataset.lines = lines.length;
    draw(moved || lines !== kept.lines || key !== kept.key, lines, query !== null ? key : null);
    kept.lines = lines; kept.key = key;
  }

  // The canvas covers what is visible and half as much above and below: scrolling moves it with the words, and it is drawn
  // again only when its edge comes near.
  function draw(always, lines, key) {
    // After a longer text the old canvas still stretches the box: only the columns say how long it really is.
    const height = scroll.clientHeight, whole = columns.offsetHeight, at = Math.min(scroll.scrollTop, Math.max(0, whole - height));
    const inside = kept.from <= Math.max(0, at - height / 6) && kept.to >= Math.min(whole, at + height * 7 / 6);
    if (!always && inside) return;
    const from = Math.max(0, Math.floor(at - height / 2)), to = Math.min(Math.max(whole, 1), Math.ceil(at + height * 1.5));
    const dpr = window.devicePixelRatio || 1, scale = kept.scale, g = canvas.getContext("2d");
    Object.assign(kept, { from, to });
    canvas.width = Math.round(scroll.clientWidth * dpr); canvas.height = Math.round((to - from) * dpr);
    Object.assign(canvas.style, { top: from + "px", width: scroll.clientWidth + "px", height: to - from + "px" });
    g.setTransform(dpr, 0, 0, dpr, 0, -from * dpr);
    paintLines(g, lines, { left, right, row, top, from, to, colours, scale, dpr, key, down: meta.down ?? 0, few: lines !== edges });
  }

  function setTab(i) {                                // one token of the column can be tabbed to; arrows go on from there
    if (queryOf[kept.tab]) queryOf[kept.tab].tabIndex = -1;
    kept.tab = Math.max(0, Math.min(queries.length - 1, i));
    if (queryOf[kept.tab]) queryOf[kept.tab].tabIndex = 0;
  }
  function reveal(i) {                                // scrolls this box only, never the page
    const y = i * row, room = scroll.clientHeight - top, at = scroll.scrollTop, ahead = 3 * row;
    if (y + row < at || y > at + room) scroll.scrollTop = y - room / 2;              // far off: to the middle
    else if (y < at + ahead) scroll.scrollTop = y - ahead;                            // near the edge: some context
    else if (y + row + ahead > at + room) scroll.scrollTop = y + row + ahead - room;
  }
  const at = event => {
    const token = event.target.closest?.(".token");
    return token && { query: token.dataset.q ? +token.dataset.q : null, key: token.dataset.k ? +token.dataset.k : null };
  };
  columns.onpointerover = event => { if (event.pointerType !== "touch") gaze.setHover(view, at(event)); };
  columns.onpointerleave = event => { if (event.pointerType !== "touch") gaze.setHover(view, null); };
  columns.onclick = event => {
    const hit = at(event);
    if (!hit) return;
    if (hit.query === null) {                         // a finger cannot hover: it taps a key, and again to let go
      if (event.pointerType === "touch") gaze.setHover(view, gaze.hover(view)?.key === hit.key ? null : hit);
      return;
    }
    setTab(hit.query);
    gaze.setPin(view, gaze.pin(view) === hit.query ? null : hit.query);
  };
  queryOf.forEach((token, query) => {                 // browsers have no onfocusin
    token.onfocus = () => { if (token.matches(":focus-visible")) gaze.setHover(view, { query, key: null }); };
    token.onblur = () => gaze.setHover(view, null);
  });
  columns.onkeydown = event => {                      // Enter and Space are the button's own click; Escape is shared.js's
    const hit = at(event), last = queries.length - 1;
    const to = hit && { ArrowUp: hit.query - 1, ArrowDown: hit.query + 1, Home: 0, End: last }[event.key];
    if (to === null || to === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const next = Math.max(0, Math.min(last, to));
    setTab(next); reveal(next);
    queryOf[next].focus({ preventScroll: true });
    if (gaze.pin(view) !== null) gaze.setPin(view, next);
  };
  scroll.onscroll = () => {
    kept.soon ||= requestAnimationFrame(() => {
      const { query, key, edges: lines } = focus();
      kept.soon = 0;
      draw(false, lines, query !== null ? key : null);
    });
  };

  kept.lines = null;
  gaze.join(root, meta, () => show(false));
  return live(root, layout);
}
