"""Charts for rotary positions: a pair of features as arrows in a plane, and what every pair adds to a score."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from plotly import graph_objects as go

from figures.colours import FONT, PALETTES, Palette, Theme
from figures.heatmaps import LITERAL

LONGEST = 14  # letters of a name beside its arrow
LEAST = 0.05  # radians; the arc of a smaller turn has no room for an arrow's head
ROOM = 1.45  # beyond the longest arrow, for the names


def arrows(
    query: Float[ndarray, " 2"],
    key: Float[ndarray, " 2"],
    names: tuple[str, str],
    *,
    reach: float,
    turned: tuple[tuple[Float[ndarray, " 2"], float], ...] = (),
    theme: Theme = "light",
    size: int = 13,
) -> go.Figure:
    """Draw one pair of features of a query and of a key as arrows from the origin.

    Args:
        query: Where the query's arrow ends.
        key: Where the key's arrow ends.
        names: What the two are called.
        reach: The length of the longest arrow; figures with the same one can be compared.
        turned: Where the query's arrow was and the key's, each with the angle in radians, counter-clockwise, by which
            it has been turned since: drawn faintly, with an arc from there (full circles left out).
        theme: The colours to draw in.
        size: Of the letters, in pixels.
    """
    palette = PALETTES[theme]
    reach = reach or 1.0
    colours = (palette.weights[-1], palette.scores[-1])
    ends = np.stack([query, key]).astype(float)
    traces: list[dict[str, Any]] = []
    for (start, turn), colour, radius in zip(turned, colours, (0.42, 0.3), strict=False):
        along = np.arctan2(start[1], start[0]) + np.linspace(0, turn % (2 * np.pi), 65)
        faint = {"color": colour, "width": 1.5, "dash": "dot"}
        arc = radius * reach * np.stack([np.cos(along), np.sin(along)])
        traces.append(_line(*_from_origin(start), faint, opacity=0.75))
        head = _head(colour, 9, len(along)) if turn % (2 * np.pi) > LEAST else {}
        traces.append(_line(*arc, {"color": colour, "width": 2}) | head)
    for end, name, colour in zip(ends, names, colours, strict=True):
        drawn = _line(*_from_origin(end), {"color": colour, "width": 3}) | _head(colour, 14, 2)
        hover = f"{_literal(name)}: %{{x:.4f}}, %{{y:.4f}}<extra></extra>"
        traces.append(drawn | {"hoverinfo": None, "hovertemplate": hover})
    range_ = (-ROOM * reach, ROOM * reach)
    axis = {"range": range_, "fixedrange": True, "nticks": 5, "gridcolor": palette.weights[1], "ticks": ""}
    axis |= {"zeroline": True, "zerolinecolor": palette.weights[2], "zerolinewidth": 1}
    layout = {
        "xaxis": axis | {"constrain": "domain"},
        "yaxis": axis | {"scaleanchor": "x", "constrain": "domain", "constraintoward": "top"},
        "annotations": _names(ends, names, colours, reach, size),
        "showlegend": False,
    }
    return go.Figure(traces, layout | _look(palette, 320, size))


def parts(
    values: Float[ndarray, "2 P"], names: tuple[str, str], *, chosen: int, theme: Theme = "light", size: int = 13
) -> go.Figure:
    """Draw what every pair of features adds to a raw score, without and with the rotation.

    Args:
        values: Without and with.
        names: What the two are called.
        chosen: The pair, from 0, that is set off from the others.
        theme: The colours to draw in.
        size: Of the letters, in pixels.
    """
    palette = PALETTES[theme]
    places = np.arange(1, values.shape[1] + 1)
    looks = (_faded(palette.text), palette.weights[-1])
    traces = [
        {
            "type": "bar",
            "x": places,
            "y": row,
            "name": _literal(name),
            "marker": {"color": colour, "line": {"width": 0}},
            "hovertemplate": "%{x}: %{y:.4f}<extra>" + _literal(name) + "</extra>",
        }
        for row, name, colour in zip(values, names, looks, strict=True)
    ]
    band = {"type": "rect", "xref": "x", "yref": "paper", "y0": 0, "y1": 1, "layer": "below", "line": {"width": 0}}
    fixed = {"fixedrange": True, "ticks": "", "gridcolor": palette.weights[1]}
    layout = {
        "xaxis": fixed | {"showgrid": False, "range": (0.4, len(places) + 0.6), "zeroline": False},
        "yaxis": fixed | {"zeroline": True, "zerolinecolor": palette.text, "zerolinewidth": 1, "nticks": 5},
        "shapes": [band | {"x0": chosen + 0.5, "x1": chosen + 1.5, "fillcolor": palette.weights[2], "opacity": 0.6}],
        "barmode": "group",
        "bargap": 0.25,
        "showlegend": True,
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "bgcolor": "rgba(0,0,0,0)"},
    }
    return go.Figure(traces, layout | _look(palette, 220, size, above=2.6))


def _names(
    ends: Float[ndarray, "2 2"], names: Sequence[str], colours: Sequence[str], reach: float, size: int
) -> list[dict[str, Any]]:
    """Write each name beyond its arrow's end, and the two to different sides, so that they stand apart."""
    (qx, qy), (kx, ky) = ends
    side = 1 if kx * qy - ky * qx >= 0 else -1  # the query's arrow is counter-clockwise of the key's
    written = []
    for end, name, colour, way in zip(ends, names, colours, (side, -side), strict=True):
        along = end / (np.hypot(*end) or 1.0)
        x, y = end + reach * (0.13 * along + 0.13 * way * np.array([-along[1], along[0]]))
        short = name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"
        text = f"<b>{_literal(short)}</b>"
        font = {"color": colour, "size": size + 1, "family": FONT}
        written.append({"x": x, "y": y, "text": text, "showarrow": False, "font": font})
    return written


def _line(
    x: Float[ndarray, " N"], y: Float[ndarray, " N"], line: dict[str, Any], opacity: float = 1.0
) -> dict[str, Any]:
    return {"type": "scatter", "x": x, "y": y, "mode": "lines", "line": line, "opacity": opacity, "hoverinfo": "skip"}


def _from_origin(end: Float[ndarray, " 2"]) -> Float[ndarray, "2 2"]:
    return np.stack([np.zeros(2), end], axis=1)


def _head(colour: str, size: int, points: int) -> dict[str, Any]:
    """Put an arrow's head at the end of a line."""
    marker = {"symbol": "arrow", "angleref": "previous", "color": colour, "size": [0] * (points - 1) + [size]}
    return {"mode": "lines+markers", "marker": marker | {"opacity": 1, "line": {"width": 0}}}


def _look(palette: Palette, height: int, size: int, above: float = 0.8) -> dict[str, Any]:
    return {
        "template": go.layout.Template(),  # not the reader's default one, which would change the colours
        "font": {"family": FONT, "color": palette.text, "size": size},
        "hoverlabel": {"font": {"family": FONT}},
        "paper_bgcolor": palette.background,
        "plot_bgcolor": palette.background,
        "height": round(height * size / 13),
        "margin": {"l": 3.2 * size, "r": 8, "t": above * size, "b": 2.2 * size},
        "dragmode": False,
    }


def _faded(colour: str) -> str:
    red, green, blue = (int(colour[n : n + 2], 16) for n in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, 0.35)"


def _literal(text: str) -> str:
    return text.translate(LITERAL)
