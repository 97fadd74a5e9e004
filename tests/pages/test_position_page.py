"""The page "Position", as a reader drives it."""

import numpy as np
import pytest

from attention_core import compute
from attention_core.labs import length, placed_head
from pages.test_pages import arrays, captions, link
from ui.lessons import position as lesson

PAGE = "pages/position.py"
LANGS = pytest.mark.parametrize("lang", ["en", "ko"])


def said(page):
    return " ".join(element.value for element in (*page.markdown, *page.caption)).replace("\\", "")


@LANGS
@pytest.mark.parametrize("way", lesson.KINDS)
def test_every_way_in_both_orders(open_page, lang, way):
    text = "the dog bit the man"
    page = open_page(PAGE, lang=lang, way=way, pos_head="3", text=text, long_n="32")
    assert not page.exception
    for name, order in (("typed", ()), ("mixed", placed_head.shuffled(7, 1))):
        found = compute.run(placed_head.placed_head, text, 512, 2, way, order)
        np.testing.assert_allclose(arrays(page, f"heat-position-{name}")["weights"], found.weights, atol=1e-6)
    same = {"en": "the same 32 numbers", "ko": "똑같은 수 32개"}[lang]
    assert (same in said(page)) == (way == "none")
    assert len(page.get("plotly_chart")) == (3 if way == "none" else 5)


def test_another_shuffle_is_another_link(open_page):
    page = open_page(PAGE, lang="en")
    before = arrays(page, "heat-position-mixed")["weights"]
    page.button(key="pos_again").click().run()
    assert not page.exception
    assert link(page)["pos_seed"] == "2"
    assert np.abs(arrays(page, "heat-position-mixed")["weights"] - before).max() > 0.01
    page.button(key="long_again").click().run()
    assert link(page)["long_seed"] == "8"


@LANGS
def test_both_one_place_on_leaves_the_score(open_page, lang):
    page = open_page(PAGE, lang=lang, turn_m="9", turn_n="4", turn_query="6", turn_key="4", turn_pair="20")
    assert not page.exception
    _, queries, keys = lesson._vectors("I ate the cake and it was delicious")
    score = lesson._turned_scores("I ate the cake and it was delicious", 5, 3, 100_000)[lesson.WIDE + 5]
    assert f"**{score:.4f}**".replace("-", "−") in said(page)
    theta = 100_000 ** (-19 / 32)
    assert f"{theta:.4g}" in said(page)
    page.button(key="turn_both").click().run()
    assert (link(page)["turn_m"], link(page)["turn_n"]) == ("10", "5")
    assert f"**{score:.4f}**".replace("-", "−") in said(page)
    assert queries.shape == keys.shape == (8, 64)


def test_the_turned_score_is_the_models_own(open_page, models):
    """At the places where the words stand, with the model's own base, it is the raw score of the page Sentence."""
    from attention_core import capture

    text = "I ate the cake and it was delicious"
    own = capture(models["smollm2"], text).trace(25, 2).raw
    for query, key in ((5, 3), (7, 0), (2, 2)):
        found = lesson._turned_scores(text, query, key, 100_000)[lesson.WIDE + query - key]
        assert found == pytest.approx(float(own[query, key]), abs=2e-3)


@LANGS
def test_what_is_right_at_a_length(open_page, lang):
    page = open_page(PAGE, lang=lang, long_n="128", long_stretch="yes", long_base="10000")
    assert not page.exception
    assert f"RoPE{'(회전)' if lang == 'ko' else ''} {length.accuracy('rope', 128, stretch=4.0):.0%}" in said(page)
    page = open_page(PAGE, lang=lang, long_n="128")
    assert f"{length.accuracy('rope', 128):.0%}" in said(page)


@pytest.mark.parametrize(
    "text", ["one", "a b", "", "   ", "</script><b>x</b> $x$ **b** |", "나는 은행에서 돈을 찾았다", "word " * 600]
)
def test_odd_sentences(open_page, text):
    page = open_page(PAGE, lang="en", text=text)
    assert not page.exception
    assert ("The first words of your sentence" in captions(page)) == (len(text) > 200)
    if text == "one":
        assert "There are not two words" in captions(page)
    assert not any("<b>" in element.proto.body for element in page.get("html"))


@pytest.mark.parametrize("asked", [{"way": "magic"}, {"pos_head": "13"}, {"turn_m": "101"}, {"long_n": "33"}])
def test_what_does_not_exist(open_page, asked):
    page = open_page(PAGE, lang="en", **asked)
    assert not page.exception
    (key,) = asked
    assert f"The link says {key} = " in said(page)


def test_every_number_is_offered(open_page):
    page = open_page(PAGE, lang="en", way="alibi")
    page.session_state["position_numbers"] = True
    page.run()
    assert not page.exception
    assert len(page.dataframe) == 7
