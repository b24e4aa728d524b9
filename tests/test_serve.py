"""The local server: what it sends and how, and what it keeps to itself."""

import gzip
import threading
from http.client import HTTPConnection

import pytest
import serve


@pytest.fixture
def ask(tmp_path):
    folder = tmp_path / "html"
    (folder / "empty").mkdir(parents=True)
    (folder / "index.html").write_text("<p>hello" * 100)
    (folder / "picture.png").write_bytes(bytes(100))
    (folder / "404.html").write_text("<p>not here")
    (folder / "_headers").write_text("/*\n  X-Content-Type-Options: nosniff\n  X-Else: a: b\n")
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "way_out.txt").symlink_to(tmp_path / "secret.txt")
    server = serve.server(str(folder), 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def ask(path, **headers):
        connection = HTTPConnection("127.0.0.1", server.server_port, timeout=10)
        connection.request(
            "GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()}
        )
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer, body

    yield ask
    server.shutdown()
    server.server_close()


def test_pages_come_compressed_and_once(ask):
    answer, body = ask("/", Accept_Encoding="gzip")
    assert gzip.decompress(body) == b"<p>hello" * 100
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-cache"
    again, nothing = ask(
        "/", Accept_Encoding="gzip", If_Modified_Since=answer.headers["Last-Modified"]
    )
    assert (again.status, nothing) == (304, b"")
    assert ask("/")[1] == b"<p>hello" * 100
    assert ask("/picture.png", Accept_Encoding="gzip")[1] == bytes(100)
    assert "immutable" in ask("/index.html?v=1a2b")[0].headers["Cache-Control"]


@pytest.mark.parametrize(
    "path", ["/way_out.txt", "/../secret.txt", "/%2e%2e/secret.txt", "/empty/"]
)
def test_nothing_outside_the_folder_and_no_listing(ask, path):
    answer, body = ask(path)
    assert answer.status == 404 and body == b"<p>not here"
    assert answer.headers["X-Else"] == "a: b"


@pytest.mark.parametrize("name", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example"])
def test_only_its_own_names_are_answered(ask, name):
    assert ask("/", Host=name)[0].status == 421
    assert ask("/", Host="localhost:8000")[0].status == 200
