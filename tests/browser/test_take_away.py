"""Files that a reader takes away: saved by the real page, opened by a real browser without any server."""

from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image
from playwright.sync_api import expect


@pytest.fixture
def page(app, browser):
    context = browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-US", accept_downloads=True)
    page = context.new_page()
    page.goto(f"{app}/sentence?lang=en&also=1-3")
    page.get_by_text("Take it away").click()
    yield page
    context.close()


def saved(page, button, folder):
    with page.expect_download() as waiting:
        button.click()
    path = Path(folder) / waiting.value.suggested_filename
    waiting.value.save_as(path)
    return path


def test_pictures(page, tmp_path):
    png = saved(page, page.get_by_role("button", name="Map: weights, PNG"), tmp_path)
    assert png.name == "gaze-minilm-layer-6-head-12-map.png"
    assert png.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert png.stat().st_size > 10_000
    svg = saved(page, page.get_by_role("button", name="Lines, SVG"), tmp_path)
    assert ">cake</text>" in svg.read_text()


def test_the_web_page_opens_offline_and_answers_to_the_pointer(page, browser, tmp_path):
    path = saved(page, page.get_by_role("button", name="Web page (HTML)"), tmp_path)
    wrong, asked = [], []
    context = browser.new_context(viewport={"width": 1000, "height": 900}, offline=True)
    alone = context.new_page()
    alone.on("pageerror", lambda error: wrong.append(str(error)))
    alone.on("request", lambda request: asked.append(request.url))
    alone.goto(path.as_uri())
    lines = alone.locator("[data-gaze=token_links]")
    expect(lines.locator("[data-k='4'] .numbers").first).to_contain_text("0.64")  # "it" is pinned
    lines.locator("[data-q='2']").click()
    expect(alone.locator("[data-gaze=heatmap]")).to_have_attribute("data-pin", "2")
    alone.locator("[data-gaze=heatmap] canvas.map").hover(position={"x": 30, "y": 30})
    expect(alone.locator("[data-gaze=heatmap] .tip")).to_contain_text("weight")
    expect(alone.locator("[data-gaze=row_in_full]")).to_contain_text("1.0000")
    context.close()
    assert not wrong
    assert asked == [path.as_uri()]


SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize(
    ("path", "file", "marks", "count"),
    [("all_heads", "gaze-all-heads", "image", 72), ("compare", "gaze-map-of-heads", "circle", 73)],  # a ring too
)
def test_the_wall_and_the_map_of_heads(app, browser, tmp_path, path, file, marks, count):
    context = browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-US", accept_downloads=True)
    page = context.new_page()
    page.goto(f"{app}/{path}?lang=en")
    button = page.get_by_role("button", name="Save as PNG")
    expect(button).to_be_visible()
    page.wait_for_timeout(1500)
    png = saved(page, button, tmp_path)
    assert png.name == f"{file}.png"
    with Image.open(png) as image:
        colours = image.convert("RGB").getcolors(1_000_000)
        assert image.width > 300
    assert len(colours) > 50  # a picture, not an empty sheet
    svg = saved(page, page.get_by_role("button", name="Save as SVG"), tmp_path)
    assert svg.name == f"{file}.svg"
    drawn = ElementTree.parse(svg).getroot()
    assert len(drawn.findall(f"{SVG}{marks}")) == count
    names = [text.text for text in drawn.findall(f"{SVG}text")]
    assert {"all_heads": "12", "compare": "A B"}[path] in names
    context.close()
