"""Trees for other programs: mounted, or over HTTP, by the command-line tool in its own process."""

import html
import ipaddress
import json
import operator
import os
import re
import subprocess
import tempfile
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Optional, TypeVar, Union

from ._errors import ClosedError, Error, InvalidError
from ._html import Report
from ._running import Refused, Running
from ._stook import DiskCache, local_path, path_argument, shown_in
from .__main__ import find_binary

_Closing = TypeVar("_Closing", bound="_Present")
_Source = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
_Sources = Union[_Source, Iterable[_Source], Iterable["os.PathLike[str]"], Iterable[str]]
_Time = Union[datetime, str, float, int]

#: With what the command-line tool ends where its arguments make no sense.
_WRONG_USAGE = 2
#: Where the command-line tool looks for a token.
_TOKEN_VARIABLE = "STOOK_SERVE_TOKEN"
#: Arguments whose options have other names.
_ARGUMENTS = {"with": "routes", "cache-dir": "cache", "no-push": "push", "no-passthrough": "passthrough"}
#: An option in a message of the command-line tool.
_OPTION = re.compile(r"(?<![\w./-])'?--([a-z]+(?:-[a-z]+)*)(?: <[A-Z]+>)?(?:\.\.\.)?'?(?![\w/-])")
#: A value that an option cannot have.
_WRONG_VALUE = re.compile(r"invalid value '(.*)' for '--([a-z-]+)(?: <[A-Z]+>)?(?:\.\.\.)?': (.*)", re.DOTALL)


class PresentError(Error, OSError):
    """Something could not be mounted, unmounted or served; the message says why."""


@dataclass(frozen=True)
class MountStatus(Report):
    """What a mount did so far.

    Attributes:
        mode: ``"small"``: nothing changes, and no file is large; ``"large"``: nothing changes;
            ``"live"``: what is shown may change.
        process: The number of the process that serves it.
        threads: Threads that answer.
        nodes: Files, directories and all else in it; ``None`` of a directory on disk.
        requests: How many requests of each kind the kernel sent.
        read_bytes: Bytes that were read for them.
        passed_through: How many opens were of whole files on disk, which the kernel reads by
            itself.
        pushed_files: Files that were put into memory before they were asked for.
        pushed_bytes: Their bytes.
        hidden_entries: How many entries of the source cannot be shown.
        hidden: The first hundred of them, and why.
        log_lines: How many lines the log had.
        log: What could not be read, and why; the last hundred lines.
        document: Everything: the document that ``stook mount --status --json`` prints.
    """

    mode: str
    process: int
    threads: int
    nodes: Optional[int]
    requests: dict[str, int]
    read_bytes: int
    passed_through: int
    pushed_files: int
    pushed_bytes: int
    hidden_entries: int
    hidden: list[str]
    log_lines: int
    log: list[str]
    document: dict[str, Any] = field(repr=False)


class _Present:
    """What is shown to others until it is closed."""

    def __init__(self, running: Running) -> None:
        assert running.begun is not None
        self._begun = running.begun
        # Last: what has it can be closed.
        self._running = running

    @property
    def closed(self) -> bool:
        """Whether it has ended. In a process that was forked it is so from the beginning: what is
        shown is there, and belongs to the other process."""
        return self._running.has_ended

    @property
    def failures(self) -> list[str]:
        """What could not be read so far, and why: the last hundred lines. `close` warns of them."""
        return self._running.failures

    def close(self) -> None:
        """Ends it. Nothing happens where it was closed before, or in a process that was forked.

        Warns:
            stook.DamageWarning: Something could not be read: `failures` says what.
        """
        self._close(3)

    def _close(self, stacklevel: int) -> None:
        self._running.end()
        self._running.warn(stacklevel)

    def __enter__(self: _Closing) -> _Closing:
        if self.closed:
            raise ClosedError(f"{self!r} cannot be used any more")
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self._close(3)

    def __del__(self) -> None:
        # Where starting it failed there is none.
        running = getattr(self, "_running", None)
        if running is None or running.code is not None:
            return
        shown = repr(self)
        running.end()
        running.warn(2)
        warnings.warn(f"{shown} was not closed", ResourceWarning, stacklevel=2, source=self)


class Mount(_Present):
    """A tree that is mounted: see :func:`mount`.

    Attributes:
        path: Where it is mounted: a full path.
    """

    path: Path

    def __init__(self, running: Running, path: str) -> None:
        self.path = Path(path)
        super().__init__(running)

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
            process=document["process"],
            threads=document["threads"],
            nodes=document["nodes"],
            requests=document["requests"],
            read_bytes=document["read_bytes"],
            passed_through=document["passed_through"],
            pushed_files=document["pushed"]["files"],
            pushed_bytes=document["pushed"]["bytes"],
            hidden_entries=document["hidden"]["entries"],
            hidden=document["hidden"]["named"],
            log_lines=document["log_lines"],
            log=document["log"],
            document=document,
        )

    def close(self) -> None:
        """Unmounts it. What is in use becomes an error for those who use it.

        Nothing happens where it was closed before, or in a process that was forked.

        Warns:
            stook.DamageWarning: Something could not be read: `failures` says what.
        """
        self._close(3)

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"of {self._begun['source']}"
        return f"<stook.Mount {state} at {self.path}>"


class Server(_Present):
    """A tree that is served: see :func:`serve`.

    Attributes:
        url: Where.
        port: The port of it.
    """

    url: str
    port: int

    def __init__(self, running: Running) -> None:
        assert running.begun is not None
        self.url, self.port = running.begun["url"], running.begun["port"]
        super().__init__(running)

    def __repr__(self) -> str:
        return f"<stook.Server {'closed' if self.closed else 'at'} {self.url}>"

    def _repr_html_(self) -> str:
        shown = html.escape(self.url)
        return f'<a href="{shown}">{shown}</a>'


def _wanted(name: str, what: str, given: object) -> TypeError:
    return TypeError(f"argument '{name}': {what} is wanted, not {type(given).__name__}")


def _flag(name: str, given: object, option: str, is_given_if: bool = True) -> list[str]:
    if not isinstance(given, bool):
        raise _wanted(name, "True or False", given)
    return [option] if given is is_given_if else []


def _number(name: str, given: object) -> str:
    if isinstance(given, bool) or not hasattr(given, "__index__"):
        raise _wanted(name, "an int", given)
    return f"--{name.replace('_', '-')}={operator.index(given)}"


def _text(name: str, given: object) -> str:
    if not isinstance(given, str):
        raise _wanted(name, "a str", given)
    if "\0" in given:
        raise InvalidError(f"argument '{name}': it has a zero byte")
    return given


def _at(at: Optional[_Time]) -> list[str]:
    """As what `Pack` takes: an int is nanoseconds."""
    if at is None:
        return []
    if isinstance(at, datetime):
        # Its microseconds are taken apart, because a float would round them.
        seconds = round(at.timestamp() - at.microsecond * 1e-6)
        ns = seconds * 10**9 + at.microsecond * 1000
    elif isinstance(at, float):
        try:
            ns = int(at * 1e9)
        except (ValueError, OverflowError):
            raise InvalidError(f"argument 'at': {at} is no time that a pack can have") from None
    elif isinstance(at, str):
        return [f"--at={_text('at', at)}"]
    elif hasattr(at, "__index__") and not isinstance(at, bool):
        ns = operator.index(at)
    else:
        wanted = "a time is a datetime, a text like 2026-11-21T20:30:00Z, a float of seconds or an int of nanoseconds"
        raise TypeError(f"argument 'at': {wanted} since 1970, not {at!r}")
    if ns < 0:
        raise InvalidError(f"argument 'at': {at} is before 1970")
    return [f"--at=@{ns // 10**9}.{ns % 10**9:09d}"]


def _fetching(cache: Union[_Source, DiskCache, None], whole_file: bool) -> list[str]:
    arguments = _flag("whole_file", whole_file, "--whole-file")
    if isinstance(cache, DiskCache):
        return [*arguments, f"--cache-dir={cache.directory}", f"--cache-size={cache.budget_bytes}"]
    return [*arguments, *([] if cache is None else [f"--cache-dir={path_argument('cache', cache)}"])]


def _environment(settings: Optional[Mapping[str, str]]) -> dict[str, str]:
    """That of the process, without a token that is meant for the command line."""
    if not isinstance(settings, (Mapping, type(None))):
        raise _wanted("settings", "a dict", settings)
    environment = {name: value for name, value in os.environ.items() if name != _TOKEN_VARIABLE}
    for name, value in (settings or {}).items():
        environment[_text("settings", name)] = _text("settings", value)
    return environment


def _several(name: str, given: _Sources) -> list[str]:
    if isinstance(given, (str, bytes, os.PathLike)):
        return [path_argument(name, given)]
    if not isinstance(given, Iterable):
        raise _wanted(name, "a path, or several,", given)
    several: Iterable[Any] = given
    return [path_argument(name, one) for one in several]


def _said(lines: list[str]) -> str:
    """What the command-line tool said, in terms of the arguments of functions."""
    kept: list[str] = []
    for line in lines:
        if line.startswith(("Usage:", "For more information")):
            break
        kept.append(line.strip())
    text = "\n".join(kept).replace("arguments were not provided:\n", "arguments were not provided: ")
    wrong = _WRONG_VALUE.fullmatch(text)
    if wrong:
        value, option, why = wrong.groups()
        given = f", not {value}" if why.startswith("expected") else ""
        return f"argument '{_argument(option)}': {why}{given}"
    for of_options, of_arguments in [
        (f"--token, --token-file or {_TOKEN_VARIABLE}, or --public,", "'token', or 'public',"),
        (f"{_TOKEN_VARIABLE} gives an", "argument 'token': it is an"),
        (f"{_TOKEN_VARIABLE} gives", "'token' gives"),
        ("--cache-dir, --cache-size and --whole-file", "'cache' and 'whole_file'"),
    ]:
        text = text.replace(of_options, of_arguments)
    return _OPTION.sub(lambda option: f"'{_argument(option[1])}'", text)


def _argument(option: str) -> str:
    return _ARGUMENTS.get(option, option.replace("-", "_"))


def _error(refused: Refused, paths: Iterable[str]) -> Exception:
    """What is raised where the command-line tool refuses: what is not there as `open` does."""
    message = _said(refused.lines) or f"the command-line tool ended with status {refused.code}"
    if refused.code == _WRONG_USAGE:
        return InvalidError(message)
    for path in paths:
        try:
            # Of an archive, and what is in it, the file.
            file = (local_path(path) or "").partition("//")[0]
            if file:
                os.stat(file)
        except OSError as error:
            return OSError(error.errno, f"cannot open {file}: {error.strerror}", file)
        except Error:
            # The message says so.
            pass
    return PresentError(message)


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
    at: Optional[_Time] = None,
    allow_other: bool = False,
    no_exec: bool = False,
    threads: int = 8,
    push: bool = True,
    passthrough: bool = True,
    member_xattrs: bool = False,
    timeout: int = 60,
    log: Optional[_Source] = None,
    cache: Union[_Source, DiskCache, None] = None,
    whole_file: bool = False,
    settings: Optional[Mapping[str, str]] = None,
) -> Mount:
    """Shows a tree to any program, as a read-only directory.

    A process of its own serves it, until the mount is closed or this process has ended. One that
    is dropped without that is closed, with a ``ResourceWarning``.

    Args:
        sources: A directory, a pack, an archive, a layout; or several in a list, shown as one, in
            which the later counts.
        mountpoint: A directory, whose content cannot be reached meanwhile. ``None``: one that is
            made, and removed when the mount is closed or this process ends, unless it is killed.
            One file needs a file.
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
        no_exec: Whether programs in it cannot be started.
        threads: Threads that answer.
        push: Whether small files are put into memory before they are asked for.
        passthrough: Whether the kernel may read whole files on disk by itself.
        member_xattrs: Whether members of packs and archives have ``user.stook.key``, ``.group`` and
            ``.checksum``.
        timeout: How many seconds a read from a server may take, tries included.
        log: A file that lines are appended to: what could not be read, and why. They are not in
            `Mount.failures` then.
        cache: Of archives on servers: a directory in which what was fetched is kept, or a
            `DiskCache`, which says how much.
        whole_file: Whether an object whose server cannot send parts is read as a whole.
        settings: Settings of the object store by their names in the environment (``AWS_REGION``).

    Returns:
        A `Mount`, which can be used at once. As a context manager it unmounts in the end.

    Raises:
        FileNotFoundError: A source, or the mountpoint, is not there.
        stook.PresentError: It cannot be opened or mounted.
        stook.InvalidError: An argument makes no sense.

    Warns:
        stook.DamageWarning: Something of it cannot be read: now, or when it is closed.

    Examples:
        >>> import pathlib, stook
        >>> pathlib.Path("cards").mkdir()
        >>> size = pathlib.Path("cards/note").write_bytes(b"a note")
        >>> report = stook.pack_tree("cards", "cards.stook")
        >>> with stook.mount("cards.stook") as mounted:
        ...     (mounted.path / "note").read_bytes()
        b'a note'
    """
    arguments = ["mount", "--while-stdin", "--json", "--quiet", _number("threads", threads), _number("timeout", timeout)]
    for flag in [
        _flag("ignore_case", ignore_case, "--ignore-case"),
        _flag("follow", follow, "--follow"),
        _flag("allow_other", allow_other, "--allow-other"),
        _flag("no_exec", no_exec, "--no-exec"),
        _flag("push", push, "--no-push", is_given_if=False),
        _flag("passthrough", passthrough, "--no-passthrough", is_given_if=False),
        _flag("member_xattrs", member_xattrs, "--member-xattrs"),
        _fetching(cache, whole_file),
        _at(at),
    ]:
        arguments += flag
    log_path = None if log is None else path_argument("log", log)
    if log_path is not None:
        arguments.append(f"--log={log_path}")
    if merged_cache is not None:
        arguments.append(f"--merged-cache={path_argument('merged_cache', merged_cache)}")
        arguments += [_number("merged_cache_size", merged_cache_size), f"--merge={merge}"]
    folders = [] if routes is None else _several("routes", routes)
    given, environment = _several("sources", sources), _environment(settings)
    if not given:
        raise InvalidError("argument 'sources': at least one is wanted")
    if ignore_case and not folders:
        raise InvalidError("argument 'ignore_case': it is about names in 'routes', and none are given")
    arguments += [f"--with={folder}" for folder in folders]
    what = shown_in(" + ".join(given))
    path = tempfile.mkdtemp(prefix="stook-mount-") if mountpoint is None else os.path.abspath(path_argument("mountpoint", mountpoint))
    made = path if mountpoint is None else None
    try:
        running = Running([*arguments, "--", *given, path], environment, what, made=made, log=log_path)
    except Refused as refused:
        if mountpoint is not None:
            raise _error(refused, [*given, *folders, path]) from None
        refused.lines = [line.replace(path, "the directory made for mountpoint=None") for line in refused.lines]
        raise _error(refused, [*given, *folders]) from None
    return _begun(Mount(running, path))


def serve(
    source: _Source,
    *,
    listen: str = "127.0.0.1",
    port: Optional[int] = None,
    token: Optional[str] = None,
    public: bool = False,
    connections: int = 64,
    at: Optional[_Time] = None,
    cache: Union[_Source, DiskCache, None] = None,
    whole_file: bool = False,
    settings: Optional[Mapping[str, str]] = None,
) -> Server:
    """Serves a tree over HTTP: files by range, directories as pages, or as a tar or zip.

    A process of its own serves it, until the server is closed or this process has ended. One that
    is dropped without that is closed, with a ``ResourceWarning``.

    Args:
        source: A directory, a file, a pack, an archive with two slashes (``"x.tar//"``).
        listen: An address of this machine, with or without a port. Others can connect only to one
            that is not of the loopback, which takes a ``token``, or ``public``.
        port: The port; ``None`` is that of ``listen``, or any that is free, as 0 is.
        token: What clients have to give. That of the environment is for the command line alone.
        public: Whether others may connect without a token.
        connections: Connections at a time.
        at: The state of packs at this time rather than the newest, as for `Pack`.
        cache: Of archives on servers: a directory in which what was fetched is kept, or a
            `DiskCache`, which says how much.
        whole_file: Whether an object whose server cannot send parts is read as a whole.
        settings: Settings of the object store by their names in the environment (``AWS_REGION``).

    Returns:
        A `Server`, which answers at once. As a context manager it ends in the end.

    Raises:
        FileNotFoundError: The source is not there.
        stook.PresentError: It cannot be opened, or the address cannot be used.
        stook.InvalidError: An argument makes no sense.

    Warns:
        stook.DamageWarning: Something of it cannot be read: now, or when it is closed.

    Examples:
        >>> import pathlib, stook, urllib.request
        >>> size = pathlib.Path("note").write_bytes(b"a note")
        >>> with stook.serve("note") as server:
        ...     urllib.request.urlopen(server.url + "note").read()
        b'a note'
    """
    arguments = ["serve", "--while-stdin", "--json", "--quiet", f"--listen={_text('listen', listen)}"]
    if port is not None:
        arguments.append(_number("port", port))
    elif not _has_port(listen):
        arguments.append("--port=0")
    arguments += [_number("connections", connections), *_flag("public", public, "--public"), *_at(at)]
    arguments += _fetching(cache, whole_file)
    path, environment = path_argument("source", source), _environment(settings)
    if token is not None:
        environment[_TOKEN_VARIABLE] = _text("token", token)
    try:
        running = Running([*arguments, "--", path], environment, shown_in(path))
    except Refused as refused:
        raise _error(refused, [path]) from None
    return _begun(Server(running))


def _has_port(listen: str) -> bool:
    """Whether there is a port after the address, if it is one."""
    try:
        ipaddress.ip_address(listen)
    except ValueError:
        return ":" in listen
    return False


def _begun(present: _Closing) -> _Closing:
    """Warns of what cannot be read of it from the beginning."""
    try:
        present._running.warn(3)
    except Warning:
        present._running.end()
        raise
    return present
