// The lines between the two columns, on a canvas; edges come weakest first, so that strong lines lie on top.

const LEVELS = 32;                                   // lines of nearly the same weight are stroked together
const levelOf = weight => Math.min(LEVELS - 1, Math.floor(weight * LEVELS));
const widthAt = weight => 0.6 + 6.4 * weight;
const inkAt = (weight, few) => few ? 0.12 + 0.88 * weight ** 0.6 : 0.07 + 0.93 * weight ** 0.75;   // few: one row
const FAINT = 0.15, CROWD = 1500;                    // in a crowd, faint lines are hairlines of eight pieces: far faster
const PIECES = [1, 2, 3, 4, 5, 6, 7].map(i => i / 8);

/**
 * left, right: where lines begin and end; row, top: height of a token and where the first one starts; from, to: what is to be
 * painted, in css px. A key that is not null is the one of the row that is looked at. down: how many rows
 * lower the keys begin. few: one row or column, not all.
 */
export function paintLines(g, lines, { left, right, row, top, from, to, colours, scale, dpr, key, down, few }) {
  const heads = colours.length;
  const bend = (right - left) * 0.42, apart = Math.min(5 * scale, (row - 6) / heads);
  const exact = lines.length < 400, crowd = lines.length > CROWD;
  const pieces = PIECES.map(t => {                 // of the same curve: x, and the share of the way from a to b
    const second = 3 * t * t * (1 - t), third = t ** 3, span = right - left;
    return [left + bend * 3 * t * (1 - t) ** 2 + (span - bend) * second + span * third, second + third];
  });
  const paths = new Map();                         // rank, or level and head -> one path
  for (const [rank, edge] of lines.entries()) {
    const shift = top + row / 2 + (edge.head - (heads - 1) / 2) * apart;
    const a = edge.query * row + shift, b = (edge.key + down) * row + shift;
    if (Math.max(a, b) < from - 8 || Math.min(a, b) > to + 8) continue;
    const dim = key !== null && edge.key !== key, faint = crowd && edge.weight < FAINT;
    const name = (dim ? 0 : 1e6) + (exact ? rank : levelOf(edge.weight) * 1e3 + edge.head + (faint ? 0 : 500));
    if (!paths.has(name)) paths.set(name, { edge, dim, faint, path: new Path2D() });
    const { path } = paths.get(name);
    path.moveTo(left, a);
    if (faint) {
      for (const [x, s] of pieces) path.lineTo(x, a + (b - a) * s);
      path.lineTo(right, b);
    } else path.bezierCurveTo(left + bend, a, right - bend, b, right, b);
  }
  for (const [, { edge, dim, faint, path }] of [...paths].sort((a, b) => a[0] - b[0])) {
    const weight = exact ? edge.weight : (levelOf(edge.weight) + 0.5) / LEVELS;
    const wide = (heads > 1 ? Math.min(1, (apart + 0.5) / 7) : scale) * widthAt(weight);
    g.globalAlpha = inkAt(weight, few) * (dim ? 0.25 : 1) * (faint ? Math.min(1, wide * dpr) : 1);
    g.lineWidth = faint ? 1 / dpr : wide; g.strokeStyle = colours[edge.head];
    g.stroke(path);
  }
}
