"""The servers of the project's own tests, on the loopback, for tests in Python."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any


def serve_program() -> Path:
    """The program that `scripts/python` builds: `cargo build -p stook-testing --features s3
    --example serve`.
    """
    if named := os.environ.get("STOOK_TEST_SERVE"):
        return Path(named)
    root = Path(__file__).resolve().parents[3]
    target = Path(os.environ.get("CARGO_TARGET_DIR", root / "target"))
    for profile in ("debug", "release"):
        if (program := target / profile / "examples" / "serve").exists():
            return program
    raise FileNotFoundError("run: cargo build -p stook-testing --features s3 --example serve")


@dataclass(frozen=True)
class Request:
    """One request that a server answered."""

    method: str
    target: str
    first: int | None
    end: int | None

    @property
    def is_data(self) -> bool:
        """Whether it is more than the first byte, which is asked for when an object is opened."""
        return (self.first, self.end) != (0, 1)

    @property
    def bytes(self) -> int:
        """How many bytes it asked for."""
        assert self.first is not None and self.end is not None
        return self.end - self.first


def _request(reported: dict[str, Any]) -> Request:
    first = end = None
    if reported["range"]:
        low, high = reported["range"].removeprefix("bytes=").split("-")
        first, end = int(low), int(high) + 1
    return Request(reported["method"], reported["target"], first, end)


class Servers:
    """An S3-compatible server and a web server over the buckets below a directory."""

    def __init__(self, directory: Path, latency_ms: int = 0) -> None:
        self.directory = directory
        command = [str(serve_program()), str(directory), "--latency", f"{latency_ms}ms"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        reported = self._line()
        self.web: str = reported["web"]
        self.settings: dict[str, str] = reported["s3"]

    def _line(self) -> dict[str, Any]:
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert line, "the servers have ended"
        reported: dict[str, Any] = json.loads(line)
        return reported

    def log(self) -> tuple[list[Request], list[Request]]:
        """The requests to the S3 server and to the web server since this was called last."""
        assert self.process.stdin
        self.process.stdin.write("log\n")
        self.process.stdin.flush()
        reported = self._line()
        return [_request(one) for one in reported["s3"]], [_request(one) for one in reported["web"]]

    def __enter__(self) -> Servers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()
