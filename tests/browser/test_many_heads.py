"""The page "Many heads" in a real Chromium: pointing costs no traffic, picking is quick, the link says it all."""

import re

import pytest
from playwright.sync_api import expect

from browser.visits import query, rested, visits


@pytest.fixture(scope="module")
def opened(app, browser):
    """The page, once for all tests of this file."""
    with visits(app, browser, "many_heads", "[data-gaze=token_links] button") as visit:
        yield visit(lang="en")


def heads(page):
    return page.locator("[data-gaze=head_concat]")


def test_pointing_lights_a_head_and_asks_nobody(opened):
    page = opened
    page.frames_sent.clear()
    blocks = heads(page).locator("canvas").nth(8)  # after the eight maps
    blocks.scroll_into_view_if_needed()
    box = blocks.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 2.5 / 8, box["y"] + box["height"] / 2)
    expect(heads(page)).to_have_attribute("data-head", "2")
    expect(heads(page).locator(".map.on")).to_have_count(1)
    expect(heads(page).locator(".status")).to_contain_text("of head 3")
    page.mouse.move(box["x"] + 4, box["y"] + box["height"] + 90)  # a bar of the output: what every head adds
    expect(heads(page).locator(".status")).to_contain_text("number 1 of the output")
    page.mouse.move(5, 5)
    expect(heads(page)).to_have_attribute("data-head", "")
    heads(page).locator(".map").nth(4).click()
    page.mouse.move(5, 5)
    expect(heads(page)).to_have_attribute("data-head", "4")
    page.keyboard.press("Escape")
    expect(heads(page)).to_have_attribute("data-head", "")
    page.wait_for_timeout(300)
    assert page.frames_sent == []


def test_word_relation_and_keys(opened):
    page = opened
    heads(page).get_by_role("radio", name="cake").click()
    page.wait_for_url(re.compile("world_word=4"))
    page.keyboard.press("ArrowLeft")
    page.wait_for_url(re.compile("world_word=3"))
    rows = page.locator("[data-gaze=relation_table] [role=radio]")
    expect(rows).to_have_count(5)
    rows.nth(3).click()
    page.wait_for_url(re.compile("relation=previous"))
    rested(page)
    expect(rows.nth(3)).to_have_attribute("aria-checked", "true")


def test_seven_heads_refuse_thirty_two(opened):
    page = opened
    width = page.get_by_role("spinbutton", name="d_model")
    page.get_by_role("slider").first.focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_url(re.compile("world_heads=7"))
    rested(page)
    expect(width).to_have_value("28")
    width.fill("32")
    width.press("Enter")
    expect(page.get_by_text("32 ÷ 7 = 4.57")).to_be_visible()
    expect(width).to_have_value("28")
    assert heads(page).get_attribute("data-joined") == "28"


def test_language_keeps_everything(opened):
    page = opened
    before = query(page)
    page.get_by_text("한국어", exact=True).click()
    expect(page.get_by_role("heading", name="한꺼번에 여러 시선으로")).to_be_visible()
    rested(page)
    assert query(page) == before | {"lang": "ko"}
    assert page.evaluate("(m => m.scrollWidth - m.clientWidth)(document.querySelector('[data-testid=stMain]'))") <= 0
