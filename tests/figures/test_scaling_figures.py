"""What the charts of "why √dₖ" draw is what the core computed."""

import math

import numpy as np
import pytest

from attention_core.labs import scaling as lab
from figures.colours import PALETTES
from figures.scaling import LONGEST, score_spread, size_curves, weight_pairs

NAMES = ("without", "with")
THEMES = pytest.mark.parametrize("theme", ["light", "dark"])


@THEMES
@pytest.mark.parametrize("size", [1, 64, 4096])
def test_spread(size, theme):
    found, row = lab.histogram(size, 5, 1), lab.random_row(size, 5, 1, 1.0)
    figure = score_spread(found.edges, found.shares, row.scores, NAMES, spread=math.sqrt(size), theme=theme)
    raw, raw_marks, scaled, scaled_marks = figure.data
    for place, (bars, marks) in enumerate([(raw, raw_marks), (scaled, scaled_marks)]):
        np.testing.assert_array_equal(bars.y, found.shares[place])
        np.testing.assert_allclose(bars.x - bars.width / 2, found.edges[place, :-1], atol=1e-9)
        np.testing.assert_array_equal(marks.x, row.scores[place])
    low, high = figure.layout.xaxis.range  # one axis for both
    assert low == -high
    assert high >= max(4 * math.sqrt(size), np.abs(row.scores).max())
    assert raw.marker.color == PALETTES[theme].scores[-1]
    assert scaled.marker.color == PALETTES[theme].weights[-1]


def test_scores_by_hand_fit_on_the_axis():
    found, row = lab.histogram(4, 3, 1), lab.hand_row((900.0, -3.0, 1e6), 4, 1.0)
    figure = score_spread(found.edges, found.shares, row.scores, NAMES, spread=2.0)
    assert figure.layout.xaxis.range[1] > 1e6


@THEMES
def test_bars(theme):
    row = lab.random_row(64, 7, 3, 8.0)
    labels = [f"k{n}" for n in range(7)]
    figure = weight_pairs(labels, row.weights, NAMES, reference=row.cool, reference_name="cool", theme=theme)
    for place in (0, 1):
        np.testing.assert_array_equal(figure.data[place].y, row.weights[place])
        assert figure.data[place].name == NAMES[place]
        assert list(figure.data[place].customdata) == labels
    np.testing.assert_array_equal(figure.data[2].y, row.cool)
    assert figure.layout.yaxis.range == (0, 1.08)
    assert figure.layout.paper_bgcolor == PALETTES[theme].background


def test_weights_stand_above_their_bars():
    row = lab.hand_row((16.0, 8.0, 0.0, -8.0), 64, 1.0)
    figure = weight_pairs(["a", "b", "c", "d"], row.weights, NAMES)
    assert figure.data[0].text == ("1.00", "", "", "")
    assert figure.data[1].text == (".64", ".24", ".09", ".03")


def test_equal_labels_stay_apart_and_typed_text_is_only_text():
    labels = ["the", "the", "<b>x</b>", "$x$", "x" * 50]
    figure = weight_pairs(labels, np.full((2, 5), 0.2), NAMES, chosen=1, height=190, legend=False)
    assert list(figure.layout.xaxis.tickvals) == [0, 1, 2, 3, 4]
    assert figure.layout.xaxis.ticktext[:2] == ("the", "the")
    assert not {"<", "$"} & set("".join(figure.layout.xaxis.ticktext))
    assert len(figure.layout.xaxis.ticktext[4]) == LONGEST
    assert "x" * 50 in figure.data[0].customdata
    assert (figure.layout.shapes[0].x0, figure.layout.shapes[0].x1) == (0.5, 1.5)
    assert figure.layout.height == 190


def test_many_tokens_keep_some_labels():
    figure = weight_pairs([str(n) for n in range(307)], np.zeros((2, 307)), NAMES, top=None)
    assert 10 < len(figure.layout.xaxis.tickvals) <= 40
    assert figure.layout.yaxis.range[1] > 0


@THEMES
def test_curves_and_marker(theme):
    found = lab.curves(5, 1, 1.0, 101)
    figure = size_curves(lab.SIZES, found.entropy, 256, NAMES, top=2.0, bound=math.log(5), theme=theme)
    for place in (0, 1):
        np.testing.assert_array_equal(figure.data[place].x, lab.SIZES)
        np.testing.assert_array_equal(figure.data[place].y, found.entropy[place])
        sizes = figure.data[place].marker.size
        assert sizes.index(max(sizes)) == lab.SIZES.index(256)
    assert figure.layout.xaxis.type == "log"
    assert figure.layout.shapes[0].x0 == figure.layout.shapes[0].x1 == 256
    assert figure.layout.shapes[1].y0 == pytest.approx(math.log(5))


def test_nothing_is_changed():
    values = np.full((2, 3), 0.3)
    values.setflags(write=False)
    first = weight_pairs(["a", "b", "c"], values, NAMES).to_json()
    assert weight_pairs(["a", "b", "c"], values, NAMES).to_json() == first
