"""Curves on logarithmic axes are the numbers they were given."""

import numpy as np
import pytest

from figures.colours import PALETTES
from figures.curves import Curve, line_colours, log_curves

X = (1, 10, 100)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_curves_and_marks(theme):
    curves = [Curve("a<b", X, [0.0, 5.0, np.nan], 0), Curve("b", X, [1.0, 2.0, 4.0], 1, "dot")]
    figure = log_curves(curves, xaxis="n", yaxis="ms", marks=[10.0], points=[(10.0, 5.0, "here")], theme=theme)
    np.testing.assert_array_equal(figure.data[0].y, [np.nan, 5, np.nan])  # a logarithm has no place for 0
    np.testing.assert_array_equal(figure.data[1].y, [1, 2, 4])
    assert figure.data[0].line.color == line_colours(PALETTES[theme])[0]
    assert "<b" not in figure.data[0].name
    assert figure.layout.shapes[0].x0 == 10
    assert figure.data[2].text == ("here",)
    low, high = figure.layout.yaxis.range
    assert low < 0 < np.log10(5) < high


def test_ticks_and_a_fixed_height():
    figure = log_curves([Curve("a", X, [np.nan] * 3, 0)], xaxis="n", yaxis="", ticks=X, up=(0.1, 1000.0))
    assert figure.layout.xaxis.ticktext == ("1", "10", "100")
    low, high = figure.layout.yaxis.range
    assert low < -1 and high > 3


def test_a_straight_axis_keeps_what_is_nothing():
    figure = log_curves([Curve("a", X, [0.0, 1.0, 2.0], 0)], xaxis="n", yaxis="", straight=True)
    np.testing.assert_array_equal(figure.data[0].y, [0, 1, 2])
    assert figure.layout.yaxis.type != "log"
