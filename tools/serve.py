"""Show the built pages at an address of this machine only: python tools/serve.py _build/html"""

import sys
import webbrowser
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

PORT = 8000


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Requests are not news."""


def main(folder: str) -> None:
    handler = partial(Quiet, directory=folder)
    try:
        server = ThreadingHTTPServer(("127.0.0.1", PORT), handler)
    except OSError:  # taken: any free port will do
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    address = f"http://127.0.0.1:{server.server_port}/"
    print(f"The book is at {address} (Ctrl-C to stop)", flush=True)
    webbrowser.open(address)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        print()


if __name__ == "__main__":
    main(sys.argv[1])
