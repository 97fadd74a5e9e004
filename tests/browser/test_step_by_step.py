"""The page "Step by step" in a real Chromium: hovering, arrow keys, typing into a cell."""

import re

import pytest
from playwright.sync_api import expect

from browser.visits import query, visits


@pytest.fixture
def visit(app, browser):
    with visits(app, browser, "step_by_step", "[data-gaze=matrices][data-cell]", height=1000) as visit:
        yield visit


def board(page):
    return page.locator("[data-gaze=matrices][data-cell]")


def told(page):
    return board(page).locator(".sum")


def cell(page, matrix, row, column, rows, columns):
    """Return where a cell is on the screen."""
    canvas = board(page).locator(f"canvas[data-matrix={matrix}]")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    return box["x"] + (column + 0.5) * box["width"] / columns, box["y"] + (row + 0.5) * box["height"] / rows


def at(page, cell):
    expect(page.locator(f"[data-gaze=matrices][data-cell='{cell}']")).to_be_visible()


def test_hovering_writes_the_arithmetic_without_the_server(visit):
    page = visit(lang="en", step="raw")
    expect(told(page)).to_contain_text("raw score “it” → “cake”")
    for part in ("4.00 × 2.00", "1.00 × 0.00", "thing", "someone", "8.00"):
        expect(told(page)).to_contain_text(part)
    page.frames_sent.clear()
    page.mouse.move(*cell(page, "raw", 1, 0, 8, 8))
    at(page, "raw,1,0")
    expect(told(page)).to_contain_text("“ate” → “I”")
    expect(told(page)).to_contain_text("2.00 × 2.00")
    expect(told(page)).to_contain_text("4.00")
    lit = board(page).locator(".plot:has(canvas[data-matrix=q]) .mark.band").first
    expect(lit).to_be_visible()  # the row of Q that it came from
    expect(board(page).locator(".plot:has(canvas[data-matrix=kt]) .mark.band").nth(1)).to_be_visible()
    page.mouse.move(5, 5)
    at(page, "raw,5,3")
    page.wait_for_timeout(200)
    assert page.frames_sent == []


def test_softmax_and_context_in_words_and_numbers(visit):
    page = visit(lang="en", step="weights")
    for part in ("e4.00", "54.60", "66.86", "0.82"):
        expect(told(page)).to_contain_text(part)
    expect(board(page).locator(".sums span")).to_have_text(["Σ 1.00"] * 8)
    page.get_by_role("button", name="Next").click()
    expect(page.locator("[data-gaze=matrices][data-stage=context-small]")).to_be_visible()
    expect(board(page).locator(".moved")).to_have_text("“it” moves towards V(cake): cosine 0.000 before, 0.997 after.")
    expect(told(page)).to_contain_text("0.82 × 1.00")
    pull = board(page).locator("svg .pull[data-word='3']")
    assert float(pull.get_attribute("stroke-width")) == pytest.approx(1.5 + 5 * 0.8166, abs=0.01)
    page.mouse.click(*cell(page, "weights", 0, 1, 8, 8))
    expect(board(page).locator(".moved")).to_contain_text("“I” moves towards V(ate)")
    page.wait_for_url(re.compile("query=0"))


def test_a_word_that_moves_away_is_not_said_to_move_towards(visit):
    page = visit(lang="en", step="context", world="equal")
    expect(board(page).locator(".moved")).to_contain_text(
        "cosine 1.000 before, 1.000 after. The angle stays as it was."
    )


def test_arrow_keys_turn_stages_but_not_inside_a_matrix_or_a_text(visit):
    page = visit(lang="en", step="raw")
    page.locator("h1").click()
    page.keyboard.press("ArrowRight")
    page.wait_for_url(re.compile("step=scaled"))
    page.keyboard.press("ArrowLeft")
    page.wait_for_url(re.compile("step=raw"))
    expect(page.locator("[data-gaze=matrices][data-stage=raw-small]")).to_be_visible()
    board(page).locator("canvas[data-matrix=raw]").focus()
    page.keyboard.press("ArrowLeft")
    at(page, "raw,5,2")
    page.keyboard.press("ArrowUp")
    at(page, "raw,4,2")
    page.get_by_role("textbox").first.focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_timeout(500)
    assert query(page)["step"] == "raw"


def test_a_typed_number_changes_what_follows(visit):
    page = visit(lang="en", step="q")
    page.mouse.click(*cell(page, "w_q", 3, 0, 4, 4))
    box = board(page).locator("input")
    expect(box).to_have_value("4")
    box.press("ArrowLeft")  # moves the caret, not the page
    box.fill("8")
    box.press("Enter")
    page.wait_for_url(re.compile("wq="))
    page.mouse.move(5, 5)
    assert query(page)["step"] == "q"
    assert query(page)["wq"].split("_")[12] == "8"
    expect(told(page)).to_contain_text("8.00")
    page.mouse.click(*cell(page, "w_q", 3, 0, 4, 4))
    box.fill("1e30")
    box.press("Enter")
    expect(told(page)).to_contain_text("“1e30” can't be used")
    assert query(page)["wq"].split("_")[12] == "8"


@pytest.mark.parametrize("real", ["no", "yes"])
def test_readable_on_a_phone(visit, real):
    page = visit(
        lang="ko", width=390, scheme="dark", step="context", real=real, text="I ate the cake and it was <b>x</b>"
    )
    wide = page.evaluate(
        "(() => { const m = document.querySelector('[data-testid=stMain]'); return m.scrollWidth - m.clientWidth })()"
    )
    assert wide <= 0
    assert board(page).locator("b", has_text="x").count() == 0
