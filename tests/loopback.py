"""A server on loopback that hands out one file."""

import hashlib
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def sha256(data):
    return hashlib.sha256(data).hexdigest()


@contextmanager
def serving(content, *, status=200, said=None, pause=None, trickle=None, header=""):
    """(URL, paths that were asked for) of a server that answers with `content`.

    And calls it `said` bytes long; the letters of `header` come one by one.
    """
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            if pause is not None:
                pause.wait(10)
            self.send_response(status)
            self.flush_headers()
            for letter in header:
                self.wfile.write(letter.encode())
                time.sleep(0.1)
            if said != "nothing":
                self.send_header("Content-Length", str(len(content) if said is None else said))
            self.end_headers()
            if trickle is None:
                self.wfile.write(content)
                return
            for k in range(len(content)):
                self.wfile.write(content[k : k + 1])
                time.sleep(trickle)

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.handle_error = lambda *args: None  # who gave up does not listen
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/data", asked
        finally:
            server.shutdown()
            thread.join()


def left_in(home):
    return sorted(path.name for path in home.iterdir())
