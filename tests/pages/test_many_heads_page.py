"""The page "Many heads", as a reader drives it."""

import json
from urllib.parse import parse_qs

import numpy as np
import pytest

from attention_core.relations import RELATIONS, sentences
from pages.test_pages import arrays, captions, link, own_models, payload, with_numbers  # noqa: F401 - a fixture
from trigger import fire

PAGE = "pages/many_heads.py"


def said(page):
    """Return all that is written, as it reads."""
    return " ".join(m.value for m in [*page.markdown, *page.caption]).replace("\\", "")


def drawn(page):
    return next(e.key for e in page.get("bidi_component") if e.key.startswith("links-"))


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_opens_with_eight_heads_and_what_was_found(open_page, lang):
    page = open_page(PAGE, lang=lang)
    assert not page.exception
    sent = arrays(page, "world")
    assert sent["weights"].shape == (8, 8, 8)
    assert sent["joined"].shape == (8, 32)
    np.testing.assert_allclose(sent["weights"].sum(-1), 1, atol=1e-5)
    np.testing.assert_allclose(sent["parts"].sum(1).shape, (8, 32))
    assert "8 × 64 = 512" in captions(page)
    assert "√512 = 22.63" in said(page)
    rows = payload(page, "relations")["rows"]
    assert [row["kind"] for row in rows] == ["found", "none", "none", "found", "everyone"]
    assert (sentences("pronoun")[0].glosses["ko"] in captions(page)) == (lang == "ko")


def test_the_picture_s_numbers_are_the_core_s(open_page):
    from attention_core.labs.many_heads import small_world

    page = open_page(PAGE, text="the cat saw the dog", world_heads="3", world_size="5", world_seed="2")
    world = small_world(("the", "cat", "saw", "the", "dog"), 3, 5, 2)
    sent = arrays(page, "world")
    for name, expected in (
        ("weights", world.trace.weights),
        ("values", world.values),
        ("joined", world.joined),
        ("parts", world.parts),
    ):
        np.testing.assert_allclose(sent[name], expected.numpy(), atol=1e-6)


def test_sliders_and_width_go_together(open_page):
    page = open_page(PAGE, lang="en")
    page.slider(key="world_heads").set_value(7).run()
    assert page.number_input(key="world_width").value == 28
    page.slider(key="world_size").set_value(3).run()
    assert page.number_input(key="world_width").value == 21
    assert link(page)["world_width"] == "21"
    page.number_input(key="world_width").set_value(35).run()
    assert page.slider(key="world_size").value == 5
    assert not page.warning
    assert arrays(page, "world")["joined"].shape == (8, 35)


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_heads_that_do_not_divide_the_width_are_explained(open_page, lang):
    page = open_page(PAGE, lang=lang)
    page.slider(key="world_heads").set_value(7).run()
    page.number_input(key="world_width").set_value(32).run()
    assert not page.exception
    assert "32 ÷ 7 = 4.57" in page.warning[0].value
    assert page.number_input(key="world_width").value == 28
    assert arrays(page, "world")["joined"].shape == (8, 28)
    page.slider(key="world_heads").set_value(2).run()
    assert not page.warning
    page.number_input(key="world_width").set_value(64).run()
    assert "16" in page.warning[0].value
    assert page.number_input(key="world_width").value == 8


def test_same_numbers_and_another_draw(open_page):
    page = open_page(PAGE, lang="en")
    before = arrays(page, "world")["weights"]
    page.toggle(key="world_alike").set_value(True).run()
    alike = arrays(page, "world")["weights"]
    np.testing.assert_array_equal(alike, np.broadcast_to(alike[:1], alike.shape))
    page.toggle(key="world_alike").set_value(False).run()
    page.segmented_control(key="world_seed").set_value(3).run()
    assert link(page)["world_seed"] == "3"
    assert not np.allclose(arrays(page, "world")["weights"], before)


def test_word_and_relation_are_picked(open_page):
    page = open_page(PAGE, lang="en")
    assert payload(page, "world")["labels"][payload(page, "world")["chosen"]] == "it"
    page = fire(page, "world", "picked", 3)
    assert (link(page)["world_word"], payload(page, "world")["chosen"]) == ("4", 3)
    page = fire(page, "relations", "picked", RELATIONS.index("previous"))
    assert link(page)["relation"] == "previous"
    assert "A head does it" in said(page)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("model", ["minilm", "smollm2"])
def test_the_head_is_shown_at_work(open_page, model, relation):
    page = open_page(PAGE, lang="en", model=model, relation=relation, example="2")
    assert not page.exception
    rows = payload(page, "relations")["rows"]
    row = rows[RELATIONS.index(relation)]
    shown = payload(page, drawn(page))
    assert shown["pinned"] is not None
    assert shown["queries"][shown["pinned"]].lower() in sentences(relation)[1].text.lower()
    assert f"{row['weight']:.2f}" in said(page)
    assert ("shares" in captions(page) or "share 3" in captions(page)) == (model == "smollm2")
    turned = model == "smollm2" and relation in ("object", "adjective")
    assert ("turned round" in captions(page)) == turned
    assert (row["name"] in ("object → verb", "noun → adjective")) == turned


def test_sentence_is_chosen(open_page):
    page = open_page(PAGE, lang="en")
    page.segmented_control(key="example").set_value(5).run()
    assert link(page)["example"] == "5"
    assert "tree" in payload(page, drawn(page))["keys"]
    page.segmented_control(key="model").set_value("smollm2").run()
    assert not page.exception
    assert "tree" in payload(page, drawn(page))["keys"]


def test_a_link_comes_back_identical(open_page):
    wanted = {
        "lang": "ko",
        "text": "나는 은행에서 돈을 찾았다",
        "model": "smollm2",
        "world_heads": "6",
        "world_size": "7",
        "world_width": "42",
        "world_seed": "4",
        "world_alike": "yes",
        "world_word": "2",
        "world_edits": "q.1.0.2_-0.5~x.0.1.3_7",
        "world_matrix": "k",
        "world_head": "4",
        "world_open": "yes",
        "relation": "object",
        "example": "9",
        "present": "no",
    }
    page = open_page(PAGE, **wanted)
    assert not page.exception
    assert link(page) == wanted


@pytest.mark.parametrize(
    ("bad", "default"),
    [
        ({"world_heads": "0"}, ("world_heads", "8")),
        ({"world_heads": "1e30"}, ("world_heads", "8")),
        ({"world_size": "NaN"}, ("world_size", "4")),
        ({"world_width": "-3"}, ("world_width", "32")),
        ({"world_width": "33"}, ("world_width", "32")),
        ({"world_width": "48"}, ("world_size", "6")),
        ({"world_seed": "<b>"}, ("world_seed", "1")),
        ({"world_word": "99"}, ("world_word", "6")),
        ({"relation": "cousin"}, ("relation", "pronoun")),
        ({"example": "77"}, ("example", "1")),
        ({"world_edits": "q.0.0.0_nan"}, ("world_matrix", "x")),
        ({"world_edits": "q.0.0.0_1e30~<b>"}, ("world_matrix", "x")),
        ({"world_edits": "x.0.500.2_1"}, ("world_edits", "x.0.500.2_1")),
        ({"world_matrix": "z"}, ("world_matrix", "x")),
    ],
    ids=str,
)
def test_links_that_say_nonsense(open_page, bad, default):
    page = open_page(PAGE, lang="en", **bad)
    assert not page.exception
    assert link(page)[default[0]] == default[1]


@pytest.mark.parametrize("text", ["x" * 5000, "?!", "</script><b>x</b> *it*", "word " * 900, "💩 it"], ids=range(5))
def test_odd_sentences(open_page, text):
    page = open_page(PAGE, lang="en", text=text)
    assert not page.exception
    labels = payload(page, "world")["labels"]
    assert 1 <= len(labels) <= 12
    assert max(map(len, labels)) <= 24
    if text.startswith("word"):
        assert "first 12 of your 900" in captions(page)


def typed(page, row, column, value):
    """Return the page after a number was typed into the grid (AppTest has no door for it)."""
    grid = next(e for e in page.dataframe if e.proto.editing_mode)
    states = page._tree.get_widget_states()
    state = states.widgets.add()
    state.id = grid.proto.id
    state.string_value = json.dumps({"edited_rows": {str(row): {column: value}}, "added_rows": [], "deleted_rows": []})
    return page._run(states)


def test_every_number_can_be_changed(open_page):
    page = open_page(PAGE, lang="en", world_matrix="v", world_head="3", world_open="yes")
    before = arrays(page, "world")
    page = typed(page, 4, "2", "5,0")
    assert not page.exception
    assert link(page)["world_edits"] == "v.2.4.1_5"
    after = arrays(page, "world")
    changed = np.abs(after["values"] - before["values"]).max(axis=1) > 1e-6
    assert np.argwhere(changed).tolist() == [[2, 1]]
    page.button(key="world_undo").click().run()
    assert "world_edits" not in link(page)
    np.testing.assert_array_equal(arrays(page, "world")["values"], before["values"])


@pytest.mark.parametrize("value", [None, "1e30", "abc", "", "nan", "-inf"])
def test_what_is_no_number_keeps_the_last_one(open_page, value):
    page = open_page(PAGE, lang="en", world_edits="x.0.1.2_-0.5", world_open="yes")
    before = arrays(page, "world")
    page = typed(page, 0, "1", value)
    assert not page.exception
    assert "1,000,000" in page.warning[0].value
    assert link(page)["world_edits"] == "x.0.1.2_-0.5"
    np.testing.assert_array_equal(arrays(page, "world")["joined"], before["joined"])


def test_every_exact_number_is_offered(open_page):
    page = open_page(PAGE, lang="en")
    assert not next(e for e in page.expander if e.label == "The numbers").dataframe  # not made for nobody
    expander = next(e for e in with_numbers(page, "many_heads").expander if e.label == "The numbers")
    assert len(expander.dataframe) == 8
    assert "The rule" in " ".join(m.value for m in next(e for e in page.expander if "judged" in e.label).markdown)
    assert "72" in said(page)


def test_door_to_the_sentence_page(open_page):
    page = open_page(PAGE, lang="en", model="smollm2", relation="object")
    door = next(e.proto for e in page.get("page_link") if "model=" in e.proto.query_string)
    assert door.page == "sentence"
    said = {key: values[0] for key, values in parse_qs(door.query_string).items()}
    row = payload(page, "relations")["rows"][RELATIONS.index("object")]
    assert row["head"] == f"layer {said['layer']} · head {said['head']}"
    there = open_page("pages/sentence.py", **said)
    assert not there.exception
    shown = payload(there, drawn(there))
    assert shown["queries"][shown["pinned"]] == sentences("object")[0].text.split()[sentences("object")[0].key]


@pytest.mark.usefixtures("own_models")
def test_nothing_is_found_in_a_model_that_was_never_trained(open_page):
    page = open_page(PAGE, lang="en", model="tiny-bert")
    assert not page.exception
    assert {row["kind"] for row in payload(page, "relations")["rows"]} == {"none"}


@pytest.mark.usefixtures("own_models")
def test_a_model_that_can_not_be_seen_keeps_the_small_world(open_page):
    page = open_page(PAGE, lang="en", model="tiny-fnet")
    assert not page.exception
    assert "can't be seen" in page.error[0].value
    assert arrays(page, "world")["weights"].shape == (8, 8, 8)
