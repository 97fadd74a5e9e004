"""The wall of films in a real Chromium: posters grow, hovering stays in the browser, the blend is the weighted mean."""

import re

import numpy as np
import pytest
from playwright.sync_api import expect

from browser.visits import visits


def ground(page):
    """Return the colour that the blended poster has near its corner, where all posters show their ground."""
    expect(films(page)).to_have_attribute("data-mixed", re.compile(r"\d"))
    pixel = "c => [...c.getContext('2d').getImageData(2, 2, 1, 1).data].slice(0, 3)"
    return films(page).locator(".blend canvas").evaluate(pixel)


@pytest.fixture
def wall(app, browser):
    with visits(app, browser, "video_search", ".film_wall .cell", ".film_wall .ask") as visit:
        yield visit


def films(page):
    return page.locator(".film_wall.films")


def first_film(page):
    return films(page).locator(".cell.first").get_attribute("aria-label")


def test_a_new_query_moves_the_posters_where_they_are(wall):
    page = wall(lang="en")
    assert first_film(page) == "Ninth Moon Post"
    cells = films(page).locator(".cell")
    expect(cells).to_have_count(24)
    weights = [float(cell.get_attribute("data-weight")) for cell in cells.all()]
    assert sum(weights) == pytest.approx(1, abs=1e-5)
    page.wait_for_timeout(400)
    heights = [cell.locator(".poster").bounding_box()["height"] for cell in cells.all()]
    assert int(np.argmax(heights)) == int(np.argmax(weights))
    widths = [cell.locator(".bar").bounding_box()["width"] for cell in cells.all()]
    whole = cells.first.locator(".track").bounding_box()["width"]
    np.testing.assert_allclose(np.array(widths) / whole, weights, atol=0.02)
    before = films(page).bounding_box()["height"]
    box = page.get_by_label("Query (Q)")
    box.fill("무서운 귀신")
    expect(films(page).locator(".cell.first")).to_have_attribute("aria-label", "The Room That Breathes")
    expect(page).to_have_url(re.compile("q="))
    assert films(page).bounding_box()["height"] == pytest.approx(before, abs=40)


def test_hovering_says_tags_score_and_weight_in_the_browser_only(wall):
    page = wall(lang="en")
    page.wait_for_timeout(500)
    sent = len(page.frames_sent)
    assert sent > 0
    detail = films(page).locator(".detail")
    expect(detail).to_contain_text("Ninth Moon Post")
    films(page).locator(".cell[data-k='12']").hover()
    for said in ("The Room That Breathes", "horror", "haunted house", "q·k =", "1/0.05", "weight"):
        expect(detail).to_contain_text(said)
    films(page).locator(".cell[data-k='12']").focus()
    page.keyboard.press("ArrowRight")
    expect(films(page)).to_have_attribute("data-look", "15")
    page.wait_for_timeout(300)
    assert len(page.frames_sent) == sent


def test_the_blended_poster_is_the_weighted_mean(wall):
    page = wall(lang="en", search_temperature="0.2")
    dot = films(page).locator(".dot").first.get_attribute("title")
    np.testing.assert_allclose(ground(page), [int(part) for part in dot.split()], atol=1)
    hard = wall(lang="en", search="hard")
    assert ground(hard) == [0x1B, 0x24, 0x50]
    expect(films(hard).locator(".list")).to_contain_text("100%")


def test_words_take_the_place_of_films(wall):
    page = wall(lang="en")
    words = page.locator(".film_wall:not(.films)")
    expect(words.locator(".ask.on")).to_have_text("it")
    expect(words.locator(".cell.first")).to_have_attribute("aria-label", "cake")
    expect(words.locator(".list li").first).to_contain_text("64%")
    words.locator(".ask", has_text="delicious").click()
    expect(words.locator(".ask.on")).to_have_text("delicious")
    expect(page).to_have_url(re.compile(r"[?&]query=8(&|$)"))


def test_a_phone_has_nothing_sideways(wall):
    page = wall(width=390, lang="ko")
    assert page.get_by_test_id("stMain").evaluate("e => e.scrollWidth - e.clientWidth") <= 0
    assert films(page).evaluate("e => e.scrollWidth - e.clientWidth") <= 1
