"""Position in a real Chromium: shuffled words, turned arrows, a length that is moved."""

import re

from playwright.sync_api import expect

from browser.visits import query, rested, visits


def test_shuffling_turning_and_asking_for_long_texts(app, browser):
    with visits(app, browser, "position", "[data-testid=stExpander]") as visit:
        page = visit(lang="en", text="the dog bit the man")
        expect(page.get_by_text(re.compile("the same 32 numbers"))).to_be_visible()
        expect(page.locator("[data-gaze=heatmap] canvas").first).to_be_visible()
        page.get_by_text("ALiBi", exact=True).first.click()
        page.wait_for_url(re.compile("way=alibi"))
        expect(page.get_by_text(re.compile("Now the order counts"))).to_be_visible()
        expect(page.locator(".js-plotly-plot")).to_have_count(5)
        rested(page)
        page.get_by_role("button", name="Shuffle").click()
        page.wait_for_url(re.compile("pos_seed=2"))
        rested(page)

        said = page.get_by_text(re.compile("the distance is 2 and the raw score"))
        before = re.search(r"raw score (\S+)\. Of it", said.inner_text())[1]
        page.get_by_role("button", name="Both one place on").click()
        page.wait_for_url(re.compile("turn_m=6"))
        expect(said).to_contain_text(f"At m = 6 and n = 4 the distance is 2 and the raw score {before}")
        rested(page)
        page.get_by_text("Squeeze positions into 32").click()
        page.wait_for_url(re.compile("long_stretch=yes"))
        expect(page.get_by_text(re.compile(r"Right at length 64:.*RoPE (9\d|100)%"))).to_be_visible()
        assert query(page)["way"] == "alibi"
        rested(page)
