"""Trees for other programs: mounted, or over HTTP, by the command-line tool in its own process.

That process ends with this one, however that ends: it waits for the end of a pipe.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path, PosixPath
from types import TracebackType
from typing import Any, Optional, TypeVar, Union

from ._errors import Error, InvalidError
from ._stook import path_argument
from .__main__ import find_binary

_Running = TypeVar("_Running", bound="_Process")
_Source = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
_Sources = Union[_Source, Sequence[_Source], Sequence[PosixPath], Sequence[str]]

#: With what the command-line tool ends where its arguments make no sense.
_WRONG_USAGE = 2
#: The last lines of what it says are kept, for errors.
_LINES_KEPT = 20
#: How long it may take to end.
_END_SECONDS = 30


class PresentError(Error, OSError):
    """Something could not be mounted, unmounted or served; the message says why."""


@dataclass(frozen=True)
class MountStatus:
    """What a mount did so far.

    Attributes:
        mode: ``"small"``: nothing changes, and no file is large; ``"large"``: nothing changes;
            ``"live"``: what is shown may change.
        requests: How many requests of each kind the kernel sent.
        read_bytes: Bytes that were read for them.
        pushed_files: Files that were put into memory before they were asked for.
        pushed_bytes: Their bytes.
        hidden: What is in the source and cannot be shown, and why; the first hundred.
        log: What could not be read, and why; the last hundred lines.
        document: Everything: the document that ``stook mount --status --json`` prints.
    """

    mode: str
    requests: dict[str, int]
    read_bytes: int
    pushed_files: int
    pushed_bytes: int
    hidden: list[str]
    log: list[str]
    document: dict[str, Any] = field(repr=False)


class _Process:
    """The command-line tool, which runs until it is ended."""

    def __init__(self, arguments: Sequence[str], environment: dict[str, str]) -> None:
        command = [find_binary(), *arguments]
        pipe = subprocess.PIPE
        # In a group of its own: Ctrl-C is for this process, which ends the other.
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, env={**os.environ, **environment}, start_new_session=True
        )
        self._said: deque[str] = deque(maxlen=_LINES_KEPT)
        self._listener = threading.Thread(target=self._listen, name="stook-present", daemon=True)
        self._listener.start()
        try:
            assert self._process.stdout is not None
            line = self._process.stdout.readline()
        except BaseException:
            self._end()
            raise
        if not line:
            self._fail(self._end())
        self._begun: dict[str, Any] = json.loads(line)

    def _listen(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._said.append(line.decode(errors="replace").rstrip())

    def _end(self) -> int:
        """Ends it, and says with what."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            code = self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._listener.join()
        self._process.stdout.close()
        if self._process.stderr is not None:
            self._process.stderr.close()
        return code

    def _fail(self, code: int) -> None:
        said = "\n".join(line.removeprefix("stook: ").removeprefix("error: ") for line in self._said)
        message = said or f"the command-line tool ended with status {code}"
        raise InvalidError(message) if code == _WRONG_USAGE else PresentError(message)

    @property
    def closed(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    def close(self) -> None:
        """Ends it. Nothing happens where it has ended."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._end()

    def __enter__(self: _Running) -> _Running:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # Where starting it failed there is none.
        if getattr(self, "_begun", None) is not None:
            self.close()


class Mount(_Process):
    """A tree that is mounted: see :func:`mount`.

    Attributes:
        path: Where it is mounted.
    """

    path: Path

    def __init__(self, arguments: Sequence[str], environment: dict[str, str], path: str, made: bool) -> None:
        self.path, self._made = Path(path), made
        try:
            super().__init__([*arguments, path], environment)
        except BaseException:
            self._remove()
            raise

    def _remove(self) -> None:
        if self._made:
            # Not what is in it: it is empty, or still mounted.
            Path(self.path).rmdir()
            self._made = False

    def status(self) -> MountStatus:
        """What it did so far.

        Raises:
            stook.PresentError: It has ended.
        """
        done = subprocess.run(
            [find_binary(), "mount", "--status", "--json", "--", str(self.path)], capture_output=True, check=False
        )
        if done.returncode != 0:
            raise PresentError(done.stderr.decode(errors="replace").strip().removeprefix("stook: "))
        document: dict[str, Any] = json.loads(done.stdout)
        return MountStatus(
            mode=document["mode"],
            requests=document["requests"],
            read_bytes=document["read_bytes"],
            pushed_files=document["pushed"]["files"],
            pushed_bytes=document["pushed"]["bytes"],
            hidden=document["hidden"]["named"],
            log=document["log"],
            document=document,
        )

    def close(self) -> None:
        """Unmounts it. What is in use becomes an error for those who use it."""
        super().close()
        self._remove()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"of {self._begun['source']}"
        return f"<stook.Mount {state} at {self.path}>"


class Server(_Process):
    """A tree that is served: see :func:`serve`.

    Attributes:
        url: Where.
        port: The port of it.
    """

    url: str
    port: int

    def __init__(self, arguments: Sequence[str], environment: dict[str, str]) -> None:
        super().__init__(arguments, environment)
        self.url, self.port = self._begun["url"], self._begun["port"]

    def __repr__(self) -> str:
        return f"<stook.Server {'closed' if self.closed else 'at'} {self.url}>"

    def _repr_html_(self) -> str:
        return f'<a href="{self.url}">{self.url}</a>'


def _at(at: Union[datetime, str, float, int, None]) -> list[str]:
    if at is None:
        return []
    if isinstance(at, datetime):
        text = f"@{at.timestamp():.9f}"
    elif isinstance(at, (int, float)):
        text = f"@{at:.9f}"
    else:
        text = at
    return [f"--at={text}"]


def _fetching(cache: Optional[_Source], whole_file: bool, settings: Optional[dict[str, str]]) -> tuple[list[str], dict[str, str]]:
    arguments = [] if cache is None else [f"--cache-dir={path_argument('cache', cache)}"]
    if whole_file:
        arguments.append("--whole-file")
    return arguments, dict(settings or {})


def _several(name: str, given: _Sources) -> list[str]:
    several = [given] if isinstance(given, (str, bytes, os.PathLike)) else list(given)
    return [path_argument(name, one) for one in several]


def mount(
    sources: _Sources,
    mountpoint: Optional[_Source] = None,
    *,
    routes: Union[_Sources, None] = None,
    ignore_case: bool = False,
    merged_cache: Optional[_Source] = None,
    merged_cache_size: int = 10 << 30,
    merge: str = "auto",
    follow: bool = False,
    at: Union[datetime, str, float, int, None] = None,
    allow_other: bool = False,
    threads: int = 8,
    push: bool = True,
    passthrough: bool = True,
    member_xattrs: bool = False,
    timeout: int = 60,
    log: Optional[_Source] = None,
    cache: Optional[_Source] = None,
    whole_file: bool = False,
    settings: Optional[dict[str, str]] = None,
) -> Mount:
    """Shows a tree to any program, as a read-only directory.

    A process of its own serves it, until the mount is closed or this process has ended.

    Args:
        sources: A directory, a pack, an archive, a layout; or several in a list, shown as one, in
            which the later counts.
        mountpoint: An empty directory; of one file a file. ``None``: a directory that is made, and
            removed in the end.
        routes: Folders whose paths name archives, and members in them that are replaced.
        ignore_case: Whether names in these that differ only in case are one.
        merged_cache: A directory in which copies of changed archives are kept, and read.
        merged_cache_size: Bytes that the copies may take; those that were used longest ago are
            removed.
        merge: Which archives get a copy: short ones of many short parts, on disks that take long
            for each (``"auto"``), or all (``"always"``).
        follow: Whether what others write to a pack is shown, within seconds.
        at: The state of packs at this time rather than the newest, as for `Pack`.
        allow_other: Whether other users may see it.
        threads: Threads that answer.
        push: Whether small files are put into memory before they are asked for.
        passthrough: Whether the kernel may read whole files on disk by itself.
        member_xattrs: Whether members of packs and archives have ``user.stook.key``, ``.group`` and
            ``.checksum``.
        timeout: How many seconds a read from a server may take, tries included.
        log: A file that lines are appended to: what could not be read, and why.
        cache: Of archives on servers: a directory in which what was fetched is kept.
        whole_file: Whether an object whose server cannot send parts is read as a whole.
        settings: Settings of the object store by their names in the environment (``AWS_REGION``).

    Returns:
        A `Mount`, which can be used at once. As a context manager it unmounts in the end.

    Raises:
        stook.PresentError: It cannot be opened or mounted.
        stook.InvalidError: An argument makes no sense.

    Examples:
        >>> import pathlib, stook
        >>> pathlib.Path("cards").mkdir()
        >>> size = pathlib.Path("cards/note").write_bytes(b"a note")
        >>> report = stook.pack_tree("cards", "cards.stook")
        >>> with stook.mount("cards.stook") as mounted:
        ...     (mounted.path / "note").read_bytes()
        b'a note'
    """
    fetch, environment = _fetching(cache, whole_file, settings)
    arguments = ["mount", "--while-stdin", "--json", f"--threads={threads}", f"--timeout={timeout}", *_at(at), *fetch]
    for is_wanted, option in [
        (ignore_case, "--ignore-case"),
        (follow, "--follow"),
        (allow_other, "--allow-other"),
        (not push, "--no-push"),
        (not passthrough, "--no-passthrough"),
        (member_xattrs, "--member-xattrs"),
    ]:
        if is_wanted:
            arguments.append(option)
    if log is not None:
        arguments.append(f"--log={path_argument('log', log)}")
    if merged_cache is not None:
        arguments.append(f"--merged-cache={path_argument('merged_cache', merged_cache)}")
        arguments += [f"--merged-cache-size={merged_cache_size}", f"--merge={merge}"]
    arguments += [f"--with={route}" for route in _several("routes", [] if routes is None else routes)]
    given = _several("sources", sources)
    made = mountpoint is None
    path = tempfile.mkdtemp(prefix="stook-mount-") if mountpoint is None else path_argument("mountpoint", mountpoint)
    return Mount([*arguments, "--", *given], environment, path, made)


def serve(
    source: _Source,
    *,
    listen: str = "127.0.0.1",
    port: int = 0,
    token: Optional[str] = None,
    public: bool = False,
    connections: int = 64,
    at: Union[datetime, str, float, int, None] = None,
    cache: Optional[_Source] = None,
    whole_file: bool = False,
    settings: Optional[dict[str, str]] = None,
) -> Server:
    """Serves a tree over HTTP: files by range, directories as pages, or as a tar or zip.

    A process of its own serves it, until the server is closed or this process has ended.

    Args:
        source: A directory, a file, a pack, an archive with two slashes (``"x.tar//"``).
        listen: An address of this machine. Others can connect only to one that is not of the
            loopback, which takes a ``token``, or ``public``.
        port: The port; 0 is any that is free.
        token: What clients have to give.
        public: Whether others may connect without a token.
        connections: Connections at a time.
        at: The state of packs at this time rather than the newest, as for `Pack`.
        cache: Of archives on servers: a directory in which what was fetched is kept.
        whole_file: Whether an object whose server cannot send parts is read as a whole.
        settings: Settings of the object store by their names in the environment (``AWS_REGION``).

    Returns:
        A `Server`, which answers at once. As a context manager it ends in the end.

    Raises:
        stook.PresentError: It cannot be opened, or the address cannot be used.
        stook.InvalidError: An argument makes no sense.

    Examples:
        >>> import pathlib, stook, urllib.request
        >>> size = pathlib.Path("note").write_bytes(b"a note")
        >>> with stook.serve("note") as server:
        ...     urllib.request.urlopen(server.url + "note").read()
        b'a note'
    """
    fetch, environment = _fetching(cache, whole_file, settings)
    if token is not None:
        # Not among the arguments, which every user can list.
        environment["STOOK_SERVE_TOKEN"] = token
    options = [f"--listen={listen}", f"--port={port}", f"--connections={connections}", *_at(at), *fetch]
    arguments = ["serve", "--while-stdin", "--json", *options, *(["--public"] if public else [])]
    return Server([*arguments, "--", path_argument("source", source)], environment)
