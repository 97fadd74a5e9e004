"""The page "Step by step", as a reader drives it."""

import numpy as np
import pytest

from attention_core import compute
from attention_core.labs.step_by_step import made, small_world, split
from pages.test_pages import arrays as sent_arrays
from pages.test_pages import captions, link, payload, with_numbers
from trigger import fire
from ui.controls import EXAMPLE
from ui.lessons.step_by_step import STAGES, WORLDS

PAGE = "pages/step_by_step.py"
SENTENCE, _ = split(EXAMPLE)
IT, CAKE = 5, 3


def arrays(page):
    """Return the arrays that the matrices were sent."""
    return sent_arrays(page, "matrices")


def meta(page):
    return payload(page, "matrices")


def said(page):
    return " ".join(m.value for m in page.markdown)


def edit(page, matrix, row, column, text):
    return fire(page, "matrices", "edited", {"matrix": matrix, "row": row, "column": column, "text": text})


@pytest.mark.parametrize(("real", "lang"), [("no", "en"), ("yes", "ko")])
@pytest.mark.parametrize("step", STAGES)
def test_every_stage_shows_its_matrices_and_their_shapes(open_page, step, real, lang):
    page = open_page(PAGE, lang=lang, step=step, real=real)
    assert not page.exception
    shown, sent = meta(page), arrays(page)
    for matrix in shown["matrices"]:
        rows, columns = sent[matrix["id"]].shape
        assert len(matrix["rows"]) in (rows, 0)
        assert len(matrix["columns"]) in (columns, 0)
    if shown["kind"] == "product":
        first, second, last = (sent[m["id"]].astype(float) for m in shown["matrices"])
        np.testing.assert_allclose(first @ second + sent.get("bias", 0), last, atol=2e-4)
    if shown["kind"] == "softmax":
        np.testing.assert_allclose(sent["weights"].sum(axis=1), 1, atol=1e-6)
    if shown["kind"] == "scale":
        np.testing.assert_allclose(sent["raw"] / np.sqrt(32 if real == "yes" else 4), sent["scaled"], atol=1e-5)
    assert link(page)["step"] == step


def test_begins_where_it_looks_at_cake(open_page):
    page = open_page(PAGE, lang="en", step="weights")
    assert meta(page)["at"] == [IT, CAKE]
    assert arrays(page)["weights"][IT, CAKE] == pytest.approx(0.82, abs=0.005)
    real = open_page(PAGE, lang="en", step="weights", real="yes")
    assert meta(real)["at"] == [6, 4]
    assert arrays(real)["weights"][6, 4] == pytest.approx(0.638, abs=0.005)


def test_buttons_turn_the_stages(open_page):
    page = open_page(PAGE, lang="en")
    assert page.button(key="step_previous").disabled
    for step in STAGES[1:]:
        page.button(key="step_next").click().run()
        assert link(page)["step"] == step
        assert meta(page)["stage"] == f"{step}-small"
    assert page.button(key="step_next").disabled
    page.button(key="step_previous").click().run()
    assert link(page)["step"] == STAGES[-2]
    page.segmented_control(key="step").set_value("q").run()
    assert meta(page)["stage"] == "q-small"


@pytest.mark.parametrize("world", WORLDS)
def test_worlds(open_page, world):
    page = open_page(PAGE, lang="en", step="weights")
    page.segmented_control(key="world").set_value(world).run()
    assert not page.exception
    expected = small_world(SENTENCE, 0, world, 0, (None,) * 4, True).arrays["weights"]
    np.testing.assert_array_equal(arrays(page)["weights"], expected)
    assert link(page)["world"] == world


def test_random_world_is_drawn_again_and_the_seed_travels(open_page):
    page = open_page(PAGE, lang="en", step="q", world="random", draw="41")
    before = arrays(page)["w_q"]
    page.button(key="draw_again").click().run()
    assert link(page)["draw"] == "42"
    assert "seed 42" in captions(page)
    assert (arrays(page)["w_q"] != before).any()
    again = open_page(PAGE, **link(page))
    np.testing.assert_array_equal(arrays(again)["w_q"], arrays(page)["w_q"])


def test_division_is_switched_off(open_page):
    page = open_page(PAGE, lang="en", step="weights")
    page.toggle(key="divide").set_value(False).run()
    assert arrays(page)["weights"][IT, CAKE] == pytest.approx(0.99, abs=0.005)
    assert link(page)["divide"] == "no"
    page.segmented_control(key="step").set_value("scaled").run()
    assert meta(page)["scaling"] == "× 1"


def test_switch_to_the_real_head_and_back(open_page):
    page = open_page(PAGE, lang="en", step="raw", query="3")
    page.toggle(key="real").set_value(True).run()
    assert not page.exception
    assert meta(page)["pinned"] is None  # another word stands in that row now
    assert page.segmented_control(key="world").disabled
    trace = compute.run(lambda: compute._seen("minilm", EXAMPLE, 512).trace(5, 11))
    np.testing.assert_allclose(arrays(page)["raw"], trace.raw.numpy(), atol=1e-5)
    page.toggle(key="real").set_value(False).run()
    assert meta(page)["stage"] == "raw-small"


@pytest.mark.parametrize(
    ("step", "matrix", "parameter"), [("x", "x", "x"), ("q", "w_q", "wq"), ("k", "w_k", "wk"), ("v", "w_v", "wv")]
)
def test_a_number_that_is_changed_changes_what_follows_and_travels(open_page, step, matrix, parameter):
    page = open_page(PAGE, lang="en", step=step)
    assert [m["id"] for m in meta(page)["matrices"] if m["edit"]] == [matrix]
    assert parameter not in link(page)
    before = arrays(page)
    page = edit(page, matrix, 3, 1, "-2.5")
    after = arrays(page)
    assert after[matrix][3, 1] == -2.5
    assert (after[matrix] != before[matrix]).sum() == 1
    if step != "x":
        assert (after[step] != before[step]).any()
    assert len(link(page)[parameter].split("_")) == after[matrix].size
    again = open_page(PAGE, **link(page))
    np.testing.assert_array_equal(arrays(again)[matrix], after[matrix])
    again.button(key="reset").click().run()
    np.testing.assert_array_equal(arrays(again)[matrix], before[matrix])
    assert parameter not in link(again)


@pytest.mark.parametrize("typed", ["1,5", " 1.5 ", "+1.5", "15e-1", "1.5"])
def test_ways_to_write_a_number(open_page, typed):
    page = edit(open_page(PAGE, lang="en", step="q"), "w_q", 0, 0, typed)
    assert arrays(page)["w_q"][0, 0] == 1.5
    assert meta(page)["refused"] is None


def test_a_true_minus_is_a_minus(open_page):
    page = edit(open_page(PAGE, lang="en", step="q"), "w_q", 0, 0, "−3")
    assert arrays(page)["w_q"][0, 0] == -3


@pytest.mark.parametrize("lang", ["en", "ko"])
@pytest.mark.parametrize("typed", ["abc", "", "1e30", "nan", "inf", "-inf", "<b>1</b>", "1" * 400, "１０00001"])
def test_what_is_no_number_is_refused_and_the_old_one_stays(open_page, typed, lang):
    page = open_page(PAGE, lang=lang, step="q")
    page = edit(page, "w_q", 3, 0, "5")
    page = edit(page, "w_q", 3, 0, typed)
    assert not page.exception
    assert arrays(page)["w_q"][3, 0] == 5
    assert typed[:40] in meta(page)["refused"]
    assert ("number" in meta(page)["refused"]) == (lang == "en")
    page.segmented_control(key="step").set_value("k").run()
    assert meta(page)["refused"] is None


@pytest.mark.parametrize(
    "event",
    [
        {"matrix": "raw", "row": 0, "column": 0, "text": "1"},
        {"matrix": "w_q", "row": 77, "column": 0, "text": "1"},
        {"matrix": "w_q", "row": "x", "column": None, "text": "1"},
        {"matrix": "w_q", "row": 0, "column": 0},
        {},
        "nonsense",
    ],
    ids=str,
)
def test_an_event_that_makes_no_sense_changes_nothing(open_page, event):
    page = open_page(PAGE, lang="en", step="q")
    before = arrays(page)["w_q"]
    page = fire(page, "matrices", "edited", event)
    assert not page.exception
    np.testing.assert_array_equal(arrays(page)["w_q"], before)
    assert "wq" not in link(page)


@pytest.mark.parametrize(
    "bad",
    [
        {"wq": "1_2_nan"},
        {"wk": "_".join(["1e30"] * 16)},
        {"wv": "_".join(["nan"] * 16)},
        {"x": "_".join(["1"] * 28)},
        {"x": "**b**"},
        {"step": "nonsense"},
        {"world": "nonsense"},
        {"draw": "-1", "world": "random"},
        {"divide": "perhaps"},
        {"real": "perhaps"},
    ],
    ids=str,
)
def test_what_does_not_exist_in_a_link_gets_the_default_and_a_note(open_page, bad):
    page = open_page(PAGE, lang="en", **bad)
    assert not page.exception
    assert "does not exist" in captions(page)
    if "world" not in bad:
        assert arrays(page)["x"][CAKE].tolist() == [1, 0, 0, 0]


def test_a_link_comes_back_identical(open_page):
    wanted = {
        "lang": "ko",
        "text": "the zebra saw it & ran 100% +1",
        "present": "yes",
        "step": "context",
        "world": "random",
        "draw": "7",
        "divide": "no",
        "real": "no",
        "wq": "_".join(["0.5"] * 16),
        "x": "_".join(["1"] * 32),
        "query": "3",
    }
    page = open_page(PAGE, **wanted)
    assert not page.exception
    assert link(page) == wanted
    assert meta(page)["pinned"] == 3
    assert meta(page)["queries"] == ["the", "zebra", "saw", "it", "&", "ran", "100%", "+1"]


def test_another_sentence_keeps_w_and_drops_the_numbers_of_other_words(open_page):
    page = open_page(PAGE, lang="en", step="x")
    page = edit(page, "x", 0, 0, "9")
    page.segmented_control(key="step").set_value("q").run()
    page = edit(page, "w_q", 0, 0, "7")
    page.text_input(key="text").set_value("We ate the bread and it was good").run()
    assert not page.exception
    assert arrays(page)["w_q"][0, 0] == 7
    assert arrays(page)["x"][0].tolist() == [0, 1, 0, 0]
    assert "x" not in link(page)


def test_another_world_drops_the_changes(open_page):
    page = edit(open_page(PAGE, lang="en", step="q"), "w_q", 0, 0, "7")
    page.segmented_control(key="world").set_value("equal").run()
    assert arrays(page)["w_q"].tolist() == [list(row) for row in made("cake", SENTENCE).w_q]


def test_no_more_than_eight_words(open_page):
    page = open_page(PAGE, lang="en", text="a b c d e f g h i j k")
    assert len(meta(page)["queries"]) == 8
    assert "last 3 are left out" in captions(page)
    real = open_page(PAGE, lang="en", real="yes", text="cake " * 1000)
    assert len(meta(real)["queries"]) <= 16
    assert "words are left out" in captions(real)


@pytest.mark.parametrize(("real", "lang"), [("no", "ko"), ("yes", "en")])
@pytest.mark.parametrize(
    "text",
    ["</script><b>x</b>", "$x^2$ **b** |a| `c`", "مرحبا بالعالم", "💩 👨‍👩‍👧", "x" * 5000, "it", "it it it", "= + - @"],
    ids=range(8),
)
def test_odd_text(open_page, text, real, lang):
    page = open_page(PAGE, lang=lang, text=text, real=real, step="context")
    assert not page.exception
    np.testing.assert_allclose(arrays(page)["weights"].sum(axis=1), 1, atol=1e-6)


def test_text_without_a_word_shows_the_example(open_page):
    page = open_page(PAGE, lang="en", text="\u200b\u200b")
    assert not page.exception
    assert "no word to read" in captions(page)
    assert meta(page)["queries"] == list(SENTENCE)


def test_blank_text_keeps_the_last_sentence(open_page):
    page = open_page(PAGE, lang="en", text="hello it")
    page.text_input(key="text").set_value("  ").run()
    assert not page.exception
    assert meta(page)["queries"] == ["hello", "it"]


def test_language_changes_words_and_nothing_else(open_page):
    page = open_page(PAGE, lang="en", step="k", world="random", draw="3")
    before, sent = link(page), arrays(page)
    page.segmented_control(key="lang").set_value("ko").run()
    assert link(page) == before | {"lang": "ko"}
    for name, values in sent.items():
        np.testing.assert_array_equal(arrays(page)[name], values)


@pytest.mark.parametrize(("real", "tables"), [("no", 11), ("yes", 3)])
def test_the_numbers_are_there_as_tables(open_page, real, tables):
    page = with_numbers(open_page(PAGE, lang="en", step="context", real=real), "step_by_step")
    assert len(page.dataframe) == tables
    values = page.dataframe[-1].value.to_numpy()[:, 1:].astype(float)
    np.testing.assert_allclose(values, arrays(page)["context"], atol=1e-6)


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_prompts_and_question_are_there(open_page, lang):
    page = open_page(PAGE, lang=lang)
    assert said(page).count("\n- ") == 8
    assert "it" in page.markdown[0].value or "it" in said(page)


@pytest.mark.parametrize(
    ("query", "true"),
    [
        ({"step": "x"}, True),
        ({"step": "x", "text": "we ate bread"}, False),
        ({"step": "x", "x": "_".join(["1"] * 32)}, False),
        ({"step": "q"}, True),
        ({"step": "q", "wq": "_".join(["1"] * 16)}, False),
        ({"step": "k", "world": "random"}, False),
        ({"step": "k", "world": "identity"}, False),
    ],
    ids=str,
)
def test_what_is_said_of_the_hand_made_numbers_is_said_of_them_alone(open_page, query, true):
    text = said(open_page(PAGE, lang="en", **query))
    claims = ("says only one thing of itself", "asks for a *thing*", "offers itself as a *thing*")
    assert any(claim in text for claim in claims) == true
