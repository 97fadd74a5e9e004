"""Curves on logarithmic axes, where a power of n is a straight line and its slope the power."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from plotly import graph_objects as go

from figures.colours import PALETTES, Palette, Theme
from figures.scaling import _figure, _literal

GREEN, PINK, BLUE = "#009e73", "#cc79a7", "#56b4e9"  # Okabe-Ito


class Curve(NamedTuple):
    """A curve.

    Attributes:
        name: What it is called.
        x: Where, N of them.
        y: Its values; NaN where there is none, 0 is not drawn on a logarithmic axis.
        colour: Which of the palette's, from 0.
        dash: "solid", "dot" or "dash"; only solid ones have points.
    """

    name: str
    x: Sequence[float]
    y: Float[ndarray, " N"] | Sequence[float]
    colour: int
    dash: str = "solid"


def log_curves(
    curves: Sequence[Curve],
    *,
    xaxis: str,
    yaxis: str,
    marks: Sequence[float] = (),
    points: Sequence[tuple[float, float, str]] = (),
    unit: str = "",
    ticks: Sequence[int] = (),
    up: tuple[float, float] | None = None,
    straight: bool = False,
    legend: bool = True,
    height: int = 320,
    theme: Theme = "light",
    size: int = 13,
) -> go.Figure:
    """Draw curves on logarithmic axes.

    Args:
        curves: What to draw.
        xaxis: What lies along the axis below.
        yaxis: What the values are.
        marks: Places on the axis below that a dotted line marks.
        points: Points to mark, each with what is written beside it.
        unit: Written behind every value where one points.
        ticks: What is written on the axis below, which reaches from the first to the last; else powers of ten.
        up: Where the axis of values begins and ends; else where the values do.
        straight: Whether values have a linear axis after all, from 0.
        legend: Whether the names are shown.
        height: In pixels.
        theme: The colours to draw in.
        size: Of the letters, in pixels.
    """
    palette = PALETTES[theme]
    traces = [
        line_trace(curve, palette)
        | {
            "y": np.where(np.asarray(curve.y, dtype=float) > 0, curve.y, 0.0 if straight else np.nan),
            "mode": "lines+markers" if curve.dash == "solid" else "lines",
            "marker": {"size": 6 if len(curve.x) < 20 else 1},
            "hovertemplate": f"%{{x:,}}: %{{y:,.4~g}}{_literal(unit)}<extra>{_literal(curve.name)}</extra>",
        }
        for curve in curves
    ]
    if points:
        traces.append(
            {
                "type": "scatter",
                "x": [x for x, _, _ in points],
                "y": [y for _, y, _ in points],
                "text": [_literal(text) for _, _, text in points],
                "mode": "markers+text",
                "textposition": "top left",
                "marker": {"size": 11, "color": palette.text, "symbol": "circle-open", "line": {"width": 2}},
                "hoverinfo": "skip",
                "showlegend": False,
            }
        )
    rule = {"type": "line", "layer": "below", "opacity": 0.5, "y0": 0, "y1": 1, "yref": "paper"}
    rule["line"] = {"color": palette.text, "width": 1, "dash": "dot"}
    log = {"type": "log", "showgrid": True, "exponentformat": "power"}
    across, along = log | {"dtick": 1}, log | {"dtick": 1}
    if ticks:
        edge = 0.04 * float(np.log10(ticks[-1] / ticks[0]))
        across |= {"tickvals": list(ticks), "ticktext": [f"{tick:,}" for tick in ticks], "tickangle": 0}
        across["range"] = (np.log10(ticks[0]) - edge, np.log10(ticks[-1]) + edge)
    if straight:
        along = {"rangemode": "tozero", "nticks": 6}
    else:
        values = np.concatenate([np.asarray(curve.y, dtype=float) for curve in curves])
        values = values[np.isfinite(values) & (values > 0)]
        low, high = np.log10(up or ((values.min(), values.max()) if values.size else (1, 10)))
        along |= {"range": (low - 0.05 * (high - low + 1), high + 0.05 * (high - low + 1))}
        along["dtick"] = max(1, round((high - low) / 5))
    named = {"title": {"text": _literal(xaxis), "standoff": 6}}
    titled = {"title": {"text": _literal(yaxis), "standoff": 4}}
    shapes = [rule | {"x0": mark, "x1": mark} for mark in marks]
    figure = _figure(
        traces,
        palette,
        height,
        size,
        showlegend=legend,
        below=1.4,
        xaxis=across | named,
        yaxis=along | titled,
        shapes=shapes,
    )
    figure.layout.margin.l = 4.6 * size
    return figure


def line_trace(curve: Curve, palette: Palette) -> dict[str, Any]:
    """Return a curve as a line of plotly's; where one points it has three decimals."""
    return {
        "type": "scatter",
        "x": list(curve.x),
        "y": np.asarray(curve.y, dtype=float),
        "mode": "lines",
        "name": _literal(curve.name),
        "line": {
            "color": line_colours(palette)[curve.colour],
            "width": 2.5 if curve.dash == "solid" else 1.5,
            "dash": curve.dash,
        },
        "hovertemplate": f"%{{x}}: %{{y:.3f}}<extra>{_literal(curve.name)}</extra>",
    }


def line_colours(palette: Palette) -> tuple[str, ...]:
    """Return the colours of curves: the accent, orange, green, pink, light blue, and the text's own."""
    return palette.weights[-1], palette.scores[-1], GREEN, PINK, BLUE, palette.text
