import { begin, css, digits, el, label, light, live, mix, rgb, theme, widest } from "../gaze.shared/shared.js";

export default function ({ data, parentElement, setTriggerValue }) {
  const { root, kept, first, meta, arrays } = begin(parentElement, data);
  const { labels, words, colours } = meta, { weights, values, joined, parts } = arrays;
  const [H, T] = weights.shape, D = values.shape[2], J = H * D, M = parts.shape[2];
  const fill = (text, places) => text.replace(/\{(\w+)\}/g, (_, name) => places[name] ?? "");
  if (first) {
    for (const [name, look] of Object.entries({ words: "words", top: "title", maps: "maps", joinedTitle: "title", joined: "strip",
      outTitle: "title", out: "strip", status: "status" })) root.append(kept[name] = el("div", look));
    kept.joined.append(el("canvas")); kept.out.append(el("canvas"));
    kept.status.role = "status";
    root.role = "group";
  }
  root.ariaLabel = words.alt;
  Object.assign(root.dataset, { heads: H, size: D, joined: J });
  if (kept.shape !== `${H},${T},${D}`) { kept.shape = `${H},${T},${D}`; kept.pinned = kept.spot = null; }
  // spot: what is pointed at: {head}, {head, number} of the joined vector, or {number} of the output.
  const spot = () => kept.spot ?? kept.pinned;

  // Whose row: buttons stay over the runs. The choice shows at once; the server hears of it for the link.
  if (kept.same !== JSON.stringify([labels, words.row])) {
    kept.same = JSON.stringify([labels, words.row]);
    kept.picked = null;
    kept.buttons = labels.map((text, i) => {
      const button = Object.assign(el("button", "word", label(text)), { type: "button", role: "radio", title: text });
      button.dataset.word = i;
      return button;
    });
    kept.words.role = "radiogroup"; kept.words.ariaLabel = words.row;
    kept.words.replaceChildren(el("span", "", words.row), ...kept.buttons);
  }
  if (kept.picked === meta.chosen) { clearTimeout(kept.wait); kept.picked = null; }
  let chosen = kept.picked ?? meta.chosen;
  if (kept.maps.children.length !== H) {
    kept.maps.replaceChildren(...Array.from({ length: H }, (_, h) => {
      const map = Object.assign(el("button", "map", el("canvas"), el("span")), { type: "button" });
      map.dataset.head = h;
      return map;
    }));
  }
  const maps = [...kept.maps.children];
  let look, colour, column, geometry;

  function pick(i) {
    if (i === chosen) return;
    chosen = kept.picked = i;
    clearTimeout(kept.wait);
    kept.wait = setTimeout(() => { kept.picked = null; chosen = meta.chosen; paint(kept.scale); }, 2000);
    paint(kept.scale);
    setTriggerValue("picked", i);
  }
  kept.words.onclick = event => { const hit = event.target.closest(".word"); if (hit) pick(+hit.dataset.word); };
  kept.words.onkeydown = event => {
    const to = { ArrowLeft: chosen - 1, ArrowUp: chosen - 1, ArrowRight: chosen + 1, ArrowDown: chosen + 1, Home: 0, End: T - 1 }[event.key];
    if (to === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    pick((to + T) % T);
    kept.buttons[chosen].focus();
  };

  function paint(scale) {
    look = theme(root);
    colour = colours.map(given => given ? rgb(given) : look.text);
    root.style.setProperty("--on-accent", light(look.accent) > 0.6 ? "#111" : "#fff");
    column = Math.min(root.clientWidth / H, 210 * scale);
    root.style.setProperty("--column", column + "px");
    kept.buttons.forEach((button, i) => { button.ariaChecked = String(i === chosen); button.tabIndex = i === chosen ? 0 : -1; });
    const places = { word: labels[chosen], heads: H, size: D, joined: J, width: M };
    let most = 0;
    for (const w of weights) most = Math.max(most, w);
    const bar = el("span", "bar", "0", el("i"), digits(most, 2));
    kept.top.replaceChildren(el("span", "", ...bold(fill(words.weights, places))), bar);
    kept.joinedTitle.replaceChildren(el("span", "", ...bold(fill(words.joined, places))));
    kept.outTitle.replaceChildren(el("span", "", ...bold(fill(words.output, places))));

    const dpr = window.devicePixelRatio || 1, side = Math.floor(Math.min(column - 6, 132 * scale)), cell = side / T;
    maps.forEach((map, h) => {
      const [canvas, name] = map.children, g = canvas.getContext("2d");
      map.style.setProperty("--c", css(colour[h]));
      canvas.width = canvas.height = Math.round(side * dpr);
      Object.assign(canvas.style, { width: side + "px", height: side + "px" });
      g.scale(dpr, dpr);
      for (let q = 0; q < T; q++) for (let k = 0; k < T; k++) {
        g.fillStyle = css(mix(look.ground, colour[h], weights[(h * T + q) * T + k] / most));
        g.fillRect(k * cell, q * cell, cell + 0.4, cell + 0.4);
      }
      g.strokeStyle = css(look.text); g.lineWidth = 1.5;
      g.strokeRect(0.75, chosen * cell + 0.75, side - 1.5, Math.max(cell - 1.5, 1));
      name.textContent = column > 62 * scale ? fill(words.head, { head: h + 1 }) : String(h + 1);
      map.ariaLabel = fill(words.head, { head: h + 1 });
    });
    geometry = { width: column * H, dpr, scale };
    strips();
  }
  const bold = text => text.split("**").map((part, i) => i % 2 ? el("b", "", part) : part);

  function strips() {
    const at = spot(), { width, dpr, scale } = geometry, tall = Math.round(96 * scale), faint = mix(look.ground, look.text, 0.3);
    root.classList.toggle("lit", at?.head !== undefined);
    maps.forEach((map, h) => { map.classList.toggle("on", at?.head === h); map.ariaPressed = String(kept.pinned?.head === h); });
    Object.assign(root.dataset, { head: at?.head ?? "", number: at?.number ?? "", word: chosen });
    const pen = (box, px) => {
      const canvas = box.firstChild, g = canvas.getContext("2d");
      canvas.width = Math.round(width * dpr); canvas.height = Math.round(px * dpr);
      Object.assign(canvas.style, { width: width + "px", height: px + "px" });
      g.scale(dpr, dpr);
      g.font = `${12.5 * scale}px ${look.font}`; g.textAlign = "center";
      return g;
    };
    // The joined vector: one block a head, under its map, bars up and down from zero.
    let most = 1e-9;
    for (const value of joined) most = Math.max(most, Math.abs(value));
    const g = pen(kept.joined, tall), room = (column - 8) / D, numbers = room > widest(["\u22120.00"], 12.5 * scale, root) + 2;
    const margin = numbers ? 15 * scale : 4, y = value => tall / 2 - value / most * (tall / 2 - margin);
    for (let h = 0; h < H; h++) {
      const dim = at?.head !== undefined && at.head !== h;
      g.fillStyle = css(mix(look.ground, colour[h], dim ? 0.05 : 0.13));
      g.beginPath(); g.roundRect(h * column + 2, 0, column - 4, tall, 5); g.fill();
      for (let d = 0; d < D; d++) {
        const value = joined[chosen * J + h * D + d], x = h * column + 4 + d * room;
        g.fillStyle = css(mix(look.ground, colour[h], dim ? 0.3 : 1));
        g.fillRect(x + room * 0.1, Math.min(y(0), y(value)), room * 0.8, Math.max(Math.abs(y(value) - y(0)), 1));
        if (at?.head === h && at.number === d) { g.strokeStyle = css(look.text); g.lineWidth = 1.5; g.strokeRect(x, 1, room, tall - 2); }
        if (numbers) { g.fillStyle = css(mix(look.ground, look.text, dim ? 0.35 : 0.9)); g.fillText(digits(value, 2), x + room / 2, value < 0 ? y(value) + 12 * scale : y(value) - 4); }
      }
    }
    g.fillStyle = css(faint); g.fillRect(0, tall / 2, width, 1);
    // The output: each number is a pile of what the heads add, up and down; the line is their sum.
    let reach = 1e-9;
    for (let t = 0; t < T; t++) for (let m = 0; m < M; m++) {
      let up = 0, down = 0;
      for (let h = 0; h < H; h++) { const p = parts[(t * H + h) * M + m]; if (p > 0) up += p; else down -= p; }
      reach = Math.max(reach, up, down);
    }
    const o = pen(kept.out, tall), step = width / M, z = value => tall / 2 - value / reach * (tall / 2 - 4);
    for (let m = 0; m < M; m++) {
      let up = 0, down = 0;
      for (let h = 0; h < H; h++) {
        const p = parts[(chosen * H + h) * M + m], from = p > 0 ? up : down, dim = at?.head !== undefined && at.head !== h;
        o.fillStyle = css(mix(look.ground, colour[h], dim ? 0.14 : 0.85));
        o.fillRect(m * step + step * 0.1, Math.min(z(from), z(from + p)), step * 0.8, Math.abs(z(from + p) - z(from)) + 0.3);
        if (p > 0) up += p; else down += p;
      }
      o.fillStyle = css(look.text);
      o.fillRect(m * step + step * 0.02, z(up + down) - 1, step * 0.96, 2);
      if (at && at.head === undefined && at.number === m) { o.strokeStyle = css(look.text); o.lineWidth = 1.5; o.strokeRect(m * step, 1, step, tall - 2); }
    }
    o.fillStyle = css(faint); o.fillRect(0, tall / 2, width, 1);
    say(at);
  }

  // The arithmetic of what is pointed at, with the numbers themselves.
  function say(at) {
    const signed = (value, i) => (i ? (value < 0 ? " \u2212 " : " + ") : value < 0 ? "\u2212" : "") + digits(Math.abs(value), 2);
    let head = "", rest = words.hint;
    if (at?.head !== undefined && at.number !== undefined) {
      const { head: h, number: d } = at;
      head = fill(words.number, { number: d + 1, head: h + 1 });
      rest = " = " + labels.map((word, k) => `${k ? " + " : ""}${digits(weights[(h * T + chosen) * T + k], 2)} × ${digits(values[(h * T + k) * D + d], 2)} (${word})`).join("")
        + ` = ${digits(joined[chosen * J + h * D + d], 2)}`;
    } else if (at?.head !== undefined) {
      const h = at.head, row = labels.map((word, k) => [weights[(h * T + chosen) * T + k], word]).sort((a, b) => b[0] - a[0]);
      head = fill(words.head, { head: h + 1 });
      rest = `: ${labels[chosen]} → ` + row.map(([w, word]) => `${word} ${digits(w, 2)}`).join(" · ");
    } else if (at) {
      let sum = 0;
      const terms = Array.from({ length: H }, (_, h) => { const p = parts[(chosen * H + h) * M + at.number]; sum += p; return p; });
      head = fill(words.of_output, { number: at.number + 1 });
      rest = " = " + terms.map((p, h) => `${signed(p, h)} (${h + 1})`).join("") + ` = ${digits(sum, 2)}`;
    }
    const name = el("b", "", head);
    if (at?.head !== undefined) name.style.setProperty("--c", css(colour[at.head]));
    kept.status.replaceChildren(name, rest);
  }

  function point(where, pin) {
    if (pin) kept.pinned = JSON.stringify(kept.pinned) === JSON.stringify(where) ? null : where;
    if (!pin || kept.pinned === null) kept.spot = pin ? null : where;
    kept.soon ||= requestAnimationFrame(() => { kept.soon = 0; strips(); });
  }
  const onMap = event => { const hit = event.target.closest(".map"); return hit ? { head: +hit.dataset.head } : null; };
  const onJoined = event => {
    const x = event.offsetX, h = Math.floor(x / column), d = Math.floor((x - h * column - 4) / ((column - 8) / D));
    return h < 0 || h >= H ? null : d < 0 || d >= D ? { head: h } : { head: h, number: d };
  };
  const onOut = event => { const m = Math.floor(event.offsetX / (column * H / M)); return m < 0 || m >= M ? null : { number: m }; };
  for (const [box, at] of [[kept.maps, onMap], [kept.joined, onJoined], [kept.out, onOut]]) {
    box.onpointermove = event => { if (event.pointerType !== "touch") point(at(event)); };
    box.onpointerleave = event => { if (event.pointerType !== "touch") point(null); };
    box.onclick = event => point(at(event), true);
  }
  for (const map of maps) {  // browsers have no onfocusin
    map.onfocus = event => { if (event.target.matches(":focus-visible")) point(onMap(event)); };
    map.onblur = () => point(null);
  }
  root.onkeydown = event => { if (event.key === "Escape") { kept.pinned = null; point(null); } };

  const stop = live(root, paint);
  return () => { clearTimeout(kept.wait); stop(); };
}
