// The pictures of a wall: they come once a text, by an element of their own, and stay here for whoever shows them.

export const store = (window.gazeWalls ??= { walls: new Map(), waiting: new Set() });

async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** The element that only carries pictures: inflate them, and tell those who wait. Gives the cleanup. */
export function keepWall(root, { name, shape }, { deflated, values, roles, evidence }) {
  root.classList.add("store");
  const told = pictures => {
    if (root.kept.name !== name) return;             // another text came meanwhile
    store.walls.set(name, { pictures, shape, values, roles, evidence, size: shape[2] * shape[3] });
    store.waiting.forEach(tell => tell());
  };
  if (root.kept.name !== name || !store.walls.has(name)) {
    if (root.kept.name && root.kept.name !== name) store.walls.delete(root.kept.name);
    root.kept.name = name;
    inflate(deflated).then(told, () => told(null));
  }
  return () => { store.walls.delete(root.kept.name); root.kept.name = null; };
}

/** Where each picture stands: layers as rows, in as many blocks as give the largest pictures, or one after the other. */
export function arrange({ shown, shape: [, heads], flow }, width, scale) {
  const most = 64 * scale, least = 14, narrow = width < 400, high = (narrow ? 1400 : 620) * scale;
  const between = columns => (width / columns > 34 ? 4 : 2);
  if (flow) return flowing(shown, width, { most, least, high, between, label: 15 * scale });
  const rows = [...new Set(shown.map(i => Math.floor(i / heads)))].sort((a, b) => a - b), head = 38 * scale, left = 30 * scale, apart = 14 * scale;
  const fit = blocks => {
    const across = (width - blocks * left - (blocks - 1) * apart - 4) / (blocks * heads), down = (high - head) / Math.ceil(rows.length / blocks);
    return Math.min(most, Math.min(across, down) - between(blocks * heads));
  };
  let blocks = 1;
  for (let n = 2; n <= Math.min(6, rows.length); n++) if (fit(n) > fit(blocks) + 0.5) blocks = n;
  const side = Math.max(narrow ? 20 : least, fit(blocks)), step = side + between(blocks * heads);   // wider than a phone: the wall scrolls inside itself
  const each = Math.ceil(rows.length / blocks), block = left + heads * step + apart, used = Math.ceil(rows.length / each);
  const spots = new Map(rows.map((layer, n) => [layer, { x: Math.floor(n / each) * block + left, y: head + n % each * step }]));
  const cells = shown.map((i, n) => ({ i, n, x: spots.get(Math.floor(i / heads)).x + i % heads * step, y: spots.get(Math.floor(i / heads)).y }));
  return { cells, side, step, head, rows: spots, below: 0, blocks: Array.from({ length: used }, (_, n) => n * block + left),
    wide: used * block - apart + 5, tall: head + each * step + 5 };
}

function flowing(shown, width, { most, least, high, between, label }) {
  const count = Math.max(1, shown.length), room = width - 10;
  let side = least, columns = Math.max(1, Math.floor(room / (least + 2)));
  for (let n = 1; n <= count; n++) {
    const fit = Math.min(most, room / n - between(n), high / Math.ceil(count / n) - between(n)), named = fit >= 34 + label ? fit - label : Math.min(fit, 33.9);
    if (named > side) [side, columns] = [named, n];
  }
  const below = side >= 34 ? label : 0, gap = between(columns), step = side + gap;
  const cells = shown.map((i, n) => ({ i, n, x: 5 + n % columns * step, y: 5 + Math.floor(n / columns) * (step + below) }));
  return { cells, side, step, columns, below, wide: Math.min(width, columns * step + 10), tall: Math.ceil(count / columns) * (step + below) + 10 };
}
