"""What travels to the browser: fewer bits, and the same digits."""

from decimal import ROUND_HALF_UP, Decimal

import numpy as np
import pytest

from benchmarks.visitor import unpack
from ui.components.payload import LARGE, Rounded, pack, slim


def digits(values, places):
    """What the browser writes of float32 numbers: halves go away from zero."""
    unit = Decimal(1).scaleb(-places)
    return [str(Decimal(float(v)).quantize(unit, ROUND_HALF_UP) + 0) for v in np.ravel(values)]  # no minus zero


def sent(array, places=4):
    block = pack({}, a=Rounded(array, places))
    return unpack(block)[1]["a"], len(block)


@pytest.mark.parametrize("rows", [1, 3, 64])
def test_weights_keep_their_four_decimals(rows):
    rng = np.random.default_rng(5)
    scores = rng.normal(scale=4, size=(rows, 300))
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights = (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
    weights[0, :5] = [0, 1, 1 / 32, 0.00005, 0.99995]  # 1/32 lies half-way between 0.0312 and 0.0313
    found, size = sent(weights)
    assert digits(found, 4) == digits(weights, 4)
    np.testing.assert_allclose(found, weights, atol=2e-5)
    assert size < 2 * weights.size + 200


@pytest.mark.parametrize(("spread", "places"), [(1, 4), (20, 3), (200, 2), (2000, 1), (20_000, 0)])
def test_scores_keep_so_many_decimals_as_fit(spread, places):
    rng = np.random.default_rng(6)
    scores = rng.uniform(-spread, spread, size=(40, 50)).astype(np.float32)
    block = pack({}, a=Rounded(scores))
    assert f'"places": {places}'.encode() in block
    assert digits(unpack(block)[1]["a"], places) == digits(scores, places)


def test_what_does_not_fit_stays_as_it_is():
    scores = np.array([[-1e6, 0.125, 1e6]], np.float32)
    np.testing.assert_array_equal(sent(scores)[0], scores)


def test_no_number_stays_none():
    found, _ = sent(np.array([[0.25, np.nan, -np.inf, 0.5]], np.float32))
    np.testing.assert_array_equal(found, [[0.25, np.nan, np.nan, 0.5]])
    assert np.isnan(sent(np.full((2, 2), np.nan, np.float32))[0]).all()
    np.testing.assert_array_equal(sent(np.full((2, 2), 0.3, np.float32))[0], np.full((2, 2), 0.3, np.float32))
    assert sent(np.zeros((0, 3), np.float32))[0].shape == (0, 3)


@pytest.mark.parametrize("shape", [(), (1,), (7,), (8,), (5, 13), (2, 0)])
def test_bits_and_small_integers_come_back(shape):
    rng = np.random.default_rng(7)
    allowed = rng.random(shape) > 0.5
    for array in (np.asarray(allowed), allowed * 255, allowed * 256, allowed * 65536, allowed * -1):
        found = unpack(pack({}, a=np.asarray(array)))[1]["a"]
        np.testing.assert_array_equal(found, array)
        assert found.shape == shape


def test_a_large_map_has_exact_raw_scores_where_they_are_multiplied():
    side = int(np.sqrt(LARGE)) + 1
    square = np.random.default_rng(8).normal(size=(side, side)).astype(np.float32)
    allowed = np.ones_like(square, bool)
    both = slim({"weights": square, "allowed": allowed, "raw": square, "steps": square[None], "sink": square[0]})
    assert [name for name, array in both.items() if isinstance(array, Rounded)] == ["weights", "steps"]
    assert isinstance(slim({"raw": square, "allowed": allowed})["raw"], Rounded)
    assert isinstance(slim({"weights": square, "raw": square}, 1.0)["raw"], Rounded)  # times 1: what is shown stays
    assert not isinstance(slim({"weights": square, "raw": square}, 0.125)["raw"], Rounded)
    small = {"weights": square[:9, :9], "raw": square[:9, :9], "steps": square[None, :9, :9]}
    assert slim(small) == small
