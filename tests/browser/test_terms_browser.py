"""A head with window, sink and shared keys, and its rotation: what only a browser shows of them."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from browser.server import serve
from tiny_models import TYPED, save


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The sentence page's address with a tiny GPT-OSS: windows of 3, six heads that share two key-value heads."""
    folder = tmp_path_factory.mktemp("models")
    model = save(folder, "GPT-OSS")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GAZE_MODELS_DIR", str(folder))
        address, process = serve("app.py")
    yield f"{address}/sentence?lang=en&model={model}&layer=1&head=1&text={TYPED.replace(' ', '+')}"
    process.terminate()
    process.wait(10)


@pytest.fixture
def page(browser: Browser, tiny: str) -> Iterator[Page]:
    """The page; an error in its JavaScript fails the test."""
    context, errors = browser.new_context(viewport={"width": 1280, "height": 1400}), []
    page = context.new_page()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(tiny)
    yield page
    context.close()
    assert errors == []


def rested(page: Page) -> None:
    page.locator("[data-testid=stApp][data-test-script-state=notRunning]").wait_for(timeout=60_000)


def test_window_and_sink_are_told_apart_in_row_and_map(page: Page) -> None:
    row = page.locator(".row_in_full")
    expect(row).to_have_attribute("data-sum", "1.0000")
    lines = row.locator("tbody tr[data-k]")
    query = int(row.get_attribute("data-query"))
    told = lines.locator("td.weight .number").all_inner_texts()
    for key, text in enumerate(told):
        reason = "comes later" if key > query else "outside the window" if key <= query - 3 else ""
        assert (reason in text) if reason else re.fullmatch(r"[01]\.\d{4}", text), (key, text)
    expect(row.locator("tfoot tr.sink")).to_contain_text("sink (score")

    canvas = page.locator(".heatmap canvas.map")
    root = page.locator(".heatmap[data-gaze]")
    rows, columns = (int(root.get_attribute(name)) for name in ("data-rows", "data-cols"))
    assert columns == rows + 1
    for at, words in {(8, 2): "outside the window", (2, 8): "comes later", (8, rows): "(sink)"}.items():
        canvas.scroll_into_view_if_needed()
        box = canvas.bounding_box()
        page.mouse.move(
            box["x"] + (at[1] + 0.5) * box["width"] / columns, box["y"] + (at[0] + 0.5) * box["height"] / rows
        )
        expect(page.locator(".heatmap .tip")).to_contain_text(words)
    expect(page.locator(".heatmap .tip")).not_to_contain_text("raw score")


def test_heads_that_share_keys_say_so(page: Page) -> None:
    expect(page.locator(".head_strip .head").nth(4)).to_have_attribute("title", "5 · heads 4–6 read key-value head 2")


def test_rotation_opens_and_stays_over_a_change_of_language(page: Page) -> None:
    rested(page)
    page.get_by_text("Positions: query and key before and after rotation").click()
    expect(page.locator(".js-plotly-plot")).to_have_count(3)
    pair = re.compile(r"rope_pair=(\d+)")
    expect(page).to_have_url(pair)
    chosen = str(int(pair.search(page.url)[1]) + 1)
    page.get_by_role("slider", name="Pair of features").press("ArrowRight")
    expect(page).to_have_url(re.compile(rf"rope_pair={chosen}\b"))
    rested(page)
    expect(page.get_by_text(f"Pair {chosen} adds")).to_be_visible()
    page.get_by_text("한국어").click()
    expect(page.get_by_text(f"{chosen}번 짝은 회전 없이는")).to_be_visible()
    assert pair.search(page.url)[1] == chosen
