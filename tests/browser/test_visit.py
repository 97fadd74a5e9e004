"""The app in a real Chromium: typing, choosing, hovering, pinning, language, link, and what leaves the machine."""

import re

import pytest
from playwright.sync_api import expect

from browser.visits import query, rested, visits


@pytest.fixture
def visit(app, browser):
    with visits(app, browser, "", "[data-gaze=token_links] button") as visit:
        yield visit


def token(page, word):
    return (
        page.locator("[data-gaze=token_links] button").filter(has_text=re.compile(rf"^\s*{re.escape(word)}\s*$")).first
    )


def row(page):
    return page.locator("[data-gaze=row_in_full]")


def test_home_says_it_looks_at_cake(visit):
    page = visit("")
    expect(page.get_by_text("Layer 6, head 12:")).to_contain_text("“it” looks at “cake” with weight 0.64")
    expect(page.locator("[data-gaze=token_links]")).to_contain_text("0.64")
    page.get_by_test_id("stMain").get_by_role("link", name="Sentence").click()
    expect(page.get_by_role("heading", name="Who looks at whom?")).to_be_visible()


def test_typing_moves_the_picture_and_the_link(visit):
    page = visit("sentence")
    page.get_by_role("textbox").fill("the trophy is big")
    expect(token(page, "trophy")).to_be_visible()
    rested(page)
    assert query(page)["text"] == "the trophy is big"
    expect(page.get_by_text("Tokens: 6")).to_be_visible()


def test_hovering_and_pinning_never_ask_the_server(visit):
    page = visit("sentence")
    page.frames_sent.clear()
    token(page, "it").hover()
    expect(page.locator("[data-gaze=token_links]")).to_contain_text("0.64")
    expect(row(page)).to_contain_text("0.6378")
    token(page, "cake").click()
    expect(row(page)).to_contain_text("“cake”")
    page.wait_for_url(re.compile("query=4"))
    page.keyboard.press("ArrowDown")
    expect(row(page)).to_contain_text("“and”")
    page.keyboard.press("Escape")
    page.mouse.move(5, 5)
    page.wait_for_url(lambda url: "query=" not in url)
    page.locator("[data-gaze=heatmap] canvas").first.hover()
    page.wait_for_timeout(300)
    assert page.frames_sent == []


def test_the_row_says_where_every_number_comes_from(visit):
    page = visit("sentence", query="6")
    text = row(page).inner_text()
    for number in ("22.1974", "3.9240", "0.6378", "1.0000", "1/√32"):
        assert number in text, number


def test_layer_and_head(visit):
    page = visit("sentence", query="6")
    page.get_by_test_id("stSlider").locator("input, [role=slider]").first.focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_url(re.compile("layer=5"))
    rested(page)
    page.locator("[data-gaze=head_strip] [role=radio]").nth(1).click()
    page.wait_for_url(re.compile("head=2"))
    rested(page)
    assert (query(page)["layer"], query(page)["head"]) == ("5", "2")
    assert query(page)["query"] == "6"  # the pin stays when another head is looked at
    expect(row(page)).to_contain_text("“it”")


def test_language_is_switched_without_losing_anything(visit):
    page = visit("sentence", model="smollm2", layer="18", head="1", unit="word", query="5")
    before = query(page)
    page.get_by_text("한국어", exact=True).click()
    expect(page.get_by_role("heading", name="누가 누구를 바라볼까?")).to_be_visible()
    rested(page)
    assert query(page) == before | {"lang": "ko"}
    assert page.evaluate("document.documentElement.lang") == "ko"
    page.goto(page.url.split("?")[0])  # a later visit, without a word about the language
    expect(page.get_by_role("heading", name="누가 누구를 바라볼까?")).to_be_visible()


def test_a_korean_browser_gets_korean(visit):
    page = visit("", locale="ko-KR")
    expect(page.get_by_role("heading", name="단어들이 서로를 바라보는 법")).to_be_visible()


def test_a_link_comes_back_identical(visit, browser, app):
    page = visit(
        "sentence", text="나는 은행에서 돈을 찾았다 %26 100%25", layer="3", head="4", show="raw", special="hidden"
    )
    token(page, "나 ¹⁄₂").click()
    page.wait_for_url(re.compile("query=0"))
    again = page.context.new_page()
    again.marks = page.marks
    again.goto(page.url)
    rested(again)
    assert again.url == page.url
    assert query(again)["text"] == "나는 은행에서 돈을 찾았다 & 100%"
    assert again.locator("[data-gaze=heatmap]").first.get_attribute("data-show") == "raw"
    assert row(again).inner_text() == row(page).inner_text()


def test_back_and_forward(visit):
    page = visit("sentence")
    page.locator("[data-gaze=head_strip] [role=radio]").nth(2).click()
    page.wait_for_url(re.compile("head=3"))
    rested(page)
    page.go_back()
    page.wait_for_url(re.compile("head=12"))
    expect(page.locator("[data-gaze=head_strip] [role=radio][aria-checked=true]")).to_have_attribute(
        "aria-label", re.compile("12")
    )
    page.go_forward()
    page.wait_for_url(re.compile("head=3"))


@pytest.mark.parametrize("path", ["", "sentence"])
def test_no_request_leaves_the_machine(visit, path):
    page = visit(path)
    page.wait_for_timeout(500)
    assert page.outside == []
    assert page.evaluate("document.fonts.check('16px \"Pretendard Variable\"', 'cake 은')")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", ["", "sentence"])
def test_readable_on_a_phone(visit, path, scheme):
    page = visit(path, width=390, scheme=scheme, text="I ate the cake and it was delicious </script><b>x</b>")
    wide = page.evaluate(
        "(() => { const m = document.querySelector('[data-testid=stMain]'); return m.scrollWidth - m.clientWidth })()"
    )
    assert wide <= 0
    assert page.locator("[data-gaze] b").count() == 0


def test_five_hundred_tokens(visit):
    page = visit("sentence", text="cake " * 700)
    expect(page.get_by_text("512 fit here")).to_be_visible()
    heat = page.locator("[data-gaze=heatmap]").first
    assert (heat.get_attribute("data-rows"), heat.get_attribute("data-cols")) == ("512", "512")
    assert float(heat.get_attribute("data-paint-ms")) > 0
    page.frames_sent.clear()
    token(page, "cake").hover()
    page.wait_for_timeout(300)
    assert page.frames_sent == []


def test_presenter_mode(visit):
    page = visit("")
    small = page.evaluate("getComputedStyle(document.documentElement).fontSize")
    page.get_by_text("Presenter mode").click()
    page.wait_for_function("document.documentElement.hasAttribute('data-presenter')")
    assert float(page.evaluate("getComputedStyle(document.documentElement).fontSize")[:-2]) > float(small[:-2])


def test_two_people_at_once(visit):
    one, two = visit("sentence"), visit("sentence", model="smollm2", lang="ko")
    one.get_by_role("textbox").fill("first it")
    two.get_by_role("textbox").fill("second it")
    expect(token(one, "first")).to_be_visible()
    expect(token(two, "second")).to_be_visible()
    assert "second" not in one.locator("[data-gaze=token_links]").inner_text()
