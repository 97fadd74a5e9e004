"""Arrows end where the numbers say, and are turned by the angle that is given."""

import numpy as np
import pytest

from figures.colours import PALETTES
from figures.rotation import LONGEST, arrows, parts

QUERY, KEY, TURNS = np.array([3.0, 1.0]), np.array([-1.0, 2.0]), (2.0, -0.5)


def turn(end, angle):
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]) @ end


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_before(theme):
    figure = arrows(QUERY, KEY, ("it", "<b>cake</b>"), reach=4.0, theme=theme)
    assert [(line.x[-1], line.y[-1]) for line in figure.data] == [(3, 1), (-1, 2)]
    assert all(line.x[0] == line.y[0] == 0 for line in figure.data)
    assert [line.line.color for line in figure.data] == [PALETTES[theme].weights[-1], PALETTES[theme].scores[-1]]
    assert figure.layout.yaxis.scaleanchor == "x"  # angles look as they are
    assert figure.layout.xaxis.range == figure.layout.yaxis.range
    assert figure.layout.xaxis.range[1] > 4
    assert [note.text for note in figure.layout.annotations] == ["<b>it</b>", "<b>&#60;b&#62;cake&#60;/b&#62;</b>"]


def test_after_with_where_it_was():
    turned = [(QUERY, TURNS[0]), (KEY, TURNS[1])]
    ends = [turn(end, angle) for end, angle in turned]
    figure = arrows(*ends, ("a", "b"), reach=4.0, turned=tuple(turned))
    for n, (start, angle) in enumerate(turned):
        faint, arc, arrow = figure.data[2 * n], figure.data[2 * n + 1], figure.data[4 + n]
        np.testing.assert_allclose([faint.x[-1], faint.y[-1]], start)
        np.testing.assert_allclose([arrow.x[-1], arrow.y[-1]], ends[n])
        drawn = np.unwrap(np.arctan2(arc.y, arc.x))
        assert drawn[-1] - drawn[0] == pytest.approx(angle % (2 * np.pi))
        assert drawn[0] == pytest.approx(np.arctan2(start[1], start[0]))
        np.testing.assert_allclose(np.cos(drawn[-1]), ends[n][0] / np.hypot(*ends[n]), atol=1e-9)


def test_names_of_arrows_that_lie_together_stand_apart_and_long_ones_are_cut():
    figure = arrows(QUERY, QUERY, ("x" * 40, "y"), reach=4.0)
    first, second = figure.layout.annotations
    assert np.hypot(first.x - second.x, first.y - second.y) > 0.8
    assert len(first.text) == LONGEST + len("<b></b>")
    assert arrows(np.zeros(2), np.zeros(2), ("a", "b"), reach=0.0).layout.xaxis.range[1] > 0


def test_parts():
    values = np.array([[1.0, -2.0, 3.0], [0.5, 2.0, -1.0]])
    figure = parts(values, ("without", "with"), chosen=1)
    for bars, row in zip(figure.data, values, strict=True):
        np.testing.assert_array_equal(bars.y, row)
        assert list(bars.x) == [1, 2, 3]
    (band,) = figure.layout.shapes
    assert (band.x0, band.x1) == (1.5, 2.5)  # the second pair
