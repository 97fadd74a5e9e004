import { begin, css, digits, drawing, el, live, mix, pictureButtons, ramp, rgb, sheet, theme, widest } from "../gaze.shared/shared.js";
import { arrange, keepWall, store } from "./packing.js";

export default function ({ data, parentElement, setTriggerValue }) {
  const { root, kept, first, meta, arrays } = begin(parentElement, data);
  if (arrays.deflated) return keepWall(root, meta, arrays);
  const { shape: [, heads], shown, flow, words, colours } = meta, chosen = meta.chosen[0] * heads + meta.chosen[1];
  if (first) {
    kept.legend = el("div", "legend"); kept.scroller = el("div", "scroller"); kept.old = el("div", "old"); kept.plot = el("div", "plot");
    kept.canvas = Object.assign(el("canvas", "map"), { tabIndex: 0, role: "img" });
    for (const name of ["over", "chosen", "cursor"]) kept[name] = Object.assign(el("div", `mark ${name}`), { hidden: true });
    kept.tip = Object.assign(el("div", "tip"), { role: "status", hidden: true, popover: "manual" });
    kept.large = el("canvas");
    kept.name = el("div", "name"); kept.role = el("div", "role"); kept.numbers = el("div", "numbers");
    kept.tip.append(kept.name, kept.role, el("div", "body", kept.large, kept.numbers));
    kept.plot.append(kept.canvas, kept.chosen, kept.over, kept.cursor);
    kept.scroller.append(kept.plot);
    root.append(kept.legend, kept.old, kept.scroller, kept.tip);
    kept.at = null;                                  // flat number of the head that the keys are at
  }
  const { canvas, tip } = kept;
  canvas.ariaLabel = words.alt;
  Object.assign(root.dataset, { shown: shown.length, order: flow ? meta.order ?? "" : "layer" });
  kept.told = chosen;
  if (kept.picked === chosen) { clearTimeout(kept.wait); kept.picked = null; }
  kept.tipNames = meta.statistics.map((name, n) => {
    const tags = [el("span", n === meta.order ? "main" : "", name), el("span", n === meta.order ? "main" : "")];
    tags[0].title = name;
    return tags;
  });
  kept.numbers.replaceChildren(...kept.tipNames.flat());

  let plan, wall, look, inks, atlas, tables;          // where pictures stand, their numbers, and how they are coloured
  const titleOf = i => words.title.replace("{layer}", Math.floor(i / heads) + 1).replace("{head}", i % heads + 1);
  const ink = role => {
    const colour = colours?.[role];
    return colours ? colour === null ? look.text : typeof colour === "number" ? mix(look.ground, look.text, colour) : rgb(colour) : look.accent;
  };

  function paint(scale) {
    const started = performance.now(), dpr = window.devicePixelRatio || 1;
    wall = store.walls.get(meta.wall);
    look = theme(root);
    inks = meta.roles.map((_, role) => ink(role));
    plan = arrange(meta, root.clientWidth, scale);
    const legend = colours ? meta.legend : [];
    kept.legend.replaceChildren(...legend.map(role => {
      const swatch = el("i", "swatch");
      swatch.style.setProperty("--c", css(inks[role]));
      return el("span", "", swatch, meta.roles[role], el("span", "count", String(meta.counts[role])));
    }), pictureButtons(words, "gaze-all-heads", () => picture(legend.map(role => [css(inks[role]), `${meta.roles[role]} ${meta.counts[role]}`]))));
    Object.assign(kept.plot.style, { width: plan.wide + "px", height: plan.tall + "px" });
    canvas.width = Math.ceil(plan.wide * dpr); canvas.height = Math.ceil(plan.tall * dpr);
    Object.assign(canvas.style, { width: plan.wide + "px", height: plan.tall + "px" });
    const pen = canvas.getContext("2d");
    pen.scale(dpr, dpr);
    const faint = css(mix(look.ground, look.text, 0.62)), frame = css(mix(look.ground, look.text, 0.16));
    for (const [text, x, y, size, align] of names(scale)) {
      pen.font = `${size}px ${look.font}`; pen.textAlign = align; pen.textBaseline = "middle"; pen.fillStyle = faint;
      pen.fillText(text, x, y);
    }
    if (wall?.pictures) drawPictures(pen, frame, dpr);
    root.dataset.ready = wall?.pictures ? meta.wall : "";
    kept.old.textContent = wall && !wall.pictures ? words.old : "";
    mark();
    root.dataset.paintMs = (performance.now() - started).toFixed(2);
  }

  // What is written beside the pictures: text, middle, size and alignment.
  function names(scale) {
    if (flow) return plan.below ? plan.cells.map(({ i, x, y }) => [`${Math.floor(i / heads) + 1}\u00b7${i % heads + 1}`, x + plan.side / 2, y + plan.side + plan.below / 2 + 1, 12 * Math.min(scale, 1.1), "center"]) : [];
    const size = Math.max(12, Math.min(13 * scale, 0.55 * plan.side)), every = plan.step < 17 * scale ? 5 : 1;
    const numbers = Array.from({ length: heads }, (_, h) => h).filter(h => h === 0 || (h + 1) % every === 0);
    return [[`${words.layer} \u2193  ${words.head} \u2192`, 0, 9 * scale, 12.5 * scale, "left"],
      ...plan.blocks.flatMap(x => numbers.map(h => [h + 1, x + h * plan.step + plan.side / 2, plan.head - 11 * scale, size, "center"])),
      ...[...plan.rows].map(([layer, { x, y }]) => [layer + 1, x - 9 * scale, y + plan.side / 2, size, "right"])];
  }

  /** The wall as the text of an SVG, for a file: each picture an image of its own, what is written stays text. */
  function picture(legend) {
    const [, , high, broad] = wall.shape, cut = Object.assign(document.createElement("canvas"), { width: broad, height: high }), pen = cut.getContext("2d");
    const faint = css(mix(look.ground, look.text, 0.62)), line = css(mix(look.ground, look.text, 0.16)), { side } = plan;
    const parts = plan.cells.flatMap(({ i, x, y }) => {
      pen.drawImage(atlas, ...kept.cut(i), 0, 0, broad, high);
      const title = drawing("title", {}, `${titleOf(i)}: ${meta.roles[wall.roles[i]]}, ${digits(wall.evidence[i], 2)}`);
      return [drawing("image", { href: cut.toDataURL(), x, y, width: side, height: side, preserveAspectRatio: "none", style: "image-rendering:pixelated" }, title),
        drawing("rect", { x: x - 0.5, y: y - 0.5, width: side + 1, height: side + 1, fill: "none", stroke: line, "pointer-events": "none" })];
    });
    const anchors = { left: "start", center: "middle", right: "end" };
    parts.push(...names(kept.scale).map(([text, x, y, size, align]) => drawing("text", { x, y: y + 0.36 * size, "font-size": size, "text-anchor": anchors[align], fill: faint }, String(text))));
    const up = 28, wide = Math.max(plan.wide, widest([meta.heading], 14.5, root) + 8);   // each part by itself: a PNG draws text apart
    parts.forEach(part => part.setAttribute("y", up + Number(part.getAttribute("y"))));
    parts.push(drawing("text", { x: 2, y: 18, "font-size": 14, "font-weight": 600, fill: css(look.text) }, meta.heading));
    return sheet(root, wide, plan.tall + up, parts, legend);
  }

  // All pictures side by side on one canvas, each in the colour of its role; the wall and the tip cut theirs from it.
  function drawPictures(pen, frame, dpr) {
    const [, , high, wide] = wall.shape, { pictures, size, roles } = wall, count = roles.length;
    const dye = css(look.ground) + inks.map(css).join();
    if (kept.dye !== dye || kept.dyed !== wall) {
      Object.assign(kept, { dye, dyed: wall });
      tables = inks.map(colour => ramp(look.ground, colour));
      const image = new ImageData(wide, high * count), pixels = new Uint32Array(image.data.buffer);
      for (let i = 0, p = 0; i < count; i++) {
        const table = tables[roles[i]];
        for (const end = p + size; p < end; p++) pixels[p] = table[pictures[p]];
      }
      // A canvas may be 16,384 pixels high: pictures stand in columns.
      const each = Math.max(1, Math.floor(8192 / high)), columns = Math.ceil(count / each), tall = Math.min(count, each) * high;
      kept.atlas = new OffscreenCanvas(columns * wide, tall);
      const page = kept.atlas.getContext("2d");
      for (let c = 0; c < columns; c++) page.putImageData(image, c * wide, -c * each * high, 0, c * each * high, wide, Math.min(each, count - c * each) * high);
      kept.cut = i => [Math.floor(i / each) * wide, i % each * high, wide, high];
    }
    atlas = kept.atlas;
    pen.imageSmoothingQuality = "high";
    pen.strokeStyle = frame; pen.lineWidth = 1;
    for (const { i, x, y } of plan.cells) {
      pen.imageSmoothingEnabled = plan.side * dpr < 2 * Math.max(wide, high);
      pen.drawImage(atlas, ...kept.cut(i), x, y, plan.side, plan.side);
      pen.strokeRect(x - 0.5, y - 0.5, plan.side + 1, plan.side + 1);
    }
  }

  const cellOf = i => plan.cells.find(cell => cell.i === i);
  const place = (box, i) => {
    const cell = i === null ? null : cellOf(i);
    box.hidden = !cell;
    if (cell) Object.assign(box.style, { transform: `translate(${cell.x}px, ${cell.y}px)`, width: plan.side + "px", height: plan.side + "px" });
    return cell;
  };
  function mark() {
    const now = kept.picked ?? kept.told;
    if (kept.at === null || !cellOf(kept.at)) kept.at = cellOf(now) ? now : shown[0] ?? null;
    place(kept.chosen, now);
    place(kept.cursor, kept.at);
    Object.assign(root.dataset, { chosen: now, cursor: kept.at ?? "" });
    hide();
  }

  // The pointer only says where it is; what follows is drawn once a frame.
  function lookAt(i, x, y) {
    kept.looking = { i, x, y };
    kept.soon ||= requestAnimationFrame(() => { kept.soon = 0; if (kept.looking) explain(kept.looking); });
  }
  function explain({ i, x, y }) {
    const started = performance.now();
    if (!place(kept.over, i) || !wall?.pictures) return;
    if (root.dataset.over !== String(i)) {
      root.dataset.over = i;
      const role = wall.roles[i], [, , high, wide] = wall.shape, count = wall.roles.length, swatch = el("i", "swatch");
      kept.name.textContent = titleOf(i);
      swatch.style.setProperty("--c", css(inks[role]));
      kept.role.replaceChildren(...(colours ? [swatch] : []), `${meta.roles[role]}, ${digits(wall.evidence[i], 2)}`);
      kept.tipNames.forEach(([, number], n) => { number.textContent = digits(wall.values[n * count + i], meta.places[n]); });
      if (kept.large.width !== wide || kept.large.height !== high) Object.assign(kept.large, { width: wide, height: high });
      kept.large.style.imageRendering = "pixelated";
      kept.large.getContext("2d").drawImage(atlas, ...kept.cut(i), 0, 0, wide, high);
    }
    if (tip.hidden) { tip.hidden = false; tip.showPopover?.(); }
    if (kept.tipScale !== kept.scale + words.layer) Object.assign(kept, { tipScale: kept.scale + words.layer, tipSize: [tip.offsetWidth, tip.offsetHeight] });
    const [wide, high] = kept.tipSize, beside = (from, size, room) => {
      const after = from + 22, before = from - 22 - size;
      return Math.max(8, Math.min(after + size <= room ? after : before, room - size));
    };
    const room = document.documentElement.clientWidth - 8, roomy = room > 2 * wide;    // on a phone: above or below
    tip.style.left = beside(x, wide, room) + "px";
    tip.style.top = roomy ? Math.max(8, Math.min(y - high / 3, window.innerHeight - 8 - high)) + "px" : beside(y, high, window.innerHeight - 8) + "px";
    root.dataset.hoverMs = (performance.now() - started).toFixed(3);
  }
  function hide() {
    kept.looking = null;
    kept.over.hidden = true;
    if (!tip.hidden) { tip.hidePopover?.(); tip.hidden = true; }
    delete root.dataset.over;
  }
  function under(event) {
    const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top, { side, below } = plan;
    return plan.cells.find(cell => x >= cell.x - 2 && x <= cell.x + side + 2 && y >= cell.y - 2 && y <= cell.y + side + below + 2)?.i ?? null;
  }
  function pick(i) {
    if (i === null || i === (kept.picked ?? kept.told)) return;
    kept.picked = i;
    clearTimeout(kept.wait);
    kept.wait = setTimeout(() => { kept.picked = null; place(kept.chosen, kept.told); root.dataset.chosen = kept.told; }, 2000);
    place(kept.chosen, i);
    root.dataset.chosen = i;
    setTriggerValue("picked", [Math.floor(i / heads), i % heads]);
  }
  function walk(key) {
    const { cells } = plan, here = cellOf(kept.at) ?? cells[0], last = cells.length - 1;
    const towards = (along, across, sign) => cells     // the nearest in a direction, so that gaps are stepped over
      .filter(c => sign * (along(c) - along(here)) > 0)
      .sort((a, b) => Math.abs(across(a) - across(here)) * 1000 + Math.abs(along(a) - along(here)) - (Math.abs(across(b) - across(here)) * 1000 + Math.abs(along(b) - along(here))))[0];
    const column = flow ? c => c.n % plan.columns : c => c.i % heads, row = flow ? c => Math.floor(c.n / plan.columns) : c => Math.floor(c.i / heads);
    const { n } = here;
    return { ArrowLeft: cells[n - 1], ArrowRight: cells[n + 1], ArrowUp: towards(row, column, -1), ArrowDown: towards(row, column, 1),
      Home: cells[0], End: cells[last] }[key];
  }
  canvas.onpointermove = event => {
    const i = under(event);
    if (i === null) hide(); else lookAt(i, event.clientX, event.clientY);
  };
  canvas.onpointerleave = hide;
  canvas.onblur = hide;
  canvas.onclick = event => {
    const i = under(event);
    if (i === null) return;
    kept.at = i;
    place(kept.cursor, i);
    root.dataset.cursor = i;
    pick(i);
    if (event.pointerType === "touch") hide();
  };
  canvas.onkeydown = event => {
    if (event.altKey || event.ctrlKey || event.metaKey || !plan.cells.length) return;
    if (event.key === "Escape") { hide(); return; }
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); pick(kept.at); return; }
    if (!["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"].includes(event.key)) return;
    event.preventDefault();
    const to = walk(event.key);
    if (!to) return;
    kept.at = to.i;
    place(kept.cursor, to.i);
    root.dataset.cursor = to.i;
    kept.cursor.scrollIntoView({ block: "nearest", inline: "nearest" });
    const box = canvas.getBoundingClientRect();
    lookAt(to.i, box.left + to.x + plan.side, box.top + to.y + plan.side / 2);
  };

  if (kept.tell) store.waiting.delete(kept.tell);
  kept.tell = () => kept.paint?.();
  store.waiting.add(kept.tell);
  const stop = live(root, paint);
  return () => { store.waiting.delete(kept.tell); clearTimeout(kept.wait); cancelAnimationFrame(kept.soon); kept.soon = 0; hide(); stop(); };
}
