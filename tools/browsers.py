"""The browsers that a system may have: its Chromium, Firefox and WebKitGTK.

    python tools/browsers.py

sees that there is a Chromium. Playwright drives an installed one, but of Firefox and WebKit those of its own
making, which no system has. So Firefox is driven by WebDriver BiDi alone, and WebKitGTK, which has no more,
by plain WebDriver.
"""

import itertools
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from typing import Any

import websocket
from playwright.sync_api import Browser, Error, Playwright, sync_playwright

# the same engine without its windows comes first: all tests of pages take a quarter less with it
SHELL, FONTS = "chromium-headless-shell", "fonts-liberation"  # as Debian names them
CHROMIUM = (SHELL, "chromium", "chromium-browser", "google-chrome")
FIREFOX = ("firefox-esr", "firefox")
CHANNELS = ("chrome", "msedge")  # Playwright knows where macOS and Windows keep them
QUIET = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)
LISTENS = re.compile(r"WebDriver BiDi listening on (ws://\S+)")
PATIENCE = 120  # seconds for one answer
# what WebKitGTK tells nobody: the first script of a page that is to be heard
GATHERS = """<script>
    const complaints = [], gather = (it) => complaints.push(String(it));
    addEventListener("error", ({ message, target }) => gather(message || target.src || target.href), true);
    addEventListener("unhandledrejection", (event) => gather(event.reason));
    addEventListener("securitypolicyviolation", (event) => gather(event.violatedDirective));
    for (const level of ["error", "warn"]) {
      const say = console[level];
      console[level] = (...words) => { gather(words.join(" ")); say(...words); };
    }
</script>"""


def installed(names: tuple[str, ...]) -> str | None:
    """The first of them on the PATH."""
    return next(filter(None, map(shutil.which, names)), None)


def here(browser: type) -> bool:
    """Is there all that Firefox or WebKit takes?"""
    return all(map(installed, browser.takes))


def chromium(playwright: Playwright) -> Browser:
    """The one on the PATH; else Chrome or Edge where their system has them; else Playwright's own."""
    path = installed(CHROMIUM)
    places = [{"executable_path": path}] if path else [*({"channel": c} for c in CHANNELS), {}]
    for place in places:
        try:
            return playwright.chromium.launch(args=QUIET.split(), **place)
        except Error as error:
            why = error
    raise why


def see_to_chromium() -> None:
    """Where there is none: Debian's for root, elsewhere Playwright's, which needs no root."""
    if installed(CHROMIUM):
        return
    try:
        with sync_playwright() as playwright:
            return chromium(playwright).close()
    except Error:
        root = hasattr(os, "geteuid") and os.geteuid() == 0
    debian = root and shutil.which("apt-get")
    ways = [["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", SHELL, FONTS]]
    if debian and not any(subprocess.run(way).returncode for way in ways):
        return
    install = [sys.executable, "-m", "playwright", "install", "--only-shell", "chromium"]
    if subprocess.run(install).returncode:
        sys.exit(f"the tests take a Chromium: none of {', '.join(CHROMIUM)} is on the PATH")


class Firefox:
    """One tab, without a window. What its page complains of is kept in ``complaints``."""

    takes = (FIREFOX,)

    def __init__(self, width: int = 1280, height: int = 900):
        self.complaints: list[str] = []
        self.profile = tempfile.mkdtemp()
        command = [
            installed(FIREFOX) or FIREFOX[0],
            "--headless",
            "--no-remote",
            "--profile",
            self.profile,
        ]
        command += ["--remote-debugging-port", "0"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        address = next(filter(None, map(LISTENS.search, self.process.stderr)))[1]
        self.socket = websocket.create_connection(
            f"{address}/session", suppress_origin=True, timeout=PATIENCE
        )
        self.numbers = itertools.count(1)
        self.ask("session.new", capabilities={})
        self.ask("session.subscribe", events=["log.entryAdded"])
        self.tab = self.ask("browsingContext.getTree")["contexts"][0]["context"]
        size = {"width": width, "height": height}
        self.ask("browsingContext.setViewport", context=self.tab, viewport=size)

    def ask(self, method: str, **params: Any) -> dict:
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            answer = json.loads(self.socket.recv())
            if answer.get("method") == "log.entryAdded":
                if answer["params"]["level"] in ("warn", "error"):
                    self.complaints.append(answer["params"]["text"])
            elif answer.get("id") == number:
                if answer["type"] == "error":
                    raise RuntimeError(answer["message"])
                return answer["result"]

    def open(self, address: str) -> None:
        self.complaints.clear()
        self.ask("browsingContext.navigate", context=self.tab, url=address, wait="complete")

    def evaluate(self, function: str, *given: Any) -> Any:
        """What a JavaScript function gives, of JSON and as JSON; a promise is waited for."""
        call = f"({function})(...{json.dumps(given)})"
        answer = self.ask(
            "script.evaluate",
            expression=f"Promise.resolve({call}).then((it) => JSON.stringify(it ?? null))",
            target={"context": self.tab},
            awaitPromise=True,
        )
        if answer["type"] == "exception":
            raise RuntimeError(answer["exceptionDetails"]["text"])
        return json.loads(answer["result"]["value"])

    def act(self, *sources: dict) -> None:
        """What a hand does: the W3C's actions."""
        self.ask("input.performActions", context=self.tab, actions=sources)

    def close(self) -> None:
        self.socket.close()
        self.process.terminate()
        self.process.wait()
        self.process.stderr.close()
        shutil.rmtree(self.profile, ignore_errors=True)


class WebKit:
    """One window of WebKitGTK's MiniBrowser, on a display of its own that nobody sees."""

    takes = (("WebKitWebDriver",), ("Xvfb",))

    def __init__(self, width: int = 1280, height: int = 900):
        screen = ["-screen", "0", f"{width}x{height + 200}x24", "-nolisten", "tcp"]
        self.display = subprocess.Popen(
            ["Xvfb", "-displayfd", "1", *screen], stdout=subprocess.PIPE, text=True
        )
        number = self.display.stdout.readline().strip()
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        environment = {**os.environ, "DISPLAY": f":{number}", "GDK_BACKEND": "x11"}
        self.driver = subprocess.Popen(["WebKitWebDriver", f"--port={port}"], env=environment)
        self.address = f"http://127.0.0.1:{port}"
        self.wait()
        session = self.ask("POST", "/session", capabilities={})["sessionId"]
        self.address += f"/session/{session}"
        self.ask("POST", "/timeouts", script=1000 * PATIENCE)
        # the window has a bar above the page
        self.ask("POST", "/window/rect", x=0, y=0, width=width, height=height)
        bar = height - self.evaluate("() => innerHeight")
        self.ask("POST", "/window/rect", width=width, height=height + bar)

    def wait(self) -> None:
        for _ in range(100 * PATIENCE):
            try:
                return self.ask("GET", "/status")
            except urllib.error.URLError:
                time.sleep(0.01)
        raise TimeoutError("WebKitWebDriver does not answer")

    def ask(self, method: str, path: str, **params: Any) -> Any:
        body = json.dumps(params).encode() if method == "POST" else None
        request = urllib.request.Request(self.address + path, body, method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"]) from None

    def open(self, address: str) -> None:
        self.ask("POST", "/url", url=address)

    @property
    def complaints(self) -> list[str]:
        """Those of a page that gathers them; of what a worker logs nothing is known."""
        return self.evaluate("() => complaints")

    def act(self, *sources: dict) -> None:
        self.ask("POST", "/actions", actions=sources)

    def evaluate(self, function: str, *given: Any) -> Any:
        """What a JavaScript function gives, of JSON and as JSON; a promise is waited for."""
        call = f"(async () => ({function})(...{json.dumps(given)}))()"
        tell = "(it) => arguments[0]([it ?? null]), (wrong) => arguments[0](String(wrong))"
        script = f"{call}.then({tell})"
        answer = self.ask("POST", "/execute/async", script=script, args=[])
        if isinstance(answer, str):
            raise RuntimeError(answer)
        return answer[0]

    def close(self) -> None:
        self.ask("DELETE", "")
        for each in (self.driver, self.display):
            each.terminate()
            each.wait()
        self.display.stdout.close()


if __name__ == "__main__":
    see_to_chromium()
