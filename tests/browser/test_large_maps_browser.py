"""A map of a long sentence: what is read in the browser is what the head has, before and after another is picked."""

import pytest
from playwright.sync_api import expect

from browser.visits import rested, visits
from ui.compute import head_view

TEXT = "The old sailor told us a long story and we listened because it was cold outside " * 12


@pytest.fixture
def visit(app, browser):
    with visits(app, browser, "sentence", ".heatmap canvas", ".row_in_full table", height=1600) as visit:
        yield visit


def table(page):
    """The lines that exist of the row in full: key number -> its numbers."""
    lines = page.locator(".row_in_full tbody tr[data-k]")
    texts = lines.evaluate_all("all => all.map(line => [+line.dataset.k, ...[...line.cells].map(c => c.innerText)])")
    return {key: [text.strip().replace("−", "-") for text in (*scores, weight)] for key, _, *scores, weight in texts}


def test_the_table_borrows_the_maps_numbers(visit):
    page = visit(lang="en", model="smollm2", layer=3, head=5, query=100, text=TEXT.strip().replace(" ", "+"))
    for head in (5, 7):
        if head == 7:
            page.locator(".head_strip button").nth(6).click()
            expect(page.locator(".head_strip")).to_have_attribute("data-chosen", "6")
            rested(page)
        view = head_view("smollm2", TEXT.strip(), 2, head - 1, "token", "shown")
        assert view.weights.size > 128 * 128
        expect(page.locator(".row_in_full")).to_have_attribute("data-query", "100")
        found = table(page)
        assert len(found) > 20
        for key, (raw, scaled, weight) in found.items():
            assert raw == f"{view.raw[0, 100, key]:.4f}"
            assert scaled == f"{view.raw[0, 100, key] * view.factor:.4f}"
            if view.allowed[100, key]:
                assert weight == f"{view.weights[100, key]:.4f}"
            else:
                assert "comes later" in weight
        expect(page.locator(".row_in_full")).to_have_attribute("data-sum", "1.0000")
