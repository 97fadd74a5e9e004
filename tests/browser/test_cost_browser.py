"""Cost in a real Chromium: news walks when played, a click moves an end, layers are timed live."""

import re

from playwright.sync_api import expect

from browser.visits import query, rested, visits


def test_news_walks_and_layers_are_timed(app, browser):
    with visits(app, browser, "cost", "[data-gaze=news_walk] svg") as visit:
        page = visit(lang="en", text="one two three four five six", time_n="1024", time_d="32")
        walk = page.locator("[data-gaze=news_walk]")
        expect(walk).to_have_attribute("data-steps", "1-5-2-3")
        lane = walk.locator(".lane")
        expect(lane.nth(1)).to_have_attribute("data-step", "5")  # at rest it has arrived
        walk.get_by_role("button").click()
        expect(walk).to_have_attribute("data-running", "yes")
        expect(lane.nth(0)).to_have_attribute("data-step", "1")
        expect(lane.nth(1)).to_have_attribute("data-step", "5", timeout=10_000)
        expect(walk).to_have_attribute("data-running", "no")
        lane.nth(1).locator(".spot").nth(4).click()
        page.wait_for_url(re.compile("walk=1-5"))
        expect(walk).to_have_attribute("data-steps", "1-4-2-2")
        rested(page)

        page.get_by_role("button", name="Start").click()
        expect(page.get_by_role("button", name="Measure again")).to_be_visible(timeout=60_000)
        expect(page.get_by_text(re.compile("attention: .* measured"))).to_be_visible()
        rested(page)
        page.get_by_role("button", name="2 × n").click()
        page.wait_for_url(re.compile("cost_n=2000"))
        expect(page.get_by_text(re.compile("2,000 words: 4,000,000 pairs"))).to_be_visible()
        assert query(page)["time_d"] == "32"
        rested(page)
