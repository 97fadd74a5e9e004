"""Positions on the sentence page: a pair of features before and after rotation, and the score without and with it."""

import re

import pytest

from attention_core import capture
from attention_core.rotary import before_rotation
from pages.test_pages import SENTENCE, captions, link
from tiny_models import save
from ui.controls import EXAMPLE

HEAD = {"model": "smollm2", "layer": "26", "head": "3"}


def opened(page):
    page.session_state["rotation"] = True
    return page.run()


def said(page):
    return " ".join(m.value for m in page.markdown).replace("\\", "")


def labels(page):
    return [expander.label for expander in page.expander]


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_every_number_is_the_heads_own(open_page, models, lang):
    page = opened(open_page(SENTENCE, lang=lang, **HEAD))
    assert not page.exception
    query, key, pair = (int(link(page)[f"rope_{name}"]) for name in ("query", "key", "pair"))
    seen = capture(models["smollm2"], EXAMPLE)
    assert (seen.tokens[query].text.strip(), seen.tokens[key].text.strip()) == ("it", "cake")
    turned = before_rotation(models["smollm2"], seen, 25, 2)
    parts = turned.parts(query, key)
    change = abs(parts.after - parts.before)
    assert change[pair - 1] == change.max()
    text = said(page).replace("−", "-")
    for number in (
        parts.before[pair - 1],
        parts.after[pair - 1],
        parts.before.sum(),
        parts.after.sum(),
        parts.after.sum() / 8,
    ):
        assert f"{number:.4f}" in text
    assert f"{query} × {turned.speeds[pair - 1]:.4g} = {query * turned.speeds[pair - 1]:.4g}" in text
    degrees = [float(n) for n in re.findall(r"(-?[0-9.]+)°", text.split("(m - n) × θ")[0].rpartition("“")[2])][-2:]
    turn = float(re.search(r"\) × θ = (-?[0-9.]+)°", text)[1])
    assert (degrees[1] - degrees[0] - turn) % 360 == pytest.approx(0, abs=0.2) or (
        degrees[1] - degrees[0] - turn
    ) % 360 == pytest.approx(360, abs=0.2)
    assert len(page.get("plotly_chart")) == 3


def test_the_controls_are_in_the_link_and_another_head_begins_anew(open_page):
    page = open_page(SENTENCE, lang="en", rope_query="7", rope_key="2", rope_pair="5", **HEAD)  # opens by itself
    shown = link(page)
    assert (shown["rope_query"], shown["rope_key"], shown["rope_pair"]) == ("7", "2", "5")
    assert "Pair 5 adds" in said(page)
    assert "at position m = 7, turns by 7 ×" in said(page)
    page.slider(key="rope_pair").set_value(9).run()
    assert "Pair 9 adds" in said(page)
    page.slider(key="rope_key").set_value(7).run()  # the query's own position: both turn alike
    assert "(7 - 7) × θ = 0°" in said(page).replace("−", "-")
    page.slider(key="layer").set_value(3).run()
    assert not page.exception
    assert link(page)["rope_key"] != "7"
    page = open_page(SENTENCE, lang="en", rope_query="99", rope_pair="0", **HEAD)
    assert not page.exception
    assert "rope_query = 99" in captions(page).replace("\\", "")


def test_a_pinned_query_is_the_one_that_is_shown(open_page):
    page = opened(open_page(SENTENCE, lang="en", query="2", **HEAD))
    assert link(page)["rope_query"] == "2"
    assert "This query may not look at this key" not in captions(page)
    page.slider(key="rope_key").set_value(6).run()  # comes later
    assert "This query may not look at this key" in captions(page)


def test_only_models_that_turn_have_it(open_page, tmp_path, monkeypatch):
    assert "Positions: query and key before and after rotation" not in labels(open_page(SENTENCE, lang="en"))
    monkeypatch.setenv("GAZE_MODELS_DIR", str(tmp_path))
    own, hidden, partly = (save(tmp_path, name) for name in ("SmolLM3", "DeepSeek-V3", "Phi"))
    said_of = {
        (own, "1"): "",
        (own, "2"): "This layer does not turn its queries and keys.",
        (hidden, "1"): "but it can’t be shown here",
    }
    for (model, layer), words in said_of.items():
        page = opened(open_page(SENTENCE, lang="en", model=model, layer=layer, head="1", text="I ate the cake"))
        assert not page.exception
        assert words in captions(page)
        assert ("All together: raw score" in said(page)) == (not words)
    page = opened(open_page(SENTENCE, lang="en", model=partly, layer="1", head="1", text="I ate the cake"))
    assert "6 of this head’s 12 features are never turned" in said(page)
