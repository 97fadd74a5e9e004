"""The Chromium of the browser tests: which it is, how it is started, how it is brought in where there is none.

`python tests/setup_browser.py` installs one if need be.
A test starts it by `play.chromium.launch(executable_path=chromium(), args=FLAGS)`.
"""

import os
import shutil
import subprocess
import sys

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]
PLAYWRIGHT = [sys.executable, "-m", "playwright", "install", "chromium"]
ADVICE = """
The browser tests need Chromium, and it could not be installed from here. Do one of these, then `make test` again:
  sudo apt-get install chromium                                   on Debian
  .venv/bin/python -m playwright install --with-deps chromium     on Ubuntu, macOS and others
  export CHROMIUM=/path/to/chromium                               if you have one
"""


def chromium() -> str | None:
    """The browser that is there already: $CHROMIUM, else one on the PATH; None means Playwright's own."""
    candidates = [os.environ.get("CHROMIUM"), *(shutil.which(name) for name in NAMES)]
    return next((path for path in candidates if path and starts(path)), None)


def starts(path: str) -> bool:
    """Whether the file is a browser and not the stand-in that some systems put in its place."""
    try:
        return subprocess.run([path, "--version"], capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def playwright_chromium() -> bool:
    """Whether Playwright has a browser of its own that starts."""
    from playwright.sync_api import Error, sync_playwright

    with sync_playwright() as play:
        try:
            play.chromium.launch(args=FLAGS).close()
        except Error:
            return False
    return True


def administrator() -> list[str] | None:
    """What to put before a command that needs the system's rights; None if they cannot be had without asking."""
    if os.geteuid() == 0:
        return []
    sudo = ["sudo", "--non-interactive"]
    allowed = shutil.which("sudo") and subprocess.run([*sudo, "true"], capture_output=True).returncode == 0
    return sudo if allowed else None


def install() -> bool:
    """Bring a browser in, by the system's packages where the user may, else by Playwright."""
    rights = administrator()
    if rights is not None and shutil.which("apt-get"):
        apt = [*rights, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "-o", "Dpkg::Use-Pty=0"]
        subprocess.run([*apt, "update"], stdout=subprocess.DEVNULL)
        packages = ["chromium", "fonts-liberation"]
        subprocess.run([*apt, "install", "-y", "--no-install-recommends", *packages], stdout=subprocess.DEVNULL)
        if chromium():
            return True
    if rights is not None and subprocess.run([*PLAYWRIGHT, "--with-deps"]).returncode == 0:
        return playwright_chromium()
    return subprocess.run(PLAYWRIGHT).returncode == 0 and playwright_chromium()


def main() -> int:
    """Exit status 0 when there is a browser."""
    if chromium() or playwright_chromium():
        return 0
    sys.stderr.write("Installing Chromium for the browser tests (once) ...\n")
    if install():
        return 0
    sys.stderr.write(ADVICE)
    return 1


if __name__ == "__main__":
    sys.exit(main())
