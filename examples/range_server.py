"""A web server for the examples: the files of a directory by range, every answer after 50 ms, on
this machine only.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

LATENCY_S = 0.05


@contextlib.contextmanager
def serve(directory: Path) -> Iterator[tuple[str, list[str]]]:
    """The address of the directory, and the ranges that are asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = directory / self.path.lstrip("/")
            if path.parent != directory or not path.is_file():
                self.send_error(404)
                return
            data, wanted = path.read_bytes(), self.headers.get("Range", "")
            asked.append(wanted)
            time.sleep(LATENCY_S)
            first, last = 0, len(data) - 1
            if wanted.startswith("bytes="):
                low, _, high = wanted.removeprefix("bytes=").partition("-")
                first, last = int(low), min(int(high or last), last)
            self.send_response(206 if wanted else 200)
            self.send_header("ETag", f'"{path.stat().st_mtime_ns:x}"')
            self.send_header("Content-Length", str(last + 1 - first))
            if wanted:
                self.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
            self.end_headers()
            self.wfile.write(data[first : last + 1])

        def log_message(self, format: str, *arguments: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
