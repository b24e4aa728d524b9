"""The browsers that a system may have, and its Firefox driven by WebDriver BiDi alone.

Playwright drives an installed Chromium, but of Firefox one of its own making, which no system has.
"""

import itertools
import json
import re
import shutil
import subprocess
import tempfile
from typing import Any

import websocket

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")  # as in the Makefile
FIREFOX = ("firefox-esr", "firefox")
LISTENS = re.compile(r"WebDriver BiDi listening on (ws://\S+)")
PATIENCE = 120  # seconds for one answer


def installed(names: tuple[str, ...]) -> str | None:
    """The first of them on the PATH."""
    return next(filter(None, map(shutil.which, names)), None)


class Firefox:
    """One tab, without a window. What pages complain of is kept in ``complaints``."""

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

    def close(self) -> None:
        self.socket.close()
        self.process.terminate()
        self.process.wait()
        self.process.stderr.close()
        shutil.rmtree(self.profile, ignore_errors=True)
