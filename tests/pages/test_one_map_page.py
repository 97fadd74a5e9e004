"""All heads as one map, on the page of all heads: every way, both languages, and what can't be."""

import numpy as np
import pytest

from attention_core import compute, one_map
from pages.test_pages import arrays, captions, link, payload
from ui.controls import EXAMPLE

PAGE = "pages/all_heads.py"


def maps(page):
    return [arrays(page, f"heat-one-minilm-{name}")["weights"] for name in ("head", "all")]


def said(page):
    return " ".join(e.value for e in page.markdown).replace("\\", "")


def test_every_way(open_page):
    page = open_page(PAGE, lang="en", one_map="yes")
    before = None
    for way in one_map.WAYS:
        page.segmented_control(key="way").set_value(way).run()
        assert not page.exception
        assert link(page)["way"] == way
        head, found = maps(page)
        np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-5)
        assert before is None or not np.allclose(found, before)
        before = found
        assert head[6, 4] == pytest.approx(0.638, abs=0.005)
    assert "Kobayashi" in said(page)


def test_in_korean(open_page):
    page = open_page(PAGE, lang="ko", one_map="yes", way="flow")
    assert not page.exception
    assert "플로" in said(page)


def test_it_is_made_only_when_asked(open_page):
    page = open_page(PAGE, lang="en")
    assert not any(e.key.startswith("heat-one") for e in page.get("bidi_component"))
    page.toggle(key="one_map").set_value(True).run()
    assert any(e.key.startswith("heat-one") for e in page.get("bidi_component"))


def test_first_token_hidden_and_in_log_colours(open_page):
    page = open_page(PAGE, lang="en", one_map="yes", first="hidden", way="rollout")
    assert all(found.shape == (10, 9) for found in maps(page))
    plain = compute.run(compute.view, "minilm", EXAMPLE, 512, 5, 11, "token", "shown", False)
    assert f"{plain.hidden.mean():.0%} of the weight is hidden" in captions(page).replace("\\", "")
    assert captions(page).count("of the weight is hidden") == 1  # the rollout's rows are no weights
    assert "share of a row is" in captions(page)
    page.segmented_control(key="first").set_value("log").run()
    assert payload(page, "heat-one-minilm-all")["log"]


def test_a_long_text_has_rollout_in_the_place_of_flow(open_page):
    page = open_page(PAGE, lang="en", one_map="yes", way="flow", text="the cake was good " * 10)
    assert not page.exception
    assert "up to 32 tokens, and this one has 42" in said(page)
    found = maps(page)[1]
    page.segmented_control(key="way").set_value("rollout").run()
    np.testing.assert_array_equal(maps(page)[1], found)


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_what_a_map_hides_is_called_what_it_is(open_page, lang):
    own = {"largest": "sum of largest", "flow": "of the flow", "norm": "row’s length"}
    if lang == "ko":
        own = {"largest": "최댓값들을 더한", "flow": "흐름 가운데", "norm": "행의 길이 가운데"}
    for way, words in own.items():
        page = open_page(PAGE, lang=lang, one_map="yes", first="hidden", way=way)
        assert words in captions(page)
        page = open_page(PAGE, lang=lang, one_map="yes", way=way)
        assert words not in captions(page)


def test_a_way_that_does_not_exist(open_page):
    page = open_page(PAGE, lang="en", one_map="yes", way="median")
    assert link(page)["way"] == "mean"
    assert "median" in captions(page)
