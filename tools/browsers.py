"""Find a Chromium for the tests of pages and the printed book, or install one.

python tools/browsers.py
"""

import os
import shutil
import subprocess
import sys

from playwright.sync_api import Browser, Error, Playwright, sync_playwright

# The first is the same engine without windows. The tests of pages take a quarter less time with it.
ON_PATH = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHANNELS = ("chrome", "msedge")  # Playwright knows where macOS and Windows keep these
FLAGS = """--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
    --disable-component-update --disable-sync"""
INSTALL = "apt-get update -qq && apt-get install -y -qq chromium-headless-shell fonts-liberation"


def chromium(playwright: Playwright) -> Browser:
    """Launch the Chromium on the PATH, or else Chrome or Edge, or else the one that Playwright installs."""
    path = next(filter(None, map(shutil.which, ON_PATH)), None)
    places = [{"executable_path": path}] if path else [{"channel": name} for name in CHANNELS]
    for place in places:
        try:
            return playwright.chromium.launch(args=FLAGS.split(), **place)
        except Error:
            if path:
                raise
    return playwright.chromium.launch(args=FLAGS.split())


def main() -> None:
    if any(map(shutil.which, ON_PATH)):
        return
    try:
        with sync_playwright() as playwright:
            return chromium(playwright).close()
    except Error:
        root = hasattr(os, "geteuid") and os.geteuid() == 0
    if root and shutil.which("apt-get") and not subprocess.run(INSTALL, shell=True).returncode:
        return
    # Playwright's own needs no root, but a network that reaches Playwright's host.
    playwright_install = [sys.executable, "-m", "playwright", "install", "--only-shell", "chromium"]
    if subprocess.run(playwright_install).returncode:
        sys.exit(f"the tests need a browser: install one of {', '.join(ON_PATH)}")


if __name__ == "__main__":
    main()
