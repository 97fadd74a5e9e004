"""Charts for positions: a square of all pairs of places, and scores over the distance between two places."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from plotly import graph_objects as go

from figures.colours import PALETTES, Theme, score_scale, weight_scale
from figures.curves import Curve, line_trace
from figures.scaling import _figure, _literal


def place_square(
    values: Float[ndarray, "M N"],
    *,
    xaxis: str,
    yaxis: str,
    every: int = 1,
    signed: bool = True,
    theme: Theme = "light",
    size: int = 13,
) -> go.Figure:
    """Draw a number for each pair of places: blue below 0 and orange above it, or from the background to the accent.

    Args:
        values: Queries, or positions, from top to bottom.
        xaxis: What lies from left to right.
        yaxis: What lies from top to bottom.
        every: How many places lie between two rows, and two columns.
        signed: Whether numbers have a sign.
        theme: The colours to draw in.
        size: Of the letters, in pixels.
    """
    palette = PALETTES[theme]
    most = float(np.abs(values).max()) or 1.0
    rows, columns = (every * np.arange(count) for count in values.shape)
    trace = {
        "type": "heatmap",
        "x": columns,
        "y": rows,
        "z": values,
        "zmin": -most if signed else 0,
        "zmax": most,
        "colorscale": score_scale(palette) if signed else weight_scale(palette),
        "colorbar": {"thickness": 9, "outlinewidth": 0, "tickfont": {"size": size - 1}, "nticks": 5},
        "hovertemplate": "%{y}, %{x}: %{z:.4f}<extra></extra>",
    }
    across = {"title": {"text": _literal(xaxis), "standoff": 6}, "showgrid": False}
    down = {"title": {"text": _literal(yaxis), "standoff": 4}, "showgrid": False, "autorange": "reversed"}
    figure = _figure([trace], palette, 330, size, showlegend=False, below=1.4, xaxis=across, yaxis=down)
    figure.layout.margin.l = 4 * size
    return figure


def over_distance(
    curves: Sequence[Curve],
    *,
    xaxis: str,
    yaxis: str,
    mark: tuple[float, float] | None = None,
    up: tuple[float, float] | None = None,
    height: int = 330,
    theme: Theme = "light",
    size: int = 13,
) -> go.Figure:
    """Draw values over a distance, or over a length, on plain axes.

    Args:
        curves: What to draw.
        xaxis: What lies along the axis below.
        yaxis: What the values are.
        mark: A point to mark.
        up: Where the axis of values begins and ends.
        height: In pixels.
        theme: The colours to draw in.
        size: Of the letters, in pixels.
    """
    palette = PALETTES[theme]
    traces = [line_trace(curve, palette) for curve in curves]
    if mark is not None:
        point = {"size": 12, "color": palette.text, "symbol": "circle-open", "line": {"width": 2}}
        traces.append(
            {
                "type": "scatter",
                "x": [mark[0]],
                "y": [mark[1]],
                "mode": "markers",
                "marker": point,
                "showlegend": False,
                "hoverinfo": "skip",
            }
        )
    across = {"title": {"text": _literal(xaxis), "standoff": 6}, "showgrid": True}
    along = {"title": {"text": _literal(yaxis), "standoff": 4}, "nticks": 6}
    along |= {"range": up} if up else {}
    figure = _figure(traces, palette, height, size, showlegend=len(curves) > 1, below=1.4, xaxis=across, yaxis=along)
    figure.layout.margin.l = 4.6 * size
    return figure
