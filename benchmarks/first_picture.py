"""From a fresh browser tab to the painted heat map, cold and warm; and from the command to a server that answers.

    PYTHONPATH=. .venv/bin/python benchmarks/first_picture.py [--rounds 5]

Each round starts a server (its files are in the system's cache, since the round before read them) and opens the
sentence page cold in Chromium; then, in new tabs with empty caches, the sentence page and the home page warm. Medians.
A picture is painted when its canvas has more than one colour (on the home page that of the lines); the times are
the tab's own, from the beginning of its navigation. First paint is Chromium's first-contentful-paint.
Chromium, driver and server share the cores. Without Playwright or a Chromium (`make test` brings both) nothing is
measured.
"""

import argparse
import os
import statistics
import sys
from typing import TYPE_CHECKING

from benchmarks.server import ROOT, served

if TYPE_CHECKING:
    from playwright.sync_api import Browser

WAIT = 120_000  # milliseconds
# In the page, from its first moment on: looks in every frame whether the picture is there, and keeps the time.
WATCH = """
(() => {
  const painted = (view) => {
    for (const host of document.querySelectorAll('[data-testid^="stBidiComponent"]')) {
      const canvas = host.shadowRoot?.querySelector(`[data-gaze=${view}] canvas`);
      if (!canvas?.width || !canvas.height) continue;
      const image = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
      const pixels = new Uint32Array(image.data.buffer);
      if (pixels.some((pixel) => pixel !== pixels[0])) return true;
    }
    return false;
  };
  window.paintedAt = {};
  const look = () => {
    for (const view of ['heatmap', 'token_links']) {
      if (!(view in window.paintedAt) && painted(view)) window.paintedAt[view] = performance.now();
    }
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
})();
"""
FIRST_PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


def visit(browser: "Browser", address: str, view: str) -> tuple[float, float]:
    """Open a page in a fresh profile; return the seconds to its first paint and to its picture, a view of ours."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.add_init_script(WATCH)
    page.goto(address)
    page.wait_for_function(f"window.paintedAt.{view} !== undefined", timeout=WAIT)
    painted, first = page.evaluate(f"window.paintedAt.{view}"), page.evaluate(FIRST_PAINT)
    context.close()
    return first / 1000, painted / 1000


def line(name: str, seconds: list[float], target: float | None = None) -> str:
    """Return one line of the table."""
    median = statistics.median(seconds)
    against = [f"{target:g} s", f"{median / target:.2f} ×"] if target else ["", ""]
    return "| " + " | ".join([name, f"{median:.2f}", f"{min(seconds):.2f}", f"{max(seconds):.2f}", *against]) + " |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one round")
    args = parser.parse_args()
    sys.path.append(str(ROOT / "tests"))
    try:
        from playwright.sync_api import sync_playwright

        from setup_browser import FLAGS, chromium, playwright_chromium
    except ImportError:
        sys.exit("Playwright is not installed: `make test` brings it and a Chromium.")
    path = chromium()
    if path is None and not playwright_chromium():
        sys.exit("There is no Chromium: `make test` brings one.")

    ready, cold, warm, home_first, home = [], [], [], [], []
    with sync_playwright() as play:
        for _ in range(1 if args.quick else args.rounds):
            browser = play.chromium.launch(executable_path=path, args=FLAGS)
            with served() as server:
                ready.append(server.ready)
                cold.append(visit(browser, f"{server.address}/sentence", "heatmap")[1])
                visit(browser, f"{server.address}/", "token_links")
                warm.append(visit(browser, f"{server.address}/sentence", "heatmap")[1])
                first, painted = visit(browser, f"{server.address}/", "token_links")
                home_first.append(first)
                home.append(painted)
            name = f"Chromium {browser.version}"
            browser.close()
    print(f"{name}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {len(ready)} round(s), seconds.\n")
    print("| | median | least | most | target | of the target |")
    print("|---|---:|---:|---:|---:|---:|")
    print(line("server, from the command to the health check", ready, 6))
    print(line("sentence page on a fresh server, from the tab to the painted heat map", cold))
    print(line("sentence page, warm, from the tab to the painted heat map", warm))
    print(line("home page, warm, first paint", home_first, 1))
    print(line("home page, warm, from the tab to the drawn lines", home))


if __name__ == "__main__":
    main()
