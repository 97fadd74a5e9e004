"""The page "Long text" in a real Chromium: dragging zooms, a click lights the text, pointing asks nobody."""

import re

import pytest
from playwright.sync_api import expect

from browser.visits import query, rested, visits

MARK = "[data-gaze=long_map] canvas"
# A region of 41 × 51 tokens, one by one.
REGION = {"lang": "en", "model": "minilm", "layer": "4", "head": "3", "long_queries": "101-141", "long_keys": "81-131"}


@pytest.fixture(scope="module")
def opened(app, browser):
    """The page, once for all tests of this file."""
    with visits(app, browser, "long_text", MARK) as visit:
        yield visit


def shown(page):
    return page.locator("[data-gaze=long_map]")


def at(page, row, column, rows, columns):
    """Where the middle of a tile is."""
    box = page.locator(MARK).bounding_box()
    return box["x"] + (column + 0.5) * box["width"] / columns, box["y"] + (row + 0.5) * box["height"] / rows


def test_a_link_pointing_picking_and_zooming(opened):
    page = opened(**REGION)
    assert {key: query(page)[key] for key in REGION} == REGION  # also after the wait for the model
    expect(shown(page)).to_have_attribute("data-region", "100-141-80-131")
    page.locator(MARK).scroll_into_view_if_needed()
    page.mouse.move(5, 5)
    page.wait_for_timeout(500)
    page.frames_sent.clear()
    page.mouse.move(*at(page, 7, 30, 41, 51))
    expect(shown(page)).to_have_attribute("data-row", "7")
    expect(shown(page)).to_have_attribute("data-column", "30")
    expect(shown(page).locator(".told")).to_contain_text("token 108")
    expect(shown(page).locator(".told")).to_contain_text("token 111")
    page.wait_for_timeout(300)
    assert page.frames_sent == []

    page.mouse.click(*at(page, 20, 11, 41, 51))
    page.wait_for_url(re.compile("tile=20-11"))
    rested(page)
    expect(shown(page)).to_have_attribute("data-picked", "20-11")
    page.mouse.move(5, 5)
    expect(shown(page).locator(".looks .on")).to_have_count(1)
    strong = [int(part.get_attribute("data-strong")) for part in shown(page).locator(".looks span").all()]
    assert len(strong) == 51
    assert max(strong) == 60

    page.mouse.move(*at(page, 10, 5, 41, 51))
    page.mouse.down()
    page.mouse.move(*at(page, 16, 20, 41, 51), steps=4)
    page.mouse.move(*at(page, 19, 29, 41, 51))
    page.mouse.up()
    page.wait_for_url(re.compile("long_queries=111-120"))
    expect(shown(page)).to_have_attribute("data-region", "110-120-85-110")
    rested(page)
    assert query(page)["long_keys"] == "86-110"
    page.get_by_role("button", name="Back").click()
    expect(shown(page)).to_have_attribute("data-region", "100-141-80-131")
    rested(page)
    page.get_by_role("button", name="Whole text").click()
    page.wait_for_url(re.compile("long_queries=1-"))
    rested(page)
    assert shown(page).get_attribute("data-region").startswith("0-")
    page.locator(MARK).focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Zoom into the tile")).to_be_visible()


def test_what_is_typed_is_only_text(opened):
    page = opened(lang="en", model="minilm", layer="6")
    box = page.get_by_role("textbox", name="Your text")
    text = "</script><b>x</b> $x$ **b** | " * 12
    box.fill(text)
    box.press("Control+Enter")
    expect(shown(page)).to_have_attribute("data-region", re.compile("^0-"))
    rested(page)
    page.get_by_text("The strongest links").wait_for()
    assert page.locator("b", has_text="x").count() == 0  # it is only text
    expect(shown(page).locator(".looks")).to_contain_text("</script><b>x</b> $x$ **b** |")
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


@pytest.mark.parametrize(("locale", "width"), [("ko-KR", 390), ("en-US", 390)])
def test_fits_a_phone(opened, locale, width):
    page = opened(locale=locale, width=width, scheme="dark")
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    box, text = page.locator(MARK).bounding_box(), shown(page).locator(".looks").bounding_box()
    assert box["width"] > 250
    assert text["y"] > box["y"] + box["height"]  # one below the other
    assert page.outside == []
