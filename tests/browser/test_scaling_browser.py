"""Why √dₖ in a real Chromium: keys on the slider, the language, a training that grows, stops and is read."""

import re

import pytest
from playwright.sync_api import expect

from browser.visits import rested, visits


@pytest.fixture
def visit(app, browser):
    with visits(app, browser, "scaling", "[data-testid=stExpander]") as visit:
        yield visit


def test_slider_and_language(visit):
    page = visit(lang="en")
    slider = page.get_by_test_id("stSlider").first.get_by_role("slider")
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_url(re.compile(r"dk=128"))
    expect(page.get_by_text(re.compile(r"At dₖ = 128"))).to_be_visible()
    expect(page.locator(".js-plotly-plot")).to_have_count(8)
    rested(page)
    page.get_by_text("한국어", exact=True).click()
    page.wait_for_url(re.compile(r"lang=ko"))
    expect(page.get_by_text(re.compile("dₖ = 128일 때"))).to_be_visible()
    assert "dk=128" in page.url
    assert "dk_temperature=1&" in page.url
    assert "**" not in page.get_by_test_id("stMain").inner_text()


def test_training_grows_in_place_stops_and_is_read(visit):
    page = visit(lang="en", train_dk="8")
    race = page.locator("[data-gaze=loss_race]")
    expect(race).to_have_attribute("data-step", "0")
    race.evaluate("root => { window.drawing = root.querySelector('svg[role=img]') }")
    page.get_by_role("button", name="Start").click()
    expect(race).not_to_have_attribute("data-step", "0", timeout=30_000)
    page.get_by_test_id("stMain").get_by_role("button", name="Stop").click()
    expect(page.get_by_role("button", name="Start")).to_be_enabled(timeout=30_000)
    rested(page)
    step = race.get_attribute("data-step")
    page.wait_for_url(re.compile(f"train_steps={step}"))
    page.wait_for_timeout(900)
    expect(race).to_have_attribute("data-step", step)
    page.get_by_role("button", name="Start").click()
    expect(race).to_have_attribute("data-step", "300", timeout=60_000)
    page.wait_for_url(re.compile("train_steps=300"))
    rested(page)
    assert race.evaluate("root => window.drawing === root.querySelector('svg[role=img]')")  # never drawn anew
    expect(race.locator("polyline")).to_have_count(6)
    race.locator("svg[role=img]").focus()
    page.keyboard.press("ArrowLeft")
    expect(race.locator(".read")).to_have_text(re.compile(r"step 299: without √dₖ 0\.\d\d · "))
