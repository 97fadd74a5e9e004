"""Visits of the app in a real browser, as every test of a page makes them."""

from contextlib import contextmanager
from urllib.parse import parse_qs, urlsplit

WHOLE = 120_000  # milliseconds; a fresh server loads torch, and computes once what all visitors share


@contextmanager
def visits(app, browser, path, *marks, height=900):
    """Open pages in fresh profiles; errors in a console fail the test. A page rests once the marks are there."""
    contexts, wrong = [], []

    def visit(path=path, *, locale="en-US", width=1280, scheme="light", **query):
        view = {"width": width, "height": height}
        context = browser.new_context(viewport=view, locale=locale, color_scheme=scheme, accept_downloads=True)
        contexts.append(context)
        page = context.new_page()
        context.set_default_timeout(WHOLE)
        page.marks, page.frames_sent, page.outside = marks, [], []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("websocket", lambda wire: wire.on("framesent", lambda frame: page.frames_sent.append(frame)))
        page.on("request", lambda asked: page.outside.append(asked.url) if not _local(asked.url, app) else None)
        page.goto(f"{app}/{path}?" + "&".join(f"{key}={value}" for key, value in query.items()))
        rested(page)
        return page

    yield visit
    for context in contexts:
        context.close()
    assert not wrong


def rested(page):
    """Wait until the script has run, and stays at rest."""
    for _ in range(2):
        page.locator("[data-testid=stApp][data-test-script-state=notRunning]").wait_for()
        for mark in page.marks:
            page.locator(mark).first.wait_for()
        page.wait_for_timeout(300)


def query(page):
    """What the link says."""
    return {key: values[0] for key, values in parse_qs(urlsplit(page.url).query).items()}


def _local(url, app):
    return url.startswith((app, app.replace("http", "ws"), "data:", "blob:"))
