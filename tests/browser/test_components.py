"""The four components in a real Chromium: what is painted, what keys and clicks do, what the server hears."""

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from browser.server import serve

PIXEL = """(canvas, [row, column, rows, columns]) => {
    const x = Math.floor((column + 0.5) * canvas.width / columns), y = Math.floor((row + 0.2) * canvas.height / rows);
    return [...canvas.getContext("2d").getImageData(x, y, 1, 1).data].slice(0, 3);
}"""
THEME = """(root, name) => {
    const pen = new OffscreenCanvas(1, 1).getContext("2d");
    pen.fillStyle = getComputedStyle(root).getPropertyValue(name); pen.fillRect(0, 0, 1, 1);
    return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3);
}"""

Opened = Callable[..., Page]


@pytest.fixture(scope="session")
def components_server() -> Iterator[str]:
    """The address of a server showing components_app.py."""
    address, process = serve("tests/browser/components_app.py")
    yield address
    process.terminate()
    process.wait(10)


@pytest.fixture(scope="session")
def components_context(browser: Browser) -> Iterator[BrowserContext]:
    """One profile for all tests: the browser's cache saves seconds a page."""
    context = browser.new_context()
    yield context
    context.close()


@pytest.fixture
def components_open(components_server: str, components_context: BrowserContext) -> Iterator[Opened]:
    """Opens the app with these query parameters; an error in the page's JavaScript fails the test."""
    pages, errors = [], []

    def opened(query: str = "", width: int = 1280, theme: str = "light") -> Page:
        page = components_context.new_page()
        pages.append(page)
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=theme)
        page.frames_sent = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("websocket", lambda wire: wire.on("framesent", lambda frame: page.frames_sent.append(frame)))
        page.goto(f"{components_server}/?{query}")
        page.locator("#done").wait_for(timeout=60_000)
        page.locator("[data-testid=stApp][data-test-script-state=notRunning]").wait_for(timeout=30_000)
        expect(page.locator("[data-gaze]:not([data-runs])")).to_have_count(0, timeout=30_000)
        expect(page.locator("[data-gaze]")).to_have_count(1 if "only=" in query else 4, timeout=30_000)
        return page

    yield opened
    for page in pages:
        page.close()
    assert not errors, errors


def part(page: Page, name: str) -> Locator:
    """A component's root."""
    return page.locator(f"[data-gaze={name}]")


def query_token(page: Page, i: int) -> Locator:
    """The button of query i."""
    return part(page, "token_links").locator(f"[data-q='{i}']")


def point_at(page: Page, row: int, column: int) -> None:
    """Move the mouse onto a cell of the heat map."""
    root, canvas = part(page, "heatmap"), part(page, "heatmap").locator("canvas.map")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    rows, columns = int(root.get_attribute("data-rows")), int(root.get_attribute("data-cols"))
    page.mouse.move(box["x"] + (column + 0.5) * box["width"] / columns, box["y"] + (row + 0.5) * box["height"] / rows)


def has_parameter(page: Page, value: int | None) -> None:
    """Wait until the address has query=value, or none."""
    pattern = r"^(?!.*[?&]query=)" if value is None else rf"[?&]query={value}(&|$)"
    expect(page).to_have_url(re.compile(pattern))


def test_all_four_appear_once_each(components_open: Opened) -> None:
    page = components_open()
    for name in ("head_strip", "token_links", "heatmap", "row_in_full"):
        expect(part(page, name)).to_have_count(1)
        expect(part(page, name)).to_have_attribute("data-runs", "1")


def test_hover_and_pin_stay_in_the_browser(components_open: Opened) -> None:
    page = components_open()
    page.wait_for_timeout(500)
    before = len(page.frames_sent)
    assert before > 0, "the page's own frames are not counted, so the test could not fail"
    query_token(page, 6).hover()
    expect(part(page, "row_in_full")).to_have_attribute("data-query", "6")
    query_token(page, 7).click()
    expect(part(page, "heatmap")).to_have_attribute("data-pin", "7")
    point_at(page, 2, 3)
    expect(part(page, "heatmap")).to_have_attribute("data-hover", "2,3")
    page.mouse.down()
    page.mouse.up()
    expect(part(page, "token_links")).to_have_attribute("data-pin", "2")
    page.keyboard.press("Escape")
    expect(part(page, "token_links")).to_have_attribute("data-pin", "")
    page.wait_for_timeout(500)
    assert len(page.frames_sent) == before
    page.get_by_role("button", name="run again").click()
    page.get_by_text("runs again 1").wait_for()
    assert len(page.frames_sent) > before


def test_hovering_a_query_shows_its_lines_and_numbers(components_open: Opened) -> None:
    page = components_open()
    root = part(page, "token_links")
    expect(root).to_have_attribute("data-lines", re.compile(r"^\d+$"))
    all_lines = int(root.get_attribute("data-lines"))
    query_token(page, 6).hover()
    expect(root).to_have_attribute("data-query", "6")
    assert 0 < int(root.get_attribute("data-lines")) < all_lines
    expect(root.locator("[data-k='4'] .numbers")).to_have_text("0.74")
    expect(root.locator("[data-k='0'] .numbers")).to_have_text("")
    page.mouse.move(2, 2)
    expect(root).to_have_attribute("data-lines", str(all_lines))


def test_hovering_a_key_shows_who_looks_at_it(components_open: Opened) -> None:
    page = components_open()
    root = part(page, "token_links")
    root.locator("[data-k='4']").hover()
    expect(root.locator("[data-q='7'] .numbers")).to_have_text("1.00")
    expect(root.locator("[data-q='6'] .numbers")).to_have_text("0.74")


def test_several_heads_have_a_number_each(components_open: Opened) -> None:
    page = components_open("heads=3")
    query_token(page, 7).hover()
    numbers = part(page, "token_links").locator("[data-k='4'] .numbers span")
    expect(numbers).to_have_text(["1.00", "1.00", "1.00"])
    assert len({number.evaluate("e => getComputedStyle(e).color") for number in numbers.all()}) == 3
    expect(part(page, "token_links").locator(".legend span")).to_have_count(3)


def test_keys_move_and_release_the_pin(components_open: Opened) -> None:
    page = components_open()
    root = part(page, "token_links")
    query_token(page, 3).focus()
    page.keyboard.press("Enter")
    expect(root).to_have_attribute("data-pin", "3")
    expect(query_token(page, 3)).to_have_attribute("aria-pressed", "true")
    for key, pin in (("ArrowDown", 4), ("ArrowUp", 3), ("End", 9), ("ArrowDown", 9), ("Home", 0)):
        page.keyboard.press(key)
        expect(root).to_have_attribute("data-pin", str(pin))
        expect(query_token(page, pin)).to_be_focused()
    expect(root.locator("[data-q][tabindex='0']")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(root).to_have_attribute("data-pin", "")
    page.keyboard.press("Space")
    expect(root).to_have_attribute("data-pin", "0")
    page.keyboard.press("Space")
    expect(root).to_have_attribute("data-pin", "")


def test_the_pin_is_in_the_address_and_other_parameters_stay(components_open: Opened) -> None:
    page = components_open("n=10&other=a%20b%2Bc&query=5")
    expect(part(page, "token_links")).to_have_attribute("data-pin", "5")
    expect(part(page, "heatmap")).to_have_attribute("data-pin", "5")
    query_token(page, 8).click()
    has_parameter(page, 8)
    assert "n=10&other=a%20b%2Bc" in page.url
    page.reload()
    expect(part(page, "token_links")).to_have_attribute("data-pin", "8")
    page.keyboard.press("Escape")
    has_parameter(page, None)
    assert page.url.endswith("?n=10&other=a%20b%2Bc")


def test_a_pin_survives_a_run_and_an_impossible_one_is_dropped(components_open: Opened) -> None:
    page = components_open("query=99")
    expect(part(page, "token_links")).to_have_attribute("data-pin", "")
    has_parameter(page, None)
    query_token(page, 4).click()
    page.get_by_role("button", name="run again").click()
    page.get_by_text("runs again 1").wait_for()
    page.wait_for_timeout(300)
    expect(part(page, "token_links")).to_have_attribute("data-pin", "4")


def test_a_shorter_text_drops_the_pin_and_the_room(components_open: Opened) -> None:
    page = components_open("n=127&query=100")
    page.get_by_role("button", name="shorter").click()
    page.locator("#done[data-n='3']").wait_for()
    expect(part(page, "heatmap")).to_have_attribute("data-rows", "3")
    for name in ("token_links", "heatmap"):
        expect(part(page, name)).to_have_attribute("data-pin", "")
    has_parameter(page, None)
    expect(part(page, "token_links").locator("[data-q]")).to_have_count(3)
    assert part(page, "token_links").locator(".scroll").evaluate("e => e.scrollHeight") < 200
    expect(part(page, "row_in_full").locator("tbody [data-k]")).to_have_count(3)
    assert shown_weights(page)[1] == 1.0


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_weights_run_from_background_to_accent(components_open: Opened, theme: str) -> None:
    page = components_open(theme=theme)
    root, canvas = part(page, "heatmap"), part(page, "heatmap").locator("canvas.map")
    ground, accent = (root.evaluate(THEME, f"--st-{name}-color") for name in ("background", "primary"))
    assert (sum(ground) > 384) == (theme == "light")
    assert canvas.evaluate(PIXEL, [7, 4, 10, 10]) == accent
    assert canvas.evaluate(PIXEL, [7, 0, 10, 10]) == ground
    between = canvas.evaluate(PIXEL, [6, 4, 10, 10])
    assert between not in (ground, accent)
    tile = part(page, "head_strip").locator("[data-head='0'] canvas")
    assert tile.evaluate(PIXEL, [7, 4, 10, 10]) == accent


def test_scores_are_orange_above_zero_and_blue_below(components_open: Opened) -> None:
    page = components_open("show=raw")
    canvas = part(page, "heatmap").locator("canvas.map")
    red, _, blue = canvas.evaluate(PIXEL, [7, 4, 10, 10])
    assert red > 2 * blue
    red, _, blue = canvas.evaluate(PIXEL, [7, 0, 10, 10])
    assert blue > 2 * red
    expect(part(page, "heatmap").locator(".bar")).to_contain_text("60.00")


def test_what_is_not_allowed_looks_different_from_nothing(components_open: Opened) -> None:
    page = components_open("causal=1")
    root, canvas = part(page, "heatmap"), part(page, "heatmap").locator("canvas.map")
    assert canvas.evaluate(PIXEL, [2, 8, 10, 10]) != root.evaluate(THEME, "--st-background-color")
    point_at(page, 2, 8)
    expect(root.locator(".tip")).to_contain_text("may not look there")


def test_the_tip_names_every_step(components_open: Opened) -> None:
    page = components_open("extra=1")
    point_at(page, 6, 4)
    tip = part(page, "heatmap").locator(".tip")
    expect(tip).to_be_visible()
    for text in ("it → cake", "24.0000", "× 1/√32 = 0.177", "4.2426", "score into softmax", "0.7380"):
        expect(tip).to_contain_text(text)
    page.mouse.move(2, 2)
    expect(tip).to_be_hidden()


def test_the_cell_cursor_has_the_same_tip(components_open: Opened) -> None:
    page = components_open()
    root = part(page, "heatmap")
    root.locator("canvas.map").focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    expect(root).to_have_attribute("data-hover", "1,2")
    expect(root.locator(".tip .pair")).to_have_text("I → ate")
    page.keyboard.press("Enter")
    expect(part(page, "row_in_full")).to_have_attribute("data-query", "1")
    has_parameter(page, 1)


def test_512_tokens_paint(components_open: Opened) -> None:
    page = components_open("n=512&only=map")
    root = part(page, "heatmap")
    expect(root).to_have_attribute("data-paint-ms", re.compile(r"^[\d.]+$"))
    expect(root).to_have_attribute("data-rows", "512")
    distinct = root.locator("canvas.map").evaluate(
        "c => new Set(new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer)).size"
    )
    assert distinct > 20
    point_at(page, 300, 310)
    expect(root).to_have_attribute("data-hover", re.compile(r"^(299|30[01]),(309|31[01])$"))


@pytest.mark.parametrize("name", ["token_links", "heatmap", "row_in_full"])
def test_labels_are_text_and_nothing_else(components_open: Opened, name: str) -> None:
    page = components_open("odd=1")
    for text in ("</script><b>x</b>", "مرحبا", "👩🏽‍🚀", "$x$", "**b**", "안녕하세요"):
        expect(part(page, name).locator("bdi").get_by_text(text, exact=True).first).to_be_attached()
    assert page.locator("[data-gaze] b").count() == 0
    assert part(page, name).locator("bdi").first.get_attribute("dir") == "auto"


def test_a_picked_head_reaches_python(components_open: Opened) -> None:
    page = components_open()
    strip = part(page, "head_strip")
    strip.locator("[data-head='3']").click()
    expect(strip.locator("[data-head='3']")).to_have_attribute("aria-checked", "true")
    expect(page.locator("#picked")).to_have_text("picked 3")
    page.keyboard.press("ArrowRight")
    expect(strip.locator("[data-head='4']")).to_be_focused()
    expect(strip).to_have_attribute("data-chosen", "3")
    page.keyboard.press("Enter")
    expect(page.locator("#picked")).to_have_text("picked 4")
    expect(strip.locator("[aria-checked=true]")).to_have_count(1)


def shown_weights(page: Page) -> tuple[list[float], float]:
    """The table's weights, and its last line."""
    numbers = part(page, "row_in_full").locator("tbody .number").all_inner_texts()
    return [float(number) for number in numbers], float(
        part(page, "row_in_full").locator("tr.sum .number").inner_text()
    )


def test_a_row_sums_to_one_and_can_be_sorted(components_open: Opened) -> None:
    page = components_open("query=6")
    root = part(page, "row_in_full")
    weights, total = shown_weights(page)
    assert total == 1.0
    assert sum(weights) == pytest.approx(1, abs=10 * 0.00005)
    assert weights[4] == 0.738
    root.get_by_role("button", name="weight").click()
    assert shown_weights(page)[0] == sorted(weights, reverse=True)
    root.get_by_role("button", name="weight").click()
    assert shown_weights(page)[0] == weights


def test_hidden_tokens_and_sink_are_part_of_the_whole(components_open: Opened) -> None:
    page = components_open("query=6&extra=1")
    weights, total = shown_weights(page)
    assert sum(weights) == pytest.approx(0.625, abs=0.001)
    assert total == 1.0
    expect(part(page, "row_in_full").locator("tr.hidden .number")).to_have_text("0.2500")
    expect(part(page, "row_in_full").locator("tr.sink .number")).to_have_text("0.1250")


@pytest.mark.parametrize("late", ["row", "map"])
def test_the_table_borrows_the_maps_numbers_whichever_comes_first(components_open: Opened, late: str) -> None:
    page = components_open("only=strip")
    page.goto(page.url.replace("only=strip", f"late={late}"))
    present = "heatmap" if late == "row" else "row_in_full"
    page.locator(f"[data-gaze={present}]").wait_for(state="attached")
    page.locator("[data-testid=stApp][data-test-script-state=notRunning]").wait_for(state="attached")
    page.get_by_role("button", name="run again").click()
    table = part(page, "row_in_full")
    expect(table.locator("tbody tr[data-k]")).to_have_count(10)
    whole = components_open("").locator("[data-gaze=row_in_full] tbody")
    expect(whole.locator("tr[data-k]")).to_have_count(10)
    assert table.locator("tbody").inner_text() == whole.inner_text()


def test_the_table_follows_and_keeps_the_last_pin(components_open: Opened) -> None:
    page = components_open()
    root, pick = part(page, "row_in_full"), part(page, "row_in_full").locator(".pick")
    expect(root).to_have_attribute("data-query", "6")
    expect(pick).to_be_visible()
    high = root.bounding_box()["height"]
    query_token(page, 2).click()
    expect(root).to_have_attribute("data-query", "2")
    expect(pick).to_be_hidden()
    assert root.bounding_box()["height"] == high
    page.keyboard.press("Escape")
    page.mouse.move(2, 2)
    expect(pick).to_be_visible()
    expect(root).to_have_attribute("data-query", "2")


def test_a_long_table_shows_every_key_when_scrolled(components_open: Opened) -> None:
    page = components_open("n=211&only=row")
    box = part(page, "row_in_full").locator(".box")
    assert box.bounding_box()["height"] <= 420
    box.evaluate("e => { e.scrollTop = e.scrollHeight; }")
    expect(box.locator("[data-k='210']")).to_be_visible()
    expect(box.locator("[data-k='0']")).to_have_count(0)


def test_a_pin_brings_its_strongest_key_into_sight(components_open: Opened) -> None:
    page = components_open("n=211&only=row&query=150")
    box = part(page, "row_in_full").locator(".box")
    page.wait_for_timeout(300)
    seen = box.evaluate(
        """box => [...box.querySelectorAll("[data-k]")].filter(line => {
            const at = line.getBoundingClientRect(), frame = box.getBoundingClientRect();
            return at.top >= frame.top && at.bottom <= frame.bottom;
        }).map(line => Number(line.querySelector(".number").textContent))"""
    )
    every = box.evaluate("box => [...box.querySelectorAll('.weight .number')].map(e => Number(e.textContent))")
    assert max(seen) == max(every[:-1]) > 0.05


def test_long_texts_scroll_inside(components_open: Opened) -> None:
    page = components_open("n=127&only=links&query=100")
    scroll = part(page, "token_links").locator(".scroll")
    assert scroll.bounding_box()["height"] <= 640
    expect(query_token(page, 100)).to_be_in_viewport()
    canvas = scroll.locator("canvas")
    assert canvas.evaluate("c => c.height / devicePixelRatio") <= 2 * 640
    assert canvas.evaluate("c => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(v => v)")


@pytest.mark.parametrize("query", ["odd=1&query=8", "heads=6&query=6&extra=1&causal=1", "n=127"])
def test_a_phone_has_nothing_sideways(components_open: Opened, query: str) -> None:
    page = components_open(query, width=390)
    for row, column in ((0, 9), (9, 0), (9, 9)):
        point_at(page, row, column)
        tip = part(page, "heatmap").locator(".tip")
        expect(tip).to_be_visible()
        box = tip.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= 900
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.get_by_test_id("stMain").evaluate("e => e.scrollWidth - e.clientWidth") <= 0
    assert all(root.evaluate("e => e.scrollWidth - e.clientWidth") <= 1 for root in page.locator("[data-gaze]").all())


def test_presentation_mode_enlarges(components_open: Opened) -> None:
    page = components_open()
    size = "e => parseFloat(getComputedStyle(e).fontSize)"
    before = query_token(page, 0).evaluate(size)
    page.evaluate("document.documentElement.setAttribute('data-presenter', '')")
    expect(part(page, "token_links")).to_have_attribute("style", re.compile("--scale: 1.35"))
    assert query_token(page, 0).evaluate(size) == pytest.approx(1.35 * before, rel=0.01)


def test_without_any_edge_it_says_so(components_open: Opened) -> None:
    page = components_open("none=1")
    expect(part(page, "token_links").locator(".note")).to_have_text("no weight of 0.01 or more")
    expect(part(page, "token_links").locator(".note")).to_be_visible()
