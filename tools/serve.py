"""Show the built pages at an address of this machine only: python tools/serve.py _build/html

As a host on the web would send them: compressed, and asked again only whether they changed. Nothing
outside the folder is sent, and nothing to a page of another name that has come to point at this machine.
"""

import gzip
import re
import sys
import webbrowser
from functools import cache, partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path

PORT = 8000
OWN_NAMES = ("127.0.0.1", "localhost", "[::1]")
COMPRESSED = {".html", ".js", ".css", ".svg", ".json", ".txt", ".ipynb", ".map", ".md", ".inv", ""}
FOREVER = (
    "public, max-age=31536000, immutable"  # an address with a digest never changes what it names
)


def policy(folder: str) -> list[tuple[str, str]]:
    """What the build says is to be sent with every page (tools/online.py)."""
    stated = Path(folder, "_headers")
    text = stated.read_text(encoding="utf-8") if stated.exists() else ""
    return re.findall(r"^  ([\w-]+): (.*)$", text, re.MULTILINE)


@cache
def compressed(path: Path, changed: float) -> bytes:
    return gzip.compress(path.read_bytes(), 6)


class Pages(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Requests are not news."""

    def send_head(self):
        if self.headers.get("Host", "").rsplit(":", 1)[0] not in OWN_NAMES:
            return self.send_error(HTTPStatus.MISDIRECTED_REQUEST, "This server has no such name")
        folder, path = Path(self.directory).resolve(), Path(self.translate_path(self.path))
        page = path / "index.html" if path.is_dir() else path
        if not page.is_file() or not page.resolve().is_relative_to(folder):
            return self.send_missing(folder / "404.html")
        if self.path.split("?")[0].endswith("/"):
            path = page
        takes = "gzip" in self.headers.get("Accept-Encoding", "")
        if path.is_file() and path.suffix in COMPRESSED and takes:
            return self.send_compressed(path)
        return super().send_head()

    def send_missing(self, page: Path):
        if not page.is_file():
            return self.send_error(HTTPStatus.NOT_FOUND)
        body = page.read_bytes()
        self.send_response(HTTPStatus.NOT_FOUND)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        return BytesIO(body)

    def send_compressed(self, path: Path):
        state = path.stat()
        stamp = self.date_time_string(int(state.st_mtime))
        if self.headers.get("If-Modified-Since") == stamp:
            self.send_response(HTTPStatus.NOT_MODIFIED)
            return self.end_headers()
        body = compressed(path, state.st_mtime)
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", self.guess_type(str(path)))
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Last-Modified", stamp)
        self.end_headers()
        return BytesIO(body)

    def end_headers(self):
        self.send_header("Cache-Control", FOREVER if "?v=" in self.path else "no-cache")
        self.send_header("Vary", "Accept-Encoding")
        for name, what in policy(self.directory):
            self.send_header(name, what)
        super().end_headers()


def server(folder: str, port: int = PORT) -> ThreadingHTTPServer:
    handler = partial(Pages, directory=folder)
    try:
        return ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError:  # taken: any free port will do
        return ThreadingHTTPServer(("127.0.0.1", 0), handler)


def main(folder: str) -> None:
    pages = server(folder)
    address = f"http://127.0.0.1:{pages.server_port}/"
    print(f"The book is at {address} (Ctrl-C to stop)", flush=True)
    webbrowser.open(address)
    try:
        pages.serve_forever()
    except KeyboardInterrupt:
        print()


if __name__ == "__main__":
    main(sys.argv[1])
