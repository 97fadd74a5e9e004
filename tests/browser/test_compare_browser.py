"""The page "Compare" in a real Chromium: panes that look together, the map of heads, what travels in the link."""

import re

import pytest
from playwright.sync_api import expect

from browser.visits import query, rested, visits


@pytest.fixture(scope="module")
def opened(app, browser):
    """The page, once for all tests of this file."""
    with visits(app, browser, "compare", "[data-gaze=head_map] circle") as visit:
        yield visit(lang="en")


def dots(page):
    return page.locator("[data-gaze=head_map]")


def test_panes_look_at_a_word_together_and_ask_nobody(opened):
    page = opened
    page.frames_sent.clear()
    links, maps = page.locator("[data-gaze=token_links]"), page.locator("[data-gaze=heatmap]")
    expect(links).to_have_count(2)
    expect(maps).to_have_count(3)  # two panes and the difference
    links.nth(0).locator("button").nth(2).hover()
    expect(links.nth(1)).to_have_attribute("data-query", "2")
    expect(page.locator("[data-gaze=word_pairs]")).to_have_attribute("data-lit", "2")
    page.locator("[data-gaze=word_pairs] tbody tr").nth(5).hover()
    expect(links.nth(0)).to_have_attribute("data-query", "5")
    page.mouse.move(5, 5)
    expect(links.nth(0)).to_have_attribute("data-query", "")
    page.wait_for_timeout(300)
    assert page.frames_sent == []


def test_the_difference_says_both_weights(opened):
    page = opened
    canvas = page.locator("[data-gaze=heatmap]").nth(2).locator("canvas")
    canvas.scroll_into_view_if_needed()
    canvas.hover(position={"x": 10, "y": 10})
    tip = page.locator("[data-gaze=heatmap]").nth(2).locator(".tip")
    expect(tip.locator(".line.main")).to_contain_text("weight in A − weight in B")
    first, second = (float(tip.locator(".line", has_text=re.compile(f"^{name}")).inner_text()[1:]) for name in "AB")
    shown = float(tip.locator(".line.main span").nth(1).inner_text().replace("−", "-"))
    assert shown == pytest.approx(first - second, abs=2e-4)


def test_the_map_by_pointer_and_keyboard(opened):
    page = opened
    dots(page).scroll_into_view_if_needed()
    page.frames_sent.clear()
    dots(page).locator("circle[data-head='30']").hover(force=True)
    expect(dots(page).locator(".tip")).to_contain_text("layer 3, head 7")
    expect(dots(page)).to_have_attribute("data-at", "30")
    page.mouse.move(5, 5)
    expect(dots(page)).to_have_attribute("data-at", "")
    assert page.frames_sent == []
    dots(page).locator("svg").focus()
    page.keyboard.press("ArrowDown")
    expect(dots(page)).to_have_attribute("data-at", re.compile(r"\d"))
    at = int(dots(page).get_attribute("data-at"))
    assert at != 71
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(rf"[?&]layer={at // 12 + 1}&"))
    rested(page)
    assert query(page)["head"] == str(at % 12 + 1)
    dots(page).locator("circle[data-head='71']").click(force=True)
    page.wait_for_url(re.compile(r"[?&]layer=6&"))
    rested(page)


def test_a_nearest_head_opens_in_the_second_pane(opened):
    page = opened
    page.get_by_role("button", name=re.compile(r"^layer \d, head")).first.click()
    page.wait_for_url(re.compile("text_b=the\\+bank\\+and"))
    rested(page)
    assert dots(page).locator(".letter").all_text_contents() == ["A", "B"]


def test_what_stands_in_a_popover_is_what_is_shown(opened):
    page = opened
    page.get_by_role("button", name="View").click()
    for name in ("tokens", "weights"):
        expect(page.get_by_role("radio", name=name, exact=True)).to_be_checked()
    page.keyboard.press("Escape")


def test_settings_stay_open_and_the_language_keeps_everything(opened):
    page = opened
    settings = page.locator("[data-testid=stPopover] button", has_text="MiniLM").nth(1)
    settings.scroll_into_view_if_needed()
    page.wait_for_timeout(300)
    settings.click()
    page.wait_for_timeout(600)  # it slides into its place
    # not the least of the slider, which is what the browser has when nobody says more
    expect(page.get_by_test_id("stSliderThumbValue").last).to_have_text("1.00")
    page.get_by_text("Multiply by the factor").click()
    page.wait_for_url(re.compile("scaled_b=no"))
    expect(page.get_by_text("Multiply by the factor")).to_be_visible()
    expect(page.get_by_role("button", name="MiniLM-L6 · changed")).to_be_visible()
    page.keyboard.press("Escape")
    before = query(page)
    page.get_by_text("한국어", exact=True).click()
    expect(page.get_by_role("heading", name="무엇이 다를까?")).to_be_visible()
    rested(page)
    assert query(page) == before | {"lang": "ko"}
    assert page.evaluate("(m => m.scrollWidth - m.clientWidth)(document.querySelector('[data-testid=stMain]'))") <= 0


def test_a_text_that_nothing_is_left_of_takes_nothing_else_away(app, browser):
    with visits(app, browser, "compare", "[data-testid=stTextInput]") as visit:
        page = visit(lang="en", layer_b="3", text_b="the river")
        first, second = (page.get_by_label(name, exact=True) for name in ("Sentence A", "Sentence B"))
        for text in ("\u200b", "the bank and the money", "the bank and the bread"):
            first.fill(text)
            expect(page.get_by_text("tokeniser leaves nothing")).to_have_count(int(text == "\u200b"))
            rested(page)
        expect(second).to_have_value("the river")
        assert query(page)["text_b"] == "the river"
        assert query(page)["layer_b"] == "3"
