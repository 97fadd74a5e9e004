"""The page "All heads" in a real Chromium: the wall is painted, keys walk through it, pointing asks nobody."""

import re

import pytest
from playwright.sync_api import expect

from browser.visits import query, rested, visits

INK = """(canvas, [x, y, side]) => {
    const by = canvas.width / canvas.clientWidth;
    const pixels = canvas.getContext("2d").getImageData(x * by, y * by, side * by, side * by).data;
    return new Set(Array.from({ length: pixels.length / 4 }, (_, i) => pixels.slice(4 * i, 4 * i + 3).join())).size;
}"""


@pytest.fixture
def visit(app, browser):
    with visits(app, browser, "all_heads", "[data-gaze=head_wall][data-ready]:not([data-ready=''])") as visit:
        yield visit


def wall(page):
    return page.locator("[data-gaze=head_wall]:not(.store)")


def canvas(page):
    return wall(page).locator("canvas.map")


def spot(page, mark):
    """Return where a mark stands on the wall, and its side."""
    box, home = wall(page).locator(f".mark.{mark}").bounding_box(), canvas(page).bounding_box()
    return box["x"] - home["x"], box["y"] - home["y"], box["width"]


def sideways(page):
    return page.evaluate("(m => m.scrollWidth - m.clientWidth)(document.querySelector('[data-testid=stMain]'))")


def test_pointing_says_all_numbers_and_asks_nobody(visit):
    page = visit(lang="en")
    x, y, side = spot(page, "chosen")
    assert canvas(page).evaluate(INK, [x, y, side]) > 3  # a picture is there
    page.frames_sent.clear()
    box = canvas(page).bounding_box()
    for step in range(12):
        page.mouse.move(box["x"] + x - 10 * step, box["y"] + y + side / 2)
    page.mouse.move(box["x"] + x + side / 2, box["y"] + y + side / 2)
    tip = wall(page).locator(".tip")
    expect(tip).to_be_visible()
    expect(tip).to_contain_text("Layer 6, head 12")
    expect(tip).to_contain_text("mixed, 0.22")
    expect(tip).to_contain_text("mean distance")
    assert tip.locator("canvas").evaluate(INK, [1, 1, 140]) > 3
    page.mouse.move(5, 5)
    expect(tip).to_be_hidden()
    page.wait_for_timeout(300)
    assert page.frames_sent == []


def test_keys_walk_and_open(visit):
    page = visit(lang="en")
    heat = page.locator("[data-gaze=heatmap] canvas.map")
    before = heat.evaluate("canvas => canvas.toDataURL()")
    page.frames_sent.clear()
    canvas(page).focus()
    for key, cursor in (("Home", 0), ("ArrowRight", 1), ("ArrowRight", 2), ("ArrowDown", 14), ("ArrowUp", 2)):
        page.keyboard.press(key)
        expect(wall(page)).to_have_attribute("data-cursor", str(cursor))
    expect(wall(page).locator(".mark.cursor")).to_be_visible()
    expect(wall(page).locator(".tip")).to_contain_text("Layer 1, head 3")
    assert page.frames_sent == []
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Layer 1, head 3")).to_be_visible()
    page.wait_for_url(re.compile("head=3"))
    rested(page)
    assert query(page)["layer"] == "1"
    assert heat.evaluate("canvas => canvas.toDataURL()") != before
    page.keyboard.press("ArrowRight")  # the focus is still on the wall
    expect(wall(page)).to_have_attribute("data-cursor", "3")


def test_order_filter_click_and_language(visit):
    page = visit(lang="en", wall_order="previous", wall_layers="1-3")
    expect(wall(page)).to_have_attribute("data-shown", "36")
    box, (x, y, side) = canvas(page).bounding_box(), (5, 5, 20)
    page.mouse.click(box["x"] + x + side / 2, box["y"] + y + side / 2)  # the head that looks back most
    expect(page.get_by_role("heading", name="Layer 1, head 3")).to_be_visible()
    page.get_by_text("한국어", exact=True).click()
    expect(page.get_by_role("heading", name="1층 3번 헤드")).to_be_visible()
    rested(page)
    assert query(page) | {"lang": "en"} == query(page) | {"lang": "en", "wall_order": "previous", "wall_layers": "1-3"}
    expect(wall(page)).to_have_attribute("data-shown", "36")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone(visit, scheme):
    page = visit(width=390, scheme=scheme, lang="ko", model="smollm2", wall_order="induction")
    assert sideways(page) <= 0
    expect(wall(page)).to_have_attribute("data-shown", "270")
    assert canvas(page).bounding_box()["width"] <= 390


def test_five_hundred_tokens(visit):
    page = visit(lang="en", text="the cake was good, " * 150)
    expect(page.get_by_text("512 fit here")).to_be_visible()
    page.frames_sent.clear()
    box = canvas(page).bounding_box()
    for step in range(40):
        page.mouse.move(box["x"] + box["width"] * (0.1 + 0.02 * step), box["y"] + box["height"] / 2)
    expect(wall(page).locator(".tip")).to_be_visible()
    assert wall(page).get_attribute("data-hover-ms")
    assert page.frames_sent == []
