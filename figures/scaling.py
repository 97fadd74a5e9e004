"""Charts for "why √dₖ": without the factor in orange, with it in the accent; heights never change, so nothing jumps."""

import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from plotly import graph_objects as go

from figures.colours import FONT, PALETTES, Palette, Theme
from figures.heatmaps import LITERAL

WITHOUT, WITH = 0, 1
LABELS = 40  # an axis with more places than this names some of them
LONGEST = 12  # letters of a label on an axis; hovering shows all of them


def score_spread(
    edges: Float[ndarray, "2 B1"],
    shares: Float[ndarray, "2 B"],
    marks: Float[ndarray, "2 K"],
    names: tuple[str, str],
    *,
    spread: float,
    theme: Theme = "light",
    size: int = 13,
) -> go.Figure:
    """Draw how raw and scaled scores are spread, one above the other on the same axis, and where one row's scores lie.

    Args:
        edges: The bins' borders, raw and scaled.
        shares: The share of scores in each bin; each half is as high as its highest bin.
        marks: One row's raw and scaled scores.
        names: What the two halves are called.
        spread: The raw scores' standard deviation, from which the axis' range follows.
        theme: The colours to draw in.
        size: Of the letters, in pixels.
    """
    palette = PALETTES[theme]
    traces, rules = [], []
    for place, colour in enumerate(_colours(palette)):
        axis, top = ("y2", "y")[place], float(shares[place].max())
        bars = {
            "type": "bar",
            "x": (edges[place, 1:] + edges[place, :-1]) / 2,
            "y": shares[place],
            "yaxis": axis,
            "width": np.diff(edges[place]),
            "marker": {"color": colour, "line": {"width": 0}, "opacity": 0.55},
            "name": _literal(names[place]),
            "hovertemplate": "%{x:.2f}: %{y:.1%}<extra></extra>",
        }
        ticks = {
            "type": "scatter",
            "x": marks[place],
            "y": np.full(marks.shape[1], -0.13 * top),
            "yaxis": axis,
            "mode": "markers",
            "marker": {"symbol": "line-ns", "size": 10, "line": {"width": 1.5, "color": palette.text}},
            "customdata": [f"k{n + 1}" for n in range(marks.shape[1])],
            "hovertemplate": "%{customdata}: %{x:.3f}<extra></extra>",
            "showlegend": False,
        }
        traces += [bars, ticks]
        rules.append({"range": (-0.26 * top, 1.08 * top), "visible": False, "domain": ((0.54, 1), (0, 0.46))[place]})
    reach = max(4.2 * spread, 4.2, 1.08 * float(np.abs(marks).max()))
    axes = {"xaxis": {"range": (-reach, reach), "showgrid": True}, "yaxis2": rules[0], "yaxis": rules[1]}
    return _figure(traces, palette, 300, size, barmode="overlay", bargap=0, **axes)


def weight_pairs(
    labels: Sequence[str],
    values: Float[ndarray, "2 K"],
    names: tuple[str, str],
    *,
    top: float | None = 1.0,
    reference: Float[ndarray, " K"] | None = None,
    reference_name: str = "",
    chosen: int | None = None,
    legend: bool = True,
    height: int = 300,
    theme: Theme = "light",
    size: int = 13,
) -> go.Figure:
    """Draw two bars for each place side by side: without the factor and with it.

    Args:
        labels: The places' names; equal ones stay apart.
        values: Of each place, without and with.
        names: What the two are called.
        top: Where the axis ends; None for a little above the largest value.
        reference: Values to mark by a dash, to compare with.
        reference_name: What they are called.
        chosen: A place that is set off from the others.
        legend: Whether the names are shown.
        height: In pixels.
        theme: The colours to draw in.
        size: Of the letters, in pixels.
    """
    palette = PALETTES[theme]
    places = np.arange(values.shape[1])
    names = tuple(map(_literal, names))
    written = values.shape[1] <= 10 and top == 1 and reference is None  # else numbers and dashes overlap
    traces: list[dict[str, Any]] = [
        {
            "type": "bar",
            "x": places,
            "y": values[place],
            "name": names[place],
            "marker": {"color": colour, "line": {"width": 0}},
            "customdata": [_literal(label) for label in labels],
            "hovertemplate": "%{customdata}: %{y:.4f}<extra>" + names[place] + "</extra>",
            "text": [_brief(float(value)) for value in values[place]] if written else None,
            "textposition": "outside" if written else None,
            "textangle": 0,
            "textfont": {"size": size - 2},
            "cliponaxis": False,
            "constraintext": "none",
        }
        for place, colour in enumerate(_colours(palette))
    ]
    if reference is not None:
        traces.append(
            {
                "type": "scatter",
                "x": places,
                "y": reference,
                "mode": "markers",
                "name": _literal(reference_name),
                "marker": {"symbol": "line-ew", "size": 26, "line": {"width": 2, "color": palette.text}},
                "hovertemplate": "%{y:.4f}<extra>" + _literal(reference_name) + "</extra>",
            }
        )
    shapes = []
    if chosen is not None:
        across = {"x0": chosen - 0.5, "x1": chosen + 0.5, "y0": 0, "y1": 1, "yref": "paper"}
        shapes = [across | {"type": "rect", "fillcolor": palette.text, "opacity": 0.08, "line": {"width": 0}}]
    step = -(-len(labels) // LABELS)
    shown = [label if len(label) <= LONGEST else label[: LONGEST - 1] + "…" for label in labels[::step]]
    longest = max(_width(label) for label in shown)
    slanted = longest > 3
    xaxis = {
        "tickvals": places[::step],
        "ticktext": [_literal(label) for label in shown],
        "range": (-0.5, len(labels) - 0.5),
        "tickangle": -45 if slanted else 0,
        "showgrid": False,
    }
    end = top if top is not None else 1.1 * float(values.max()) or 1.0
    yaxis = {"range": (0, end * 1.08), "nticks": 6 if height > 250 else 4}
    return _figure(
        traces,
        palette,
        height,
        size,
        showlegend=legend,
        below=0.38 * longest if slanted else 0.0,
        xaxis=xaxis,
        yaxis=yaxis,
        shapes=shapes,
        bargap=0.25,
        bargroupgap=0.06,
    )


def size_curves(
    sizes: Sequence[int],
    values: Float[ndarray, "2 S"],
    current: int,
    names: tuple[str, str],
    *,
    top: float,
    bound: float | None = None,
    theme: Theme = "light",
    size: int = 13,
) -> go.Figure:
    """Draw a measure over dₖ on a logarithmic axis, without the factor and with it, with a marker on the current dₖ.

    Args:
        sizes: Powers of two.
        values: The measure at each, without and with.
        current: The dₖ to mark.
        names: What the two curves are called.
        top: Where the axis ends.
        bound: The largest possible value, drawn as a dotted line.
        theme: The colours to draw in.
        size: Of the letters, in pixels.
    """
    palette = PALETTES[theme]
    at = list(sizes).index(current)
    traces = [
        {
            "type": "scatter",
            "x": list(sizes),
            "y": values[place],
            "mode": "lines+markers",
            "name": _literal(names[place]),
            "line": {"color": colour, "width": 2.5},
            "marker": {"size": [13 if n == at else 4 for n in range(len(sizes))], "color": colour, "opacity": 1},
            "hovertemplate": "dₖ = %{x}: %{y:.3f}<extra>" + _literal(names[place]) + "</extra>",
        }
        for place, colour in enumerate(_colours(palette))
    ]
    dotted = {
        "type": "line",
        "layer": "below",
        "opacity": 0.5,
        "line": {"color": palette.text, "width": 1, "dash": "dot"},
    }
    shapes = [dotted | {"x0": current, "x1": current, "y0": 0, "y1": 1, "yref": "paper"}]
    if bound is not None:
        shapes.append(dotted | {"x0": 0, "x1": 1, "xref": "paper", "y0": bound, "y1": bound})
    ticks = (1, 8, 64, 512, 4096)
    xaxis = {
        "type": "log",
        "tickvals": ticks,
        "ticktext": [str(tick) for tick in ticks],
        "tickangle": 0,
        "range": (-0.15, 3.8),
        "showgrid": False,
    }
    yaxis = {"range": (0, top), "nticks": 5}
    return _figure(traces, palette, 200, size, xaxis=xaxis, yaxis=yaxis, shapes=shapes, showlegend=False)


def _figure(
    traces: list[dict[str, Any]],
    palette: Palette,
    height: int,
    size: int,
    *,
    showlegend: bool = True,
    below: float = 0.0,
    **layout: Any,  # noqa: ANN401 - plotly's own
) -> go.Figure:
    """Build a figure in one go, since plotly's update methods are slow; ``below`` is room for labels, in letters."""
    fixed = {"fixedrange": True, "ticks": "", "zeroline": False, "gridcolor": palette.weights[1]}
    axes = {name: fixed | axis for name, axis in layout.items() if "axis" in name}
    return go.Figure(
        traces,
        layout
        | axes
        | {
            "template": go.layout.Template(),  # not the reader's default one, which would change the colours
            "font": {"family": FONT, "color": palette.text, "size": size},
            "hoverlabel": {"font": {"family": FONT}},
            "paper_bgcolor": palette.background,
            "plot_bgcolor": palette.background,
            "height": round(height * size / 13),  # larger letters need more room
            "margin": {"l": 3.2 * size, "r": 8, "t": 2.6 * size if showlegend else 10, "b": (2.2 + below) * size},
            "showlegend": showlegend,
            "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "bgcolor": "rgba(0,0,0,0)"},
            "dragmode": False,
        },
    )


def _colours(palette: Palette) -> tuple[str, str]:
    return palette.scores[-1], palette.weights[-1]


def _brief(weight: float) -> str:
    """Write a weight above its bar: .98, 1.00, nothing for what rounds to nothing."""
    return f"{weight:.2f}".removeprefix("0") if weight >= 0.005 else ""


def _width(label: str) -> float:
    """Return about how many letters of usual width a label takes; Korean ones are wide."""
    return sum((1.7 if unicodedata.east_asian_width(letter) in "WF" else 1.0 for letter in label), start=0.0)


def _literal(text: str) -> str:
    return text.translate(LITERAL)
