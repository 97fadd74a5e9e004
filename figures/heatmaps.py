"""One head as a heat map, for notebooks and for export; the app's own pages draw theirs on a canvas."""

import unicodedata
from collections.abc import Sequence
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray
from plotly import graph_objects as go

from figures.colours import FONT, PALETTES, Theme, score_scale, weight_scale

Show = Literal["weights", "scaled", "raw"]
SIDE, LARGEST_CELL = 640, 44  # pixels
LONGEST_LABEL = 32  # letters on an axis; hovering shows all of them
STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
# Plotly reads a little HTML and $TeX$ in all text and has no switch for it, but it turns entities into letters last.
LITERAL = str.maketrans({letter: f"&#{ord(letter)};" for letter in "&<>$"})


def head_heatmap(
    scores: Float[ndarray, "Q K"],
    queries: Sequence[str],
    keys: Sequence[str],
    *,
    show: Show,
    theme: Theme = "light",
    title: str = "",
    allowed: Bool[ndarray, "Q K"] | None = None,
) -> go.Figure:
    """Draw one head, queries from top to bottom and keys from left to right, so that equal colours are equal numbers.

    Weights run from the page's background (0) to the accent (the largest); scores run from blue through the background
    (0) to orange, symmetric about 0. The colour bar shows the true range. Every text comes out as it was typed.

    Args:
        scores: The numbers to draw, as they are; NaN and −∞ stay empty.
        queries: The rows' labels; equal ones stay apart.
        keys: The columns' labels.
        show: What the numbers are: "weights", or the "scaled" or "raw" scores.
        theme: The colours to draw in, "light" or "dark".
        title: Written above; nothing by default.
        allowed: True where a query may look at a key; all else stays empty.

    Returns:
        The figure; its cells are squares, and its size follows from the number of labels.

    Raises:
        ValueError: If sizes do not fit, naming both; if a number is +∞; if ``show`` or ``theme`` is none of these.
    """
    if show not in ("weights", "scaled", "raw") or theme not in PALETTES:
        raise ValueError(f"show is weights, scaled or raw and theme light or dark, not {show!r} and {theme!r}")
    if scores.ndim != 2 or not scores.size:
        raise ValueError(f"the scores of one head are queries × keys, at least one of each, not {scores.shape}")
    if scores.shape != (len(queries), len(keys)):
        raise ValueError(f"scores {scores.shape} do not fit {len(queries)} queries and {len(keys)} keys")
    if allowed is not None and allowed.shape != scores.shape:
        raise ValueError(f"allowed {allowed.shape} does not fit scores {scores.shape}")
    if (scores == np.inf).any():
        raise ValueError("a score is +∞, which has no place on a scale")

    palette = PALETTES[theme]
    drawn = (scores > -np.inf) if allowed is None else (scores > -np.inf) & allowed
    cells = np.where(drawn, scores, np.array(np.nan, scores.dtype))
    low, high, marks = _range(cells[drawn], show)
    size = min(LARGEST_CELL, SIDE / max(scores.shape))
    font = round(min(max(size * 0.6, 9), 13))
    step = next((step for step in STEPS if step * size >= font + 2), STEPS[-1])
    rows, columns = (_shortened(names[::step]) for names in (queries, keys))
    left, top = _reach(rows, font), _reach(columns, font)
    upright = top > step * size
    top = top if upright else font + 12
    width, height = (size * number for number in reversed(scores.shape))
    bar = max(height, 120)

    chart = go.Heatmap(
        z=cells,
        customdata=[[(_literal(query), _literal(key)) for key in keys] for query in queries],
        hovertemplate="%{customdata[0]} → %{customdata[1]}<br>%{z:.4f}<extra></extra>",
        hoverongaps=False,
        zmin=low,
        zmax=high,
        colorscale=weight_scale(palette) if show == "weights" else score_scale(palette),
        colorbar={
            "tickvals": marks,
            "ticktext": [f"{mark:.3g}".replace("-", "−") for mark in marks],
            "thickness": 12,
            "lenmode": "pixels",
            "len": bar,
            "y": 1,
            "yanchor": "top",
            "ypad": 0,
            "outlinewidth": 0,
        },
    )

    heading = {"text": _literal(title), "x": 0.02, "y": 1, "yanchor": "top", "pad": {"t": 16}}

    def axis(labels: list[str]) -> dict:
        # Ticks stand at whole numbers, since an axis of names would merge equal ones.
        places = {"tickvals": [step * n for n in range(len(labels))], "ticktext": [_literal(name) for name in labels]}
        return places | {
            "tickfont": {"size": font},
            "ticks": "",
            "ticklabelstandoff": 4,
            "showgrid": False,
            "zeroline": False,
        }

    return go.Figure(
        chart,
        go.Layout(
            template=go.layout.Template(),  # not the reader's default one, which would change the colours
            title=heading if title else None,
            font={"family": FONT, "color": palette.text},
            hoverlabel={"font": {"family": FONT}, "align": "left"},
            paper_bgcolor=palette.background,
            plot_bgcolor=palette.blocked,
            width=round(left + width + 90),
            height=round(top + bar + 24 + (48 if title else 12)),
            margin={"l": left, "r": 90, "t": top + (48 if title else 12), "b": 24 + bar - height},
            xaxis=axis(columns) | {"range": (-0.5, len(keys) - 0.5), "side": "top", "tickangle": -90 * upright},
            yaxis=axis(rows) | {"range": (len(queries) - 0.5, -0.5)},
        ),
    )


def _literal(text: str) -> str:
    return text.translate(LITERAL)


def _range(values: Float[ndarray, " N"], show: Show) -> tuple[float, float, list[float]]:
    """Return where the colours begin and end, and the numbers that the colour bar names: the true range, and 0."""
    lowest, highest = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    if show == "weights":
        return 0.0, highest or 1.0, [0.0, highest] if highest else [0.0]
    most = max(-lowest, highest) or 1.0
    apart = [mark for mark in {lowest, highest} if abs(mark) > most / 8]  # so that no number is written over the zero
    return -most, most, sorted({0.0, *apart})


def _shortened(names: Sequence[str]) -> list[str]:
    return [name if len(name) <= LONGEST_LABEL else name[: LONGEST_LABEL - 1] + "…" for name in names]


def _reach(labels: Sequence[str], font: int) -> int:
    """Estimate how many pixels the longest label takes: plotly's own automatic margins would squash the squares."""
    wide = [sum(1.0 if unicodedata.east_asian_width(c) in "WF" else 0.6 for c in label) for label in labels]
    return round(max(wide) * font + 14)
