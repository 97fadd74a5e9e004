"""What the charts of "Position" draw is what they were given."""

import numpy as np
import pytest

from figures.curves import Curve
from figures.positions import over_distance, place_square


@pytest.mark.parametrize("signed", [True, False])
def test_a_square(signed):
    values = np.array([[-1.0, 0.5, 2.0], [0.0, 1.0, 0.25]], dtype=np.float32)
    figure = place_square(values, xaxis="key", yaxis="query", every=4, signed=signed)
    np.testing.assert_array_equal(figure.data[0].z, values)
    assert list(figure.data[0].x) == [0, 4, 8]
    assert (figure.data[0].zmin, figure.data[0].zmax) == (-2 if signed else 0, 2)
    assert figure.layout.yaxis.autorange == "reversed"


def test_over_a_distance():
    figure = over_distance(
        [Curve("a", (-1, 0, 1), [1.0, 2.0, 3.0], 0)], xaxis="m − n", yaxis="", mark=(0.0, 2.0), up=(0.0, 4.0)
    )
    np.testing.assert_array_equal(figure.data[0].y, [1, 2, 3])
    assert (figure.data[1].x, figure.data[1].y) == ((0.0,), (2.0,))
    assert figure.layout.yaxis.range == (0, 4)
