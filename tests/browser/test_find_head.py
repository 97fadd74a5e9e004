"""The page "Find a head" in a real Chromium: pointing costs no traffic, a pick is drawn, a file's run is stopped."""

import re

import pytest
from playwright.sync_api import expect

from browser.visits import rested, visits


@pytest.fixture(scope="module")
def opened(app, browser):
    """The page, once for all tests of this file."""
    with visits(app, browser, "find_head", "[data-gaze=head_ranking]") as visit:
        yield visit(lang="en")


def ranking(page):
    return page.locator("[data-gaze=head_ranking]")


def test_pointing_says_a_head_s_number_and_asks_nobody(opened):
    page = opened
    expect(ranking(page)).to_have_attribute("data-head", "71")
    page.frames_sent.clear()
    ranking(page).locator(".spot[data-head='37']").hover()
    expect(ranking(page).locator(".status")).to_contain_text("layer 4 · head 2: 0.466")
    page.mouse.move(5, 5)
    expect(ranking(page).locator(".status")).to_contain_text("layer 6 · head 12: 0.638")
    page.wait_for_timeout(300)
    assert page.frames_sent == []


def test_words_and_heads_are_clicked(opened):
    page = opened
    ranking(page).locator("[role=radio]").nth(1).click()
    page.wait_for_url(re.compile("find_place=2"))
    expect(page.get_by_text("Layer 4, head 2: from “it” to “cake”")).to_be_visible()
    ranking(page).locator(".spot[data-head='0']").click()
    expect(ranking(page).locator("[role=radio]")).to_have_count(11)
    expect(ranking(page).locator("[aria-checked=true]")).to_contain_text("layer 1 · head 1")
    rested(page)
    page.get_by_test_id("stButtonGroup").filter(has_text="To: the word").get_by_text("ate", exact=True).click()
    page.wait_for_url(re.compile("find_key=2"))
    page.wait_for_url(re.compile("find_place=1&|find_place=1$"))
    expect(page.get_by_role("heading", name=re.compile("from “it” to “ate”"))).to_be_visible()


def test_language_keeps_everything(opened):
    page = opened
    rested(page)
    before = page.url.split("?")[1]
    page.get_by_text("한국어", exact=True).click()
    expect(page.get_by_role("heading", name="거기를 보는 헤드는 누구?")).to_be_visible()
    rested(page)
    assert page.url.split("?")[1] == before.replace("lang=en", "lang=ko")
    assert page.evaluate("(m => m.scrollWidth - m.clientWidth)(document.querySelector('[data-testid=stMain]'))") <= 0
    assert "**" not in page.get_by_test_id("stMain").inner_text()
    page.get_by_text("English", exact=True).click()
    expect(page.get_by_role("heading", name="Which head looks there?")).to_be_visible()


def test_a_file_s_run_grows_stops_and_is_read(opened):
    page = opened
    rested(page)
    page.get_by_text("a file", exact=True).click()
    lines = "".join(f"Number {n}: I ate the cake and it was good\n" for n in range(2000)).encode()
    page.locator("input[type=file]").set_input_files({"name": "mine.txt", "mimeType": "text/plain", "buffer": lines})
    expect(page.get_by_text("Sentences: 2000")).to_be_visible()
    page.get_by_role("button", name="Ask all lines").click()
    expect(page.get_by_text(re.compile(r"[1-9]\d* of 2000 lines asked"))).to_be_visible()
    page.get_by_test_id("stMain").get_by_role("button", name="Stop").click()
    expect(page.get_by_role("button", name="Go on")).to_be_enabled()
    expect(ranking(page)).to_be_visible()
    rested(page)
    done = page.get_by_text(re.compile("of 2000 lines asked")).inner_text()
    assert int(done.split()[0]) < 2000
    page.wait_for_timeout(1000)
    assert page.get_by_text(re.compile("of 2000 lines asked")).inner_text() == done
    assert "mine" not in page.url
