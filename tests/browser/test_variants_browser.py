"""Variants in a real Chromium: tiles go forward and back without the server, and a pattern is painted."""

import re

from playwright.sync_api import expect

from browser.visits import query, rested, visits


def test_tiles_and_a_painted_pattern(app, browser):
    with visits(app, browser, "variants", "[data-gaze=pattern_board] canvas") as visit:
        page = visit(lang="en", text="the dog bit the man", var_text="sentence")
        tiles, board = page.locator("[data-gaze=flash_tiles]"), page.locator("[data-gaze=pattern_board]")
        expect(tiles).to_have_attribute("data-step", "4")  # seven tokens in tiles of four
        rested(page)
        page.frames_sent.clear()
        for name, step in (("One tile back", "3"), ("One tile back", "2"), ("One tile forward", "3")):
            tiles.get_by_role("button", name=name).click()
            expect(tiles).to_have_attribute("data-step", step)
        tiles.get_by_role("slider").fill("0")
        expect(tiles.locator(".said")).to_have_text("Nothing is read yet: every m is −∞, every l is 0.")
        tiles.get_by_role("button", name="Play").click()
        expect(tiles).to_have_attribute("data-step", "4", timeout=10_000)
        expect(tiles).to_have_attribute("data-running", "no")
        assert page.frames_sent == []

        before = board.get_attribute("data-cells")
        assert before.count("1") == 19  # each of seven and its neighbours
        canvas = board.locator("canvas")
        canvas.scroll_into_view_if_needed()
        box = canvas.bounding_box()
        page.mouse.move(box["x"] + box["width"] * 0.62, box["y"] + box["height"] * 0.9)
        cell = re.search(r"\d", board.locator(".told").inner_text() or "0")
        assert cell is not None
        page.mouse.down()
        page.mouse.up()
        page.wait_for_url(re.compile("paint="))
        expect(board).not_to_have_attribute("data-cells", before)
        rested(page)
        painted = query(page)["paint"]
        canvas.focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile(f"paint=(?!{painted}(&|$))"))
        rested(page)
        page.get_by_role("button", name="everything").click()
        expect(page.get_by_text(re.compile("Your pattern has 49 of 49 cells"))).to_be_visible()
        page.get_by_role("button", name="nothing", exact=True).click()
        expect(page.get_by_text(re.compile("An empty pattern lets nobody"))).to_be_visible()
        expect(board).to_have_attribute("data-cells", "1" * 49)
        rested(page)
