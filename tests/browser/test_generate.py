"""Generate in a real Chromium: it plays and is paused, two write at once, and a closed tab ends the work."""

import re

import psutil
import pytest
from playwright.sync_api import expect

from browser.visits import query, rested, visits

TEXT = "[data-gaze=written_text]"


@pytest.fixture
def visit(app, browser):
    with visits(app, browser, "generate", TEXT, "[data-testid=stExpander]") as visit:
        yield visit


def new(page):
    return int(page.locator(TEXT).get_attribute("data-new"))


def at_rest(app):
    """Wait until the server has nothing to do."""
    port = app.rpartition(":")[2]
    (server,) = [p for p in psutil.process_iter(["cmdline"]) if f"--server.port={port}" in (p.info["cmdline"] or ())]
    while server.cpu_percent(1) > 20:
        pass


def test_plays_is_paused_and_goes_back(visit):
    page = visit(lang="en", text="The+capital+of+Italy+is", tokens="150")
    page.get_by_role("button", name="Play").click()
    page.locator(f"{TEXT}:not([data-new='0']):not([data-new='1'])").wait_for()
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Play")).to_be_visible()
    rested(page)
    there = new(page)
    assert query(page)["steps"] == str(there)
    page.wait_for_timeout(900)
    assert new(page) == there
    heat = page.locator("[data-gaze=heatmap]").first
    expect(heat).to_have_attribute("data-pin", str(4 + there))  # the newest row of 5 + there
    assert page.locator("[data-gaze=cache_cells] .new").count() == 3  # one in each row, and the legend
    page.locator(f"{TEXT} [role=button]").first.click()
    expect(page.locator(TEXT)).to_have_attribute("data-new", "1")
    page.get_by_role("button", name="Step").click()
    expect(page.locator(TEXT)).to_have_attribute("data-new", "2")
    page.wait_for_url(re.compile("steps=2"))
    before = page.locator(TEXT).inner_text()
    page.get_by_text("한국어", exact=True).click()
    page.wait_for_url(re.compile("lang=ko"))
    rested(page)
    assert page.locator(TEXT).inner_text() == before
    assert "**" not in page.get_by_test_id("stMain").inner_text()
    assert not page.outside


def test_two_write_at_once(visit):
    pages = [visit(lang="en", text=text, tokens="12", steps="0") for text in ("One+summer+day", "In+the+deep+sea")]
    for page in pages:
        page.get_by_role("button", name="Play").click()
    for page in pages:
        expect(page.locator(TEXT)).to_have_attribute("data-new", "12")
        expect(page.get_by_role("button", name="Play")).to_be_visible()
    assert pages[0].locator(TEXT).inner_text().startswith("One summer day")
    assert pages[1].locator(TEXT).inner_text().startswith("In the deep sea")


@pytest.mark.parametrize("way", ["play", "link"])
def test_a_closed_tab_ends_the_work(app, visit, way):
    asked = {"lang": "en", "text": f"Far+away+there+is+a+{way}", "how": "sample", "tokens": "190"}
    page = visit(**asked)
    if way == "play":
        page.get_by_role("button", name="Play").click()
        page.locator(f"{TEXT}:not([data-new='0'])").wait_for()
    else:
        page.goto(page.url.replace("steps=0", "steps=190"))
        page.get_by_text(re.compile(r"Token \d+ of 190")).wait_for()
    page.context.close()
    at_rest(app)
    later = visit(**asked)
    later.goto(later.url.replace("steps=0", "steps=190"))
    later.get_by_text(re.compile(r"Token \d+ of 190")).wait_for()  # what had been written to the end would take no time
    later.context.close()
    at_rest(app)


def test_numbers_outlive_a_change_of_language(visit):
    """A slider tells the server the name of the choice, which is another one in another language."""
    page = visit(lang="en", kv_bytes="2", kv_preset="gpt2", groups="1")
    before = query(page)
    for language in ("한국어", "English", "한국어", "English"):
        page.get_by_text(language, exact=True).click()
        expect(page.locator("html")).to_have_attribute("lang", "ko" if language == "한국어" else "en")
        rested(page)
        assert query(page) | {"lang": "en"} == before, language
