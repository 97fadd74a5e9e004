"""A real server and a real browser, for what AppTest can't see."""

import pytest
from playwright.sync_api import expect, sync_playwright

from browser.server import serve
from setup_browser import FLAGS, chromium

expect.set_options(timeout=30_000)  # a busy machine is slow, not wrong


@pytest.fixture(scope="session")
def app():
    """The app's address."""
    address, process = serve("app.py")
    yield address
    process.terminate()
    process.wait(10)


@pytest.fixture(scope="session")
def browser():
    """One Chromium for all tests; each test opens contexts of its own."""
    with sync_playwright() as play:
        chrome = play.chromium.launch(executable_path=chromium(), args=FLAGS)
        yield chrome
        chrome.close()
