"""One head as an SVG, for slides and papers: the heat map, and the lines from queries to keys."""

import unicodedata
from collections.abc import Iterable, Sequence
from html import escape

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from figures.colours import FONT, PALETTES, Palette, Theme
from figures.heatmaps import Show

SIDE, LARGEST, LETTER, LINE = 720.0, 44.0, 13, 26.0  # pixels
LEAST = 0.01  # a line for less can't be seen
LONGEST = 24  # letters of a label
DECADES = 3  # powers of ten that logarithmic colours show


def heatmap_svg(
    scores: Float[ndarray, "Q K"],
    queries: Sequence[str],
    keys: Sequence[str],
    *,
    show: Show,
    theme: Theme = "light",
    title: str = "",
    allowed: Bool[ndarray, "Q K"] | None = None,
    log: bool = False,
) -> str:
    """Draw one head as a map: queries are rows, keys are columns, and the bar shows the true range.

    Args:
        scores: What to draw.
        queries: The rows' labels.
        keys: The columns' labels.
        show: "weights", from nothing to the accent; "scaled" or "raw" scores, diverging about 0.
        theme: "light" or "dark".
        title: Written above.
        allowed: True where a query may look at a key; all else is grey.
        log: Colours of weights by their power of ten, three of them below the largest, as on the page.

    Returns:
        The SVG; labels are text in it and never markup.

    Raises:
        ValueError: If sizes do not fit.
    """
    if scores.shape != (len(queries), len(keys)):
        raise ValueError(f"scores {scores.shape} do not fit {len(queries)} queries and {len(keys)} keys")
    palette = PALETTES[theme]
    open_ = np.ones(scores.shape, dtype=bool) if allowed is None else allowed
    inside = scores[open_] if open_.any() else np.zeros(1)
    low, high = float(inside.min()), float(inside.max())
    if show == "weights":
        low, bottom, top, stops = 0.0, 0.0, high or 1.0, palette.weights
    else:
        top = max(abs(low), abs(high)) or 1.0
        bottom, stops = -top, (*palette.scores[:5], palette.background, *palette.scores[5:])
    cell = min(LARGEST, SIDE / max(scores.shape))
    every = max(1, int(np.ceil((LETTER + 2) / cell)))
    left, above = (_widest(names) + 16 for names in (queries, keys))
    up = above + (34 if title else 8)
    width, height = left + cell * len(keys) + 24, up + cell * len(queries) + 56
    parts = [_text(left, 22.0, title, palette, size=LETTER + 3)] if title else []
    log = log and show == "weights"
    low = top / 10**DECADES if log else low
    shade = _shades(np.where(open_, _place(scores, top, log=log), np.nan), bottom, top, stops, palette)
    for q, row in enumerate(shade):
        for k, run in _runs(row):
            parts.append(_box(left + k * cell, up + q * cell, run * cell, cell, row[k]))
    for q in range(0, len(queries), every):
        parts.append(_text(left - 8, up + (q + 0.5) * cell + 5, queries[q], palette, anchor="end"))
    for k in range(0, len(keys), every):
        x = left + (k + 0.5) * cell
        parts.append(_text(x + 5, up - 8, keys[k], palette, turn=f"rotate(-90 {x + 5:.2f} {up - 8:.2f})"))
    if cell >= 34:
        for q, k in np.argwhere(open_):
            ink = "#ffffff" if _light(shade[q][k]) < 0.55 else "#14161f"
            x, y = left + (k + 0.5) * cell, up + (q + 0.5) * cell + 4
            parts.append(_text(x, y, _short(float(scores[q, k])), palette, anchor="middle", fill=ink))
    at = up + cell * len(queries) + 24
    for n in range(40):
        value = low * (top / low) ** (n / 39) if log else low + (high - low) * n / 39
        colour = _shades(_place(np.array([[value]]), top, log=log), bottom, top, stops, palette)[0][0]
        parts.append(_box(left + 60 + n * 4, at, 4.5, 10.0, colour))
    parts.append(_text(left + 52, at + 10, f"≤ {low:.1g}" if log else _short(low), palette, anchor="end"))
    parts.append(_text(left + 228, at + 10, _short(high), palette))
    return _svg(max(width, left + 300), height, parts, palette)


def links_svg(
    weights: Float[ndarray, "Q K"],
    queries: Sequence[str],
    keys: Sequence[str],
    *,
    pinned: int | None = None,
    down: int = 0,
    theme: Theme = "light",
    title: str = "",
) -> str:
    """Draw who looks at whom: queries left, keys right, lines as strong as the weights.

    Args:
        weights: Of one head.
        queries: The labels on the left.
        keys: The labels on the right.
        pinned: Only this query's lines, with their numbers; None draws all.
        down: How many rows lower the keys begin, so that a word stands level with itself.
        theme: "light" or "dark".
        title: Written above.

    Raises:
        ValueError: If sizes do not fit, or there is no such query.
    """
    if weights.shape != (len(queries), len(keys)):
        raise ValueError(f"weights {weights.shape} do not fit {len(queries)} queries and {len(keys)} keys")
    if pinned is not None and not 0 <= pinned < len(queries):
        raise ValueError(f"there is no query {pinned} among {len(queries)}")
    palette = PALETTES[theme]
    left, right, gap, up = _widest(queries) + 20, _widest(keys) + 70, 280.0, 44.0 if title else 16.0
    parts = [_text(16.0, 26.0, title, palette, size=LETTER + 3)] if title else []
    middle = [up + (n + 0.5) * LINE for n in range(max(len(queries), len(keys) + down))]
    accent, start, end = palette.weights[-1], left + 6, left + gap - 6
    for q, k in sorted(np.argwhere(weights >= LEAST).tolist(), key=lambda at: weights[at[0], at[1]]):
        if pinned not in (None, q):
            continue
        weight, bend = float(weights[q, k]), gap / 2
        curve = (
            f"M{start},{middle[q]} C{start + bend},{middle[q]} {end - bend},{middle[k + down]} {end},{middle[k + down]}"
        )
        strength = f'stroke-width="{0.6 + 5 * weight:.2f}" stroke-opacity="{0.1 + 0.9 * weight:.3f}"'
        parts.append(f'<path d="{curve}" fill="none" stroke="{accent}" {strength}/>')
    for q, name in enumerate(queries):
        faint = pinned not in (None, q)
        parts.append(_text(left, middle[q] + 5, name, palette, anchor="end", opacity=0.45 if faint else 1.0))
    for k, name in enumerate(keys):
        weight = None if pinned is None else float(weights[pinned, k])
        faint = weight is not None and weight < LEAST
        parts.append(_text(left + gap, middle[k + down] + 5, name, palette, opacity=0.45 if faint else 1.0))
        if weight is not None and not faint:
            parts.append(
                _text(left + gap + right - 8, middle[k + down] + 5, f"{weight:.2f}", palette, anchor="end", fill=accent)
            )
    return _svg(left + gap + right + 16, up + LINE * len(middle) + 16, parts, palette)


def _svg(width: float, height: float, parts: Iterable[str], palette: Palette) -> str:
    w, h = round(width), round(height)
    start = f'<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" viewBox="0 0 {w} {h}"'
    body = [
        f'{start} font-family="{escape(FONT)}">',
        _box(0.0, 0.0, float(w), float(h), palette.background),
        *parts,
        "</svg>",
    ]
    return "".join(body)


def _box(x: float, y: float, width: float, height: float, fill: str) -> str:
    return f'<rect x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" fill="{fill}"/>'


def _text(
    x: float,
    y: float,
    text: str,
    palette: Palette,
    *,
    anchor: str = "start",
    size: int = LETTER,
    fill: str = "",
    turn: str = "",
    opacity: float = 1.0,
) -> str:
    short = text if len(text) <= LONGEST or size > LETTER else text[: LONGEST - 1] + "…"
    rest = (f' transform="{turn}"' if turn else "") + (f' opacity="{opacity}"' if opacity < 1 else "")
    return (
        f'<text x="{x:.2f}" y="{y:.2f}" font-size="{size}" text-anchor="{anchor}" '
        f'fill="{fill or palette.text}"{rest}>{_written(short)}</text>'
    )


def _written(text: str) -> str:
    """Return a text as XML can hold it: no markup, and nothing that XML has no letter for."""
    return escape("".join(c if c.isprintable() or c == " " else "�" for c in text))


def _widest(labels: Sequence[str]) -> float:
    wide = [sum(1.0 if unicodedata.east_asian_width(c) in "WF" else 0.58 for c in name[:LONGEST]) for name in labels]
    return max(wide) * LETTER


def _short(value: float) -> str:
    return f"{value:.2f}".replace("-", "−") if round(value, 2) else "0.00"


def _shades(
    scores: Float[ndarray, "Q K"], bottom: float, top: float, stops: Sequence[str], palette: Palette
) -> list[list[str]]:
    knots = np.linspace(bottom, top, len(stops))
    channels = np.array([[int(stop[n : n + 2], 16) for n in (1, 3, 5)] for stop in stops])
    mixed = np.stack([np.interp(scores, knots, channels[:, n]) for n in range(3)], axis=-1)
    closed = ~np.isfinite(scores)
    return [
        [palette.blocked if shut else "#{:02x}{:02x}{:02x}".format(*colour) for shut, colour in zip(*line, strict=True)]
        for line in zip(closed, np.nan_to_num(mixed).round().astype(int), strict=True)
    ]


def _place(scores: Float[ndarray, "Q K"], top: float, *, log: bool) -> Float[ndarray, "Q K"]:
    """Return where on the scale from 0 to ``top`` the colours stand."""
    if not log:
        return scores
    return top * (1 + np.log10(np.maximum(scores, top * 10.0**-DECADES) / top) / DECADES)


def _runs(row: Sequence[str]) -> Iterable[tuple[int, int]]:
    """Return where runs of one colour begin, and how long they are: a long text would else be a file of megabytes."""
    start = 0
    for n in range(1, len(row) + 1):
        if n == len(row) or row[n] != row[start]:
            yield start, n - start
            start = n


def _light(colour: str) -> float:
    red, green, blue = (int(colour[n : n + 2], 16) for n in (1, 3, 5))
    return (0.299 * red + 0.587 * green + 0.114 * blue) / 255
