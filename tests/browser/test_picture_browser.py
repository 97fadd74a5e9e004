"""The page "Picture" in a real Chromium: pointing costs no traffic, keys and touch work, windows are picked."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from browser.server import serve
from browser.visits import rested, visits

WHOLE = 120_000  # milliseconds; a fresh server loads torch


@pytest.fixture(scope="module")
def opened(app, browser):
    """The page, once for all tests of this file; errors in the console fail the last of them."""
    marks = ("[data-gaze=picture_map] canvas",)
    with visits(app, browser, "picture", *marks, height=1000) as visit:
        yield visit(lang="en")


def picture_map(page):
    return page.locator("[data-gaze=picture_map]")


def point(page, side, row, column, grid=8):
    """Return where a patch is in the window."""
    canvas = picture_map(page).locator(f".{side} canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    return box["x"] + (column - 0.5) * box["width"] / grid, box["y"] + (row - 0.5) * box["height"] / grid


def colour(page, row, column, grid=8):
    """Return the colour of a patch of the right picture, beside its middle."""
    script = """(canvas, [r, c, n]) => [...canvas.getContext("2d").getImageData(
        (c - 0.3) * canvas.width / n, (r - 0.3) * canvas.height / n, 1, 1).data]"""
    return picture_map(page).locator(".to canvas").evaluate(script, [row, column, grid])


def test_pointing_asks_nobody(opened):
    page, own = opened, picture_map(opened)
    expect(own).to_have_attribute("data-query", "0")
    expect(own.locator(".status")).to_contain_text("[CLS] looks most at 3·6: 0.9")
    before = colour(page, 3, 6)
    page.frames_sent.clear()
    page.mouse.move(*point(page, "from", 6, 2))
    expect(own).to_have_attribute("data-query", str(1 + 5 * 8 + 1))
    expect(own.locator(".status")).to_contain_text("6·2 looks most at")
    page.mouse.move(*point(page, "to", 3, 6))
    expect(own).to_have_attribute("data-query", "0")  # nothing is pinned: [CLS] looks again
    expect(own.locator(".exact")).to_contain_text(re.compile(r"\[CLS\] → 3·6: weight 0\.9\d{3}"))
    accent = before[2] - before[0]
    assert accent > 60  # far from grey: covered by the accent
    empty = colour(page, 8, 1)
    assert abs(empty[2] - empty[0]) < 30
    page.mouse.move(5, 5)
    page.wait_for_timeout(300)
    assert page.frames_sent == []


def test_a_patch_is_pinned_and_stands_in_the_link(opened):
    page, own = opened, picture_map(opened)
    page.mouse.click(*point(page, "from", 2, 2))
    page.mouse.move(5, 5)
    expect(own).to_have_attribute("data-pin", "10")
    page.wait_for_url(re.compile("query=10"))
    own.locator(".from .chip").first.hover()
    expect(own).to_have_attribute("data-query", "0")
    page.mouse.move(5, 5)
    expect(own).to_have_attribute("data-query", "10")
    page.keyboard.press("Escape")
    expect(own).to_have_attribute("data-pin", "")


def test_keys(opened):
    page, own = opened, picture_map(opened)
    own.locator(".from canvas").focus()
    page.keyboard.press("ArrowRight")  # from 2·2, which was clicked last
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(own).to_have_attribute("data-pin", "19")
    own.locator(".to canvas").focus()
    page.keyboard.press("Home")
    expect(own.locator(".exact")).to_contain_text("weight 0.")
    expect(own).to_have_attribute("data-query", "19")
    page.keyboard.press("Escape")


def test_the_picture_is_saved(opened):
    page = opened
    with page.expect_download() as saved:
        picture_map(page).get_by_role("button", name="Save as PNG").click()
    assert saved.value.suggested_filename == "gaze-tiny-vit-shapes-layer-1-head-3.png"
    assert Path(saved.value.path()).read_bytes().startswith(b"\x89PNG")


def test_a_head_is_picked_and_the_pin_stays(opened):
    page, own = opened, picture_map(opened)
    page.mouse.click(*point(page, "from", 5, 5))
    expect(own).to_have_attribute("data-pin", "37")
    page.locator("[data-gaze=head_strip] [role=radio]").nth(0).click()
    page.wait_for_url(re.compile("picture_head=1"))
    rested(page)
    expect(own).to_have_attribute("data-pin", "37")
    page.keyboard.press("Escape")


@pytest.fixture(scope="module")
def windows():
    """The address of a map with windows."""
    address, process = serve(str(Path(__file__).with_name("picture_app.py")))
    yield address
    process.terminate()
    process.wait(10)


@pytest.mark.parametrize("touch", [False, True])
def test_windows(browser, windows, touch):
    context = browser.new_context(viewport={"width": 390 if touch else 900, "height": 900}, has_touch=touch)
    page = context.new_page()
    page.set_default_timeout(WHOLE)
    page.goto(windows)
    own = picture_map(page)
    page.get_by_text("window 3", exact=True).wait_for()
    go = page.touchscreen.tap if touch else page.mouse.click
    # The window's four patches are the picture's corners: no neighbours, so each sees itself alone.
    go(*point(page, "from", 1, 1, 4))
    expect(own).to_have_attribute("data-pin", "3")
    go(*point(page, "to", 4, 4, 4))
    expect(own.locator(".exact")).to_contain_text("1·1 → 4·4: masked")
    go(*point(page, "to", 1, 1, 4))
    expect(own.locator(".exact")).to_contain_text("1·1 → 1·1: weight 1.0000")
    go(*point(page, "from", 2, 2, 4))
    page.get_by_text("window 0", exact=True).wait_for()
    expect(own).to_have_attribute("data-window", "0")
    overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert overflow <= 0
    context.close()
