"""Processes of the command-line tool that run beside this one, and end with it.

Each waits for the end of its stdin, a pipe that only this process holds: one that is forked from it
closes its copy. So it ends however this process ends. Code that forks without telling Python keeps
a copy; `Running.end` sends a signal then, so that it waits for nobody.
"""

from __future__ import annotations

import atexit
import errno
import json
import os
import selectors
import subprocess
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Any, Optional

from ._errors import DamageWarning
from .__main__ import find_binary

#: The last lines of what it says are kept.
_LINES_KEPT = 100
#: A line without an end is cut into lines of this length.
_LINE_BYTES_MAX = 64 << 10
#: How long it may take to end after its stdin has, before a signal asks for it: the end of a pipe
#: does so at any moment, a signal ends at once what is just about to print.
_PIPE_SECONDS = 1
#: How long it may take then.
_END_SECONDS = 30
#: How often it is tried to remove a directory that is still mounted.
_LOOK_SECONDS = 0.05


class Refused(Exception):
    """It ended before it could be used.

    Attributes:
        code: With what it ended.
        lines: What it said.
    """

    def __init__(self, code: int, lines: list[str]) -> None:
        super().__init__(code, lines)
        self.code, self.lines = code, lines


class _Said:
    """What a process says on stderr: the last lines, and how many there were."""

    def __init__(self) -> None:
        self.lines: deque[str] = deque(maxlen=_LINES_KEPT)
        self.count = 0
        self._rest = b""

    def add(self, line: str) -> None:
        self.lines.append(line)
        self.count += 1

    def feed(self, data: bytes) -> None:
        *whole, rest = (self._rest + data).split(b"\n")
        if len(rest) > _LINE_BYTES_MAX:
            whole.append(rest)
            rest = b""
        self._rest = rest
        for line in whole:
            text = line.decode(errors="replace").rstrip()
            for prefix in ("stook: ", "stook mount: ", "error: "):
                text = text.removeprefix(prefix)
            if text:
                self.add(text)

    def listen(self, stream: IO[bytes]) -> None:
        with stream:
            while data := stream.read(_LINE_BYTES_MAX):
                self.feed(data)
        self.feed(b"\n")


class Running:
    """The command-line tool, which runs until it is ended.

    Nothing but this module holds it when its user has dropped it: what the user has is another
    object, which can be collected while this one listens.

    Attributes:
        begun: The document that it printed when it could be used.
        code: With what it ended; ``None`` before `end`.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        what: str,
        *,
        made: Optional[str] = None,
        log: Optional[str] = None,
    ) -> None:
        """Starts it, and waits until it can be used.

        Args:
            arguments: Its arguments.
            environment: Its environment.
            what: What its warnings are about.
            made: A directory that is removed when it has ended.
            log: The file in which it says what could not be read, where that is not stderr.

        Raises:
            Refused: It ended before.
        """
        self.code: Optional[int] = None
        self.begun: Optional[dict[str, Any]] = None
        self._what, self._made, self._log = what, made, log
        self._said, self._warned = _Said(), 0
        self._ending = threading.RLock()
        self._listener: Optional[threading.Thread] = None
        pipe = subprocess.PIPE
        try:
            with _STARTING:
                # In a session of its own: Ctrl-C is for this process, which ends the other. Without
                # buffers, whose locks another thread may hold when this process is forked.
                self.process = subprocess.Popen(
                    [find_binary(), *arguments],
                    bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe, env=dict(environment), start_new_session=True,
                )
                _RUNNING.add(self)
        except BaseException:
            self._remove()
            raise
        try:
            line = self._first_line()
            self._listener = threading.Thread(
                target=self._said.listen, args=(self.process.stderr,), name="stook-present", daemon=True
            )
            self._listener.start()
            self.begun = json.loads(line) if line else None
        except BaseException:
            self.end()
            raise
        if self.begun is None:
            raise Refused(self.end(), self.failures)

    def _first_line(self) -> bytes:
        """The first line that it prints, or nothing where it has ended.

        What it said before that has been heard then.
        """
        out, errors = self.process.stdout, self.process.stderr
        assert out is not None and errors is not None
        line = b""
        with selectors.DefaultSelector() as waiting:
            waiting.register(out, selectors.EVENT_READ)
            waiting.register(errors, selectors.EVENT_READ)
            while b"\n" not in line:
                for key, _ in waiting.select():
                    data = os.read(key.fd, _LINE_BYTES_MAX)
                    if key.fd == out.fileno():
                        if not data:
                            return b""
                        line += data
                    elif data:
                        self._said.feed(data)
                    else:
                        waiting.unregister(errors)
        os.set_blocking(errors.fileno(), False)
        with suppress(BlockingIOError):
            while data := os.read(errors.fileno(), _LINE_BYTES_MAX):
                self._said.feed(data)
        os.set_blocking(errors.fileno(), True)
        return line

    @property
    def failures(self) -> list[str]:
        """The last lines of what it said."""
        return list(self._said.lines.copy())

    @property
    def has_ended(self) -> bool:
        """Whether it has ended, by itself or by `end`."""
        return self.process.poll() is not None

    def end(self) -> int:
        """Ends it, and says with what. The second time nothing happens."""
        if self.code is not None:
            return self.code
        with self._ending:
            if self.code is None:
                self.code = self._end()
                _RUNNING.discard(self)
                self._remove()
        return self.code

    def _end(self) -> int:
        stdin, out = self.process.stdin, self.process.stdout
        assert stdin is not None and out is not None
        stdin.close()
        code = self._wait()
        if self._listener is not None and self._listener is not threading.current_thread():
            self._listener.join(_END_SECONDS)
        elif self._listener is None and self.process.stderr is not None:
            self.process.stderr.close()
        out.close()
        if self.begun is not None:
            if code < 0:
                self._said.add(f"the process of it was killed by signal {-code}")
            elif code > 1:
                self._said.add(f"the process of it ended with status {code}")
            elif code == 1 and not self._said.count:
                where = "" if self._log is None else f": {self._log} says what"
                self._said.add(f"something could not be read{where}")
        return code

    def _wait(self) -> int:
        """Waits until it has ended, and asks for it more and more firmly."""
        for seconds, ask in ((_PIPE_SECONDS, self.process.terminate), (_END_SECONDS, self.process.kill)):
            try:
                return self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                ask()
        return self.process.wait()

    def _remove(self) -> None:
        """Removes what was made. It is empty then, but one that was killed may still be mounted."""
        made, self._made = self._made, None
        until = time.monotonic() + _END_SECONDS
        while made is not None:
            try:
                os.rmdir(made)
            except FileNotFoundError:
                pass
            except OSError as error:
                if error.errno not in (errno.EBUSY, errno.ENOTCONN) or time.monotonic() > until:
                    raise
                time.sleep(_LOOK_SECONDS)
                continue
            return

    def warn(self, stacklevel: int) -> None:
        """Warns of failures that no warning was about so far."""
        count = self._said.count - self._warned
        self._warned += count
        if count:
            first = self.failures[-min(count, _LINES_KEPT)]
            more = f" (and {count - 1} more: see `failures`)" if count > 1 else ""
            warnings.warn(f"{self._what}: {first}{more}", DamageWarning, stacklevel=stacklevel + 1)

    def let_go(self) -> None:
        """In a process that was forked: it is that of the other."""
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        # Nothing here may wait for it, or warn of it.
        self.process.returncode = self.code = 0
        self._warned = self._said.count


#: Those that have not been ended.
_RUNNING: set[Running] = set()
#: Held while a process is started: what is forked then would have pipes that nobody closes.
_STARTING = threading.RLock()


def _before_fork() -> None:
    _STARTING.acquire()


def _after_fork() -> None:
    _STARTING.release()


def _in_child() -> None:
    global _STARTING
    _STARTING = threading.RLock()
    for running in _RUNNING:
        running.let_go()
    _RUNNING.clear()


def _at_exit() -> None:
    for running in list(_RUNNING):
        try:
            running.end()
            running.warn(1)
        except Exception:
            sys.excepthook(*sys.exc_info())


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
atexit.register(_at_exit)
