"""How a text is read, in a real browser: the box opens, typing in it draws, and closing it or the language keeps it."""

import re

from playwright.sync_api import expect

from browser.test_visit import query, rested, row, token, visit  # noqa: F401 - a fixture


def test_a_second_sentence_is_typed_while_the_box_stays_open(visit):  # noqa: F811
    page = visit("sentence", lang="en", text="I+ate+the+cake")
    box = page.get_by_role("textbox", name="Second sentence (B)")
    expect(box).to_have_count(0)
    page.get_by_role("button", name="How it is read").click()
    expect(box).to_be_visible()
    box.press_sequentially("it was sweet", delay=60)
    expect(token(page, "sweet")).to_be_visible()
    expect(box).to_have_value("it was sweet")
    expect(box).to_be_focused()
    page.keyboard.press("Escape")
    expect(box).to_have_count(0)
    rested(page)
    assert query(page)["second"] == "it was sweet"

    page.get_by_role("radio", name="A → B").click()
    expect(page.locator("[data-gaze=heatmap]")).to_have_attribute("data-cols", "3")
    expect(page.locator("[data-gaze=heatmap]")).to_have_attribute("data-rows", "4")
    expect(row(page)).to_have_attribute("data-sum", "1.0000")
    page.get_by_text("한국어").click()
    expect(page.get_by_text("읽는 방식")).to_be_visible()
    rested(page)
    assert (query(page)["second"], query(page)["segments"]) == ("it was sweet", "ab")
    page.get_by_role("button", name=re.compile("읽는 방식")).click()
    expect(page.get_by_role("textbox", name="둘째 문장(B)")).to_have_value("it was sweet")
