"""Why √dₖ, as a reader uses it: every control, both languages, what can't be read, and links."""

import json
import math

import numpy as np
import pytest

from attention_core.labs import scaling as lab
from pages.test_pages import arrays, link, payload, with_numbers
from ui.lessons import scaling as lesson
from ui.text import FOLDER

PAGE = "pages/scaling.py"
RACE = "train-losses"


def said(page):
    return " ".join(e.value for e in [*page.markdown, *page.caption]).replace("\\", "")


def chart(page, key):
    """Return a chart as it is sent to the browser; AppTest gives charts no keys, so it is found by its id."""
    return next(json.loads(e.proto.spec) for e in page.get("plotly_chart") if e.proto.id.endswith(f"-{key}"))


def values(trace, axis="y"):
    found = trace[axis]
    if isinstance(found, dict):
        import base64

        return np.frombuffer(base64.b64decode(found["bdata"]), found["dtype"])
    return np.array(found)


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_opens_with_the_reference_values(open_page, lang):
    page = open_page(PAGE, lang=lang)
    assert not page.exception
    assert link(page)["dk"] == "64"
    assert "**0.87**" in said(page)
    assert "**0.36**" in said(page)
    assert "0.638" in said(page)
    assert "0.999" in said(page)


def test_size_moves_every_picture(open_page):
    page = open_page(PAGE, lang="en")
    for size in (1, 4096):
        page.select_slider(key="dk").set_value(size).run()
        assert not page.exception
        assert link(page)["dk"] == str(size)
        row = lab.random_row(size, 8, lab.SEED, 1.0)
        bars = chart(page, "dk-row")["data"]
        assert values(bars[0]) == pytest.approx(row.weights[0])
        assert values(bars[1]) == pytest.approx(row.weights[1])
        for name in ("largest", "entropy", "gradient"):
            assert chart(page, f"dk-{name}")["layout"]["shapes"][0]["x0"] == size
        assert f"√{size} = {math.sqrt(size):.2f}" in said(page)


def test_temperature_keys_and_seed(open_page):
    page = open_page(PAGE, lang="en")
    page.select_slider(key="dk_temperature").set_value("8").run()
    bars = chart(page, "dk-row")["data"]
    assert len(bars) == 3
    assert values(bars[0]) == pytest.approx(values(bars[2]), abs=1e-6)  # what "try this" promises
    page.slider(key="dk_keys").set_value(13).run()
    assert len(values(chart(page, "dk-row")["data"][0])) == 13
    before = values(chart(page, "dk-row")["data"][0])
    page.number_input(key="dk_seed").set_value(7).run()
    assert not np.allclose(values(chart(page, "dk-row")["data"][0]), before)
    assert not page.exception
    assert {"dk_temperature": "8", "dk_keys": "13", "dk_seed": "7"}.items() <= link(page).items()


def test_by_hand_begins_with_the_example(open_page):
    page = open_page(PAGE, lang="en", dk="4", dk_temperature="2")
    page.segmented_control(key="dk_world").set_value("hand").run()
    assert (link(page)["dk"], link(page)["dk_temperature"]) == ("64", "1")
    assert page.text_input(key="dk_scores").value == "16 8 0 -8"
    bars = chart(page, "dk-row")["data"]
    assert values(bars[1]) == pytest.approx([0.643914, 0.236883, 0.087144, 0.032059], abs=1e-6)
    assert "0.003 → 0.948" in said(page)
    page.text_input(key="dk_scores").set_value("16, 16; 0 −8").run()
    assert not page.exception
    assert "gradient 0.500" in said(page)
    assert open_and_compare(open_page, page)


@pytest.mark.parametrize("bad", ["", "a b", "1", "nan 1", "1e30 2", "inf 1", "9 " * 40, "x" * 5000, "<b>1</b> 2"])
def test_what_is_no_score_keeps_the_last_picture(open_page, bad):
    page = open_page(PAGE, lang="en", dk_world="hand", dk_scores="3 1 2")
    page.text_input(key="dk_scores").set_value(bad).run()
    assert not page.exception
    assert "Raw scores are 2 to 16 numbers" in said(page)
    assert values(chart(page, "dk-spread")["data"][1], "x") == pytest.approx([3, 1, 2])
    assert link(page)["dk_scores"] == "3 1 2"


@pytest.mark.parametrize(
    ("typed", "read"),
    [("16,8,0,-8", [16, 8, 0, -8]), ("16, 8; \u22128", [16, 8, -8]), ("1,5 2,5", [1.5, 2.5]), ("1.5  2", [1.5, 2])],
)
def test_scores_as_people_write_them(open_page, typed, read):
    page = open_page(PAGE, lang="en", dk_world="hand", dk_scores=typed)
    assert values(chart(page, "dk-spread")["data"][1], "x") == pytest.approx(read)


def test_real_head_off_on_and_other(open_page):
    page = open_page(PAGE, lang="en")
    own = values(chart(page, "real-weights")["data"][1])
    assert own.max() == pytest.approx(0.638, abs=0.002)
    page.select_slider(key="real_temperature").set_value("5.66").run()
    assert values(chart(page, "real-weights")["data"][0]) == pytest.approx(own, abs=1e-5)
    page.select_slider(key="real_temperature").set_value("1").run()
    page.segmented_control(key="real_factor").set_value("on").run()
    assert values(chart(page, "real-weights")["data"][0]) == pytest.approx(own)
    page.segmented_control(key="real_factor").set_value("other").run()
    page.select_slider(key="real_times").set_value("5.66").run()
    assert values(chart(page, "real-weights")["data"][0]).max() == pytest.approx(0.999, abs=0.002)
    assert not page.exception
    assert {"real_factor": "other", "real_times": "5.66"}.items() <= link(page).items()
    assert open_and_compare(open_page, page)


def test_query_layer_model_and_text(open_page):
    page = open_page(PAGE, lang="en")
    page.slider(key="real_row").set_value(2).run()
    assert "Where “I” looks" in said(page)
    page.slider(key="layer").set_value(2).run()
    page.segmented_control(key="model").set_value("smollm2").run()
    assert not page.exception
    assert chart(page, "real-entropy")["layout"]["shapes"][0]["x0"] == 0.5
    page.text_input(key="text").set_value("*b* <i>x</i> $y$").run()
    assert not page.exception
    page.text_input(key="text").set_value(" ").run()
    assert not page.exception
    assert "nothing to read" in said(page)


def test_training_runs_stops_and_ends(open_page):
    page = open_page(PAGE, lang="en", train_dk="8", train_seed="5")
    assert arrays(page, RACE)["losses"].shape == (2, lab.SEEDS, 1)
    assert page.button(key="train_stop").disabled
    page.button(key="train_start").click().run()
    first = arrays(page, RACE)["losses"].shape[2]
    page.run()
    assert arrays(page, RACE)["losses"].shape[2] == first + lab.PIECE
    page.button(key="train_stop").click().run()
    stopped = arrays(page, RACE)["losses"].shape[2]
    page.run()
    assert arrays(page, RACE)["losses"].shape[2] == stopped
    assert link(page)["train_steps"] == str(stopped - 1)
    page.button(key="train_start").click().run()
    for _ in range(lab.STEPS // lab.PIECE + 2):
        page.run()
    assert not page.exception
    assert link(page)["train_steps"] == str(lab.STEPS)
    assert not page.button(key="train_start").disabled
    assert payload(page, RACE)["seeds"] == [5, 6, 7]
    page.segmented_control(key="train_dk").set_value(64).run()
    assert arrays(page, RACE)["losses"].shape[2] == 1
    page.segmented_control(key="train_rate").set_value(16).run()
    page.number_input(key="train_seed").set_value(9).run()
    assert not page.exception
    assert {"train_dk": "64", "train_rate": "16", "train_seed": "9", "train_steps": "0"}.items() <= link(page).items()


def test_the_numbers_are_those_of_the_pictures(open_page):
    page = with_numbers(open_page(PAGE, lang="en", train_steps="15"), "scaling")
    assert [len(table.value) for table in page.dataframe] == [8, 13, 10, 10, 16]
    drawn = [values(trace, "y") for trace in chart(page, "real-weights")["data"][:2]]
    np.testing.assert_allclose(page.dataframe[2].value.to_numpy()[:, 4:].T.astype(float), drawn, atol=1e-6)
    np.testing.assert_allclose(
        page.dataframe[4].value.to_numpy()[:, 1:].astype(float), np.concatenate(list(arrays(page, RACE)["losses"])).T
    )


def test_a_finished_training_is_a_link(open_page):
    page = open_page(PAGE, lang="ko", train_steps="300")
    assert not page.exception
    assert arrays(page, RACE)["losses"].shape[2] == 301
    assert "98%" in said(page)


def open_and_compare(open_page, page):
    again = open_page(PAGE, **link(page))
    assert link(again) == link(page)
    for one, other in zip(page.get("plotly_chart"), again.get("plotly_chart"), strict=True):
        assert one.proto.spec == other.proto.spec
    return True


@pytest.mark.parametrize(
    ("bad", "default"),
    [
        ({"dk": "63"}, "64"),
        ({"dk": "8192"}, "64"),
        ({"dk_temperature": "0"}, "1"),
        ({"dk_temperature": "nan"}, "1"),
        ({"dk_keys": "999"}, "8"),
        ({"dk_world": "**b**"}, "random"),
        ({"dk_seed": "-1"}, str(lab.SEED)),
        ({"real_factor": "x"}, "off"),
        ({"real_row": "77"}, "7"),
        ({"train_dk": "513"}, "512"),
        ({"train_rate": "1e9"}, "4"),
        ({"train_steps": "100000"}, "0"),
    ],
    ids=str,
)
def test_what_does_not_exist_gets_the_default(open_page, bad, default):
    page = open_page(PAGE, lang="en", **bad)
    assert not page.exception
    assert link(page)[next(iter(bad))] == default
    assert "does not exist" in said(page)


def test_page_and_core_agree_on_what_there_is():
    for name in ("SIZES", "STEPS", "PIECE", "SEED", "DRAWS", "SEEDS"):
        assert getattr(lesson, name) == getattr(lab, name), name
    assert all(math.sqrt(size) in lesson.TEMPERATURES for size in lab.SIZES)
    assert all(lesson._exact(lesson._short(x)) == x for x in (*lesson.TEMPERATURES, *lesson.TIMES))
    assert len({lesson._short(x) for x in lesson.TEMPERATURES}) == len(lesson.TEMPERATURES)


def test_numbers_in_try_this_are_tested_ones():
    for lang in ("en", "ko"):  # tests/core/test_scaling.py checks each with the core
        text = (FOLDER / lang / "scaling.toml").read_text(encoding="utf-8")
        for number in ("0.87", "0.97", "0.36", "0.9997", "0.64", "0.638", "0.999", "5.66"):
            assert number in text, (lang, number)
