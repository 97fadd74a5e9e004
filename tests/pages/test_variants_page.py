"""The page "Variants", as a reader drives it."""

import numpy as np
import pytest

from attention_core import compute
from attention_core.labs import flash
from pages.test_pages import arrays, captions, link, payload
from trigger import fire
from ui.lessons import variants as lesson

PAGE = "pages/variants.py"
LANGS = pytest.mark.parametrize("lang", ["en", "ko"])
TEXT = "I ate the cake and it was delicious"


def said(page):
    return " ".join(element.value for element in (*page.markdown, *page.caption)).replace("\\", "")


@pytest.fixture(autouse=True)
def untimed(monkeypatch):
    monkeypatch.setattr(lesson, "TIMED", 64)


@LANGS
@pytest.mark.parametrize("kind", lesson.WAYS)
def test_every_way(open_page, lang, kind):
    page = open_page(PAGE, lang=lang, variant=kind, var_text="sentence", var_layer="2", var_head="3")
    assert not page.exception
    number = next((int(box.value) for box in page.select_slider if box.key == f"var_{kind}"), 1)
    found = lesson._made(TEXT, 1, 2, kind, number, 1.0, 1)
    np.testing.assert_allclose(
        arrays(page, "heat-variants-made")["weights"], np.clip(found.weights, 0, None), atol=1e-6
    )
    np.testing.assert_allclose(arrays(page, "heat-variants-exact")["weights"].sum(axis=1), 1, atol=1e-5)
    assert f"**{found.error:.3f}**" in said(page)
    assert "**0" not in said(page).split("**0")[0]
    assert len(page.get("plotly_chart")) == (0 if kind == "linear" else 1)


@LANGS
def test_tiles_are_those_of_the_core(open_page, lang):
    page = open_page(PAGE, lang=lang, flash_rows="3", flash_columns="6", var_layer="5", var_head="7")
    assert not page.exception
    found = compute.run(flash.head_tiles, "minilm", TEXT, 512, 4, 6, (3, 6))
    sent, meta = arrays(page, "flash"), payload(page, "flash")
    np.testing.assert_array_equal(sent["maximum"], found.tiles.maximum)
    np.testing.assert_array_equal(sent["total"], found.tiles.total)
    np.testing.assert_array_equal(sent["context"], found.tiles.context[:, :, :3])
    assert meta["rows"] == [list(part) for part in found.tiles.rows]
    assert f"{found.difference:.1e}" in said(page)


@LANGS
def test_memory_that_is_too_small_is_explained(open_page, lang):
    page = open_page(PAGE, lang=lang, flash_fast="128", flash_n="1")
    assert not page.exception
    assert {"en": "does not hold a single tile", "ko": "하나도 들어가지"}[lang] in captions(page)
    page = open_page(PAGE, lang=lang, flash_fast="32768", flash_n="16384")
    numbers = flash.traffic(16_384, 64, 2**15)
    assert f"**{4 * numbers.dense / 2**20:,.3g} MiB**" in said(page)


@LANGS
def test_a_pattern_is_painted_and_is_a_link(open_page, lang):
    page = open_page(PAGE, lang=lang, text="a b c")
    assert not page.exception
    tokens = len(payload(page, "board")["tokens"])
    board = np.eye(tokens, dtype=bool)
    board[:, 2] = board[2] = True
    page = fire(page, "board", "painted", "".join("1" if cell else "0" for cell in board.ravel()))
    assert not page.exception
    np.testing.assert_array_equal(arrays(page, "board")["allowed"].astype(bool), board)
    reach = arrays(page, "board")["reach"]
    assert reach.max() == 2 and (reach > 0).all()
    again = open_page(PAGE, **link(page))
    np.testing.assert_array_equal(arrays(again, "board")["allowed"].astype(bool), board)
    assert "100%" in said(again)


@LANGS
def test_an_empty_pattern_is_explained_and_the_last_one_kept(open_page, lang):
    page = open_page(PAGE, lang=lang)
    page.button(key="rule_blocks").click().run()
    before = arrays(page, "board")["allowed"]
    page.button(key="rule_empty").click().run()
    assert not page.exception
    np.testing.assert_array_equal(arrays(page, "board")["allowed"], before)
    assert {"en": "An empty pattern", "ko": "빈 패턴"}[lang] in captions(page)
    page.button(key="rule_full").click().run()
    assert arrays(page, "board")["allowed"].all()
    assert "**0.000**" in said(page)  # everything: nothing is off


def test_rank_above_the_tokens_and_window_nothing(open_page):
    page = open_page(PAGE, lang="en", variant="low_rank", var_low_rank="256", var_text="sentence")
    assert "nothing is left out" in captions(page)
    assert "**0.000**" in said(page)
    page = open_page(PAGE, lang="en", variant="window", var_window="0", var_text="sentence")
    assert not page.exception
    assert "Some words never hear" in captions(page)


@pytest.mark.parametrize(
    "text", ["one", "", "word " * 600, "</script><b>x</b> $x$ **b** |", "나는 은행에서 돈을 찾았다", "🙂"]
)
def test_odd_sentences(open_page, text):
    page = open_page(PAGE, lang="en", text=text)
    assert not page.exception
    if len(text) > 1000:
        assert "Tile by tile it is drawn for at most 32" in captions(page)
        assert "The first 16 tokens are on the board" in captions(page)


@pytest.mark.parametrize(
    "asked", [{"variant": "magic"}, {"paint": "zz"}, {"paint": "1ff"}, {"var_window": "7"}, {"flash_n": "3"}]
)
def test_what_does_not_exist(open_page, asked):
    page = open_page(PAGE, lang="en", **asked)
    assert not page.exception
    (key,) = asked
    assert f"The link says {key} = " in said(page)


def test_another_draw_is_another_link(open_page):
    page = open_page(PAGE, lang="en", variant="lsh")
    before = arrays(page, "heat-variants-made")["weights"]
    page.button(key="var_again").click().run()
    assert link(page)["var_seed"] == "2"
    assert np.abs(arrays(page, "heat-variants-made")["weights"] - before).max() > 0


def test_every_number_is_offered(open_page):
    page = open_page(PAGE, lang="en", var_text="sentence")
    page.session_state["variants_numbers"] = True
    page.run()
    assert not page.exception
    assert len(page.dataframe) == 6
