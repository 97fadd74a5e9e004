"""Maps of long sentences: what they send, and that what they show is the head's."""

import numpy as np
import pytest

from pages.test_pages import arrays, payload
from pages.test_terms_page import keyed
from ui.compute import head_view

LONG = "The old sailor told us a long story, and we listened because it was cold outside. " * 12
PLACE = {"lang": "en", "model": "minilm", "text": LONG.strip(), "layer": "3", "head": "5"}


def bare(rows):
    return np.vectorize(lambda value: f"{value:.4f}")(rows)


def test_the_sentence_page_sends_a_large_head_once(open_page):
    view = head_view("minilm", PLACE["text"], 2, 4, "token", "shown")
    assert view.weights.size > 128 * 128
    page = open_page("pages/sentence.py", **PLACE)
    (heat,), (row,) = keyed(page, "heat"), keyed(page, "row")
    sent = arrays(page, heat)
    assert payload(page, heat)["lends"] == payload(page, row)["borrows"]
    np.testing.assert_array_equal(sent["raw"], view.raw[0])
    np.testing.assert_array_equal(sent["allowed"], view.allowed)
    assert (bare(sent["weights"]) == bare(view.weights)).mean() > 0.9999  # but for halves that lie between two doubles
    assert set(arrays(page, row)) == {"total"}
    np.testing.assert_allclose(arrays(page, row)["total"], np.ones(len(view.queries)), atol=1e-6)


@pytest.mark.parametrize("show", ["weights", "scaled", "raw"])
def test_maps_side_by_side_have_what_they_show(open_page, show):
    view = head_view("minilm", PLACE["text"], 2, 4, "token", "shown")
    page = open_page("pages/compare.py", **PLACE, show=show, layer_b="4", head_b="2")
    sent = arrays(page, "heat-a")
    assert set(sent) == {show, "allowed"}
    expected = {"weights": view.weights, "raw": view.raw[0], "scaled": view.raw[0] * view.factor}[show]
    span = expected.max() - expected.min()
    np.testing.assert_allclose(sent[show], expected, atol=span / 65000)
    assert payload(page, "heat-a")["factor"] is None
