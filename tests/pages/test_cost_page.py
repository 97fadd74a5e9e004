"""The page "Cost", as a reader drives it; every claim of its prompts."""

import math

import numpy as np
import pytest

from attention_core.labs import cost, timing
from pages.test_pages import captions, link, payload
from trigger import fire
from ui.lessons import cost as lesson

PAGE = "pages/cost.py"
LANGS = pytest.mark.parametrize("lang", ["en", "ko"])


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Short texts, so that a run takes no time."""
    monkeypatch.setattr(timing, "LENGTHS", (8, 16, 32))
    monkeypatch.setattr(timing, "_timings", type(timing._timings)())


def said(page):
    return " ".join(element.value for element in (*page.markdown, *page.caption)).replace("\\", "")


def written(page):
    return " ".join(element.proto.body for element in page.get("html"))


@LANGS
def test_the_table_has_the_numbers_of_the_link(open_page, lang):
    page = open_page(PAGE, lang=lang, cost_n="300", cost_d="128", cost_k="5", cost_r="8")
    assert not page.exception
    found = cost.costs([300], 128, 5, 8)
    table = next(element.proto.body for element in page.get("html") if "gaze-table" in element.proto.body)
    cells = [cell.split("</i> ")[1].split("<")[0] for cell in table.split("<td>")[1:]]
    wanted = np.stack([found.operations[:, 0], found.sequential[:, 0], found.path[:, 0]], axis=1)
    assert cells == [f"{number:,.0f}" for number in wanted.ravel()]
    assert "2.34" in said(page)  # 300 ÷ 128
    assert "90,000" in said(page) and "360,000" in said(page)


def test_twice_the_words(open_page):
    page = open_page(PAGE, lang="en", cost_n="512", cost_d="512")
    assert "exactly as much" in said(page)
    page.button(key="cost_double").click().run()
    assert link(page)["cost_n"] == "1024"
    assert "**2 times as much** as a recurrent layer" in said(page)
    for _ in range(10):
        page.button(key="cost_half").click().run()
    assert link(page)["cost_n"] == "1"
    assert page.button(key="cost_half").disabled
    assert not page.exception
    assert "One word has nobody to look at" in captions(page)


@pytest.mark.parametrize(
    "asked", [{"cost_n": "100001"}, {"cost_n": "0"}, {"cost_k": "1"}, {"cost_d": "77"}, {"walk": "5-2"}]
)
def test_what_can_not_be_asked_for_gets_the_default_and_a_note(open_page, asked):
    page = open_page(PAGE, lang="en", **asked)
    assert not page.exception
    (key,) = asked
    assert link(page)[key] != asked[key]
    assert f"The link says {key} = " in said(page)


@LANGS
def test_the_walks_are_those_of_the_core(open_page, lang):
    page = open_page(PAGE, lang=lang, text="a b c d e f g h i j", walk="2-10", cost_k="3", cost_r="4")
    assert not page.exception
    meta = payload(page, "walks")
    assert meta["ends"] == [1, 9]
    for lane in meta["lanes"]:
        assert lane["places"] == cost.walk(lane["kind"], 1, 9, 10, 3, 4)
        assert str(len(lane["places"]) - 1) in lane["said"]
    assert [len(lane["places"]) - 1 for lane in meta["lanes"]] == [1, 8, 3, 4]
    page = fire(page, "walks", "ends", [0, 4])
    assert link(page)["walk"] == "1-5"


@pytest.mark.parametrize("text", ["one", "word " * 500, "</script><b>x</b> $x$", "가 나 다", "🙂 🙂"])
def test_odd_sentences(open_page, text):
    page = open_page(PAGE, lang="en", text=text)
    assert not page.exception
    if len(text.split()) == 500:
        assert "words left out: 468" in captions(page)
        assert len(payload(page, "walks")["tokens"]) == lesson.WORDS


@LANGS
def test_a_measurement_runs_stops_goes_on_and_is_everybodys(open_page, monkeypatch, lang):
    monkeypatch.setattr(lesson, "PIECE", 0.0)
    page = open_page(PAGE, lang=lang, time_d="32", time_n="1024")
    assert not page.exception
    page.button(key="cost_start").click().run()
    page.button(key="cost_stop").click().run()
    monkeypatch.setattr(lesson, "PIECE", 60.0)
    page.button(key="cost_start").click().run()
    page.run()
    assert not page.exception
    work = timing.timing(32, 3, 1024, backward=False)
    assert work.done
    assert "100%" in said(page) or page.button(key="cost_again")
    measured = timing.slope(work.lengths, [float(x) for x in work.times().seconds[1]])
    assert f"**{measured:.2f}**" in said(page)
    other = open_page(PAGE, lang=lang, time_d="32", time_n="1024")
    assert other.button(key="cost_again")
    other.button(key="cost_again").click().run()
    assert timing.timing(32, 3, 1024, backward=False) is not work


def test_a_gpu_beside_the_cpu(open_page, monkeypatch):
    monkeypatch.setattr(timing, "devices", lambda: ("cpu", "cpu:0"))  # as where there is one
    page = open_page(PAGE, lang="en", time_n="1024")
    for device in timing.devices():
        work = timing.timing(64, 3, 1024, backward=False, device=device)
        while not work.done:
            work.step()
    page.run()
    assert not page.exception
    assert "attention · cpu:0: **" in said(page) and "attention · cpu: **" in said(page)
    page.session_state["cost_numbers"] = True
    page.run()
    assert not page.exception
    assert any(len(table.value.columns) == 7 for table in page.dataframe)


def test_beyond_what_is_measured(open_page):
    work = timing.timing(64, 3, 8192, backward=False)
    while not work.done:
        work.step()
    page = open_page(PAGE, lang="en", cost_n="64")
    assert "(64 ÷ 32)² = 4 times" in captions(page)
    assert "ends there" not in captions(open_page(PAGE, lang="en", cost_n="32"))


def test_every_number_is_offered(open_page):
    page = open_page(PAGE, lang="en")
    page.session_state["cost_numbers"] = True
    page.run()
    assert not page.exception
    assert len(page.dataframe) == 5


def test_what_the_prompts_promise():
    one, two = cost.costs([512, 1024], 512, 3, 4).operations[:2].T
    assert one[0] == one[1]
    assert two[0] == 2 * two[1] == 4 * one[0]
    assert (cost.tower(9, 3), cost.tower(10, 3)) == (2, 3)
    assert lesson._bytes(cost.weight_bytes(4096)) == "64 MiB"
    assert lesson._bytes(cost.weight_bytes(4096, 270)) == "16.88 GiB"
    assert math.floor(cost.weight_bytes(100_000) / 2**30) == 37
