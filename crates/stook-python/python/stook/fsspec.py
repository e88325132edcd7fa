"""Packs, and the cache of remote files, for everything that reads through ``fsspec``.

``fsspec`` finds them by their names once this package is installed:

- ``stook://data.stook//key`` is a record of a pack: ``fsspec.open``, ``pandas.read_parquet``, ...
- ``stookcache::s3://bucket/key`` reads any other file system through :class:`stook.SparseFile`:
  what is missing is fetched in few requests, and kept in memory, and on disk with
  ``stookcache={"cache": directory}``.
- ``cache_type="stook"`` is the same for the files of file systems that buffer by themselves
  (``s3fs``, ``gcsfs``, ``adlfs``, HTTP); importing this module registers it.
"""

from __future__ import annotations

import errno
import functools
import inspect
import os
import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional, TypeVar, Union

from fsspec import AbstractFileSystem, filesystem
from fsspec.caching import BaseCache, register_cache
from fsspec.core import get_filesystem_class

from stook._errors import InvalidError, NotAPackError, SourceChangedError
from stook._file import File
from stook._options import check_names
from stook._paths import is_path
from stook._secrets import redacted, redacting_errors
from stook._stook import (
    SETTLING_MAX, Pack, Record, RecordFile, SparseFile, Stat, check_sparse_options, described,
    has_pack, shown_in, split_pack_path, who_asks,
)
from stook._typing import FileSystemOptions, PackFileSystemOptions

try:
    from fsspec.implementations.chained import ChainedFileSystem
except ImportError:  # fsspec before 2025.9 knows its own chained file systems by name only.
    ChainedFileSystem = AbstractFileSystem

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from stook._typing import CacheFileSystemOptions, Key, SparseFileOptions

_SCHEME = "stook:"
Info = dict[str, Any]
_Class = TypeVar("_Class", bound=type)
#: The length of a file, and what `described` gives.
_FileState = tuple[int, Optional[str], Optional[str], Optional[float]]


def _joined(pack: str, key: str) -> str:
    return f"{pack}//{key}" if key else pack


def _without_scheme(path: str) -> str:
    if path.startswith(f"{_SCHEME}//"):
        return path[len(_SCHEME) + 2 :]
    if not path.startswith(f"{_SCHEME}/"):
        return path
    # pathlib makes the same of `stook://data.stook` and `stook:///data.stook`.
    path = path[len(_SCHEME) :]
    return path if os.path.exists(split_pack_path(path)[0]) else path[1:]


#: What is said of everything that would write to a pack.
_READ_HERE = "packs are read here; they are written with stook.Pack"
#: The methods of `fsspec` that write; all others that do call one of these.
_WRITING = (
    "copy", "cp_file", "makedirs", "mkdir", "mv", "pipe", "pipe_file", "put", "put_file", "rm",
    "rm_file", "rmdir", "touch",
)


def _refusing_to_write(cls: _Class) -> _Class:
    """A file system of which no method seems to have written."""

    def refusing(name: str) -> Callable[..., Any]:
        @functools.wraps(getattr(AbstractFileSystem, name))
        def refused(_self: Any, *_arguments: Any, **_options: Any) -> Any:
            raise InvalidError(f"{name}: {_READ_HERE}")

        return refused

    for name in _WRITING:
        setattr(cls, name, refusing(name))
    return cls


class _Opened(File):
    """A record of a pack, with what files of `fsspec` have beside their bytes."""

    def __init__(self, record: RecordFile, fs: StookFileSystem, path: str) -> None:
        super().__init__(record)
        self.fs = fs
        self.path = path

    @property
    def name(self) -> str:
        """The path in the file system."""
        return self.path

    @property
    def full_name(self) -> str:
        """The path with the name of the file system."""
        return self.fs.unstrip_protocol(self.path)

    @property
    def details(self) -> Info:
        """What the file system says of it."""
        return dict(self.fs.info(self.path))

    def info(self) -> Info:
        """The same."""
        return self.details

    def __reduce__(self) -> tuple[Any, ...]:
        self._check()
        return self.fs._open, (self.path,), {"_position": self._position}


@_refusing_to_write
class StookFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """Packs as a file system that can be read: ``stook://data.stook//key``.

    Keys are paths in a pack, with ``/`` between their parts; ids are their decimal digits. Where
    the name of a pack ends in ``.stook``, or the pack exists, one slash after it is enough. A pack
    is opened once and shows the state that it had then, until :meth:`invalidate_cache`. Hard links
    have the content of their file. Symbolic links are of type ``link``: :meth:`ls`
    shows where they lead, and they are not followed; :meth:`find`, :meth:`glob` and :meth:`get`
    pass over them.

    Keys that are no paths are not listed and not found, as ``stook unpack`` refuses them: those
    with a part that is empty, ``.`` or ``..``, or with ``/`` at their beginning or end.
    :class:`stook.Pack` reads them. Where a text and an id have the same digits, the text is meant.
    :meth:`exists` and its like raise what is wrong but that nothing is there: damage, options.
    """

    protocol = "stook"
    root_marker = ""
    async_impl = False

    def __init__(self, **options: Unpack[PackFileSystemOptions]) -> None:
        """Makes one.

        Args:
            **options: ``map``, ``access`` and ``at`` as for :class:`stook.Pack`; all others as for
                every file system of ``fsspec``.

        Raises:
            TypeError: An option that there is not.
        """
        known, what = PackFileSystemOptions.__annotations__.keys(), "those of packs are map, access and at"
        check_names(options, known, f"this is not among the options; {what}")
        of_packs = known - FileSystemOptions.__annotations__.keys()
        self._pack_options: Any = {name: value for name, value in options.items() if name in of_packs}
        super().__init__(**options)
        self._packs: dict[str, Pack] = {}
        self._packs_lock = threading.Lock()

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        pack, key = split_pack_path(_without_scheme(str(path)))
        return _joined(pack.rstrip("/"), key.strip("/"))

    @classmethod
    def _parent(cls, path: str) -> str:
        pack, key = split_pack_path(cls._strip_protocol(path))
        return _joined(pack, key.rpartition("/")[0])

    def unstrip_protocol(self, name: str) -> str:
        """The path with ``stook://`` before it."""
        return f"{_SCHEME}//{self._strip_protocol(name)}"

    def _open_pack(self, path: str) -> Pack:
        if not path:
            raise FileNotFoundError(errno.ENOENT, "no pack is named", path)
        with self._packs_lock:
            pack = self._packs.get(path)
            if pack is None or pack.closed:
                pack = self._packs[path] = Pack(path, "r", **self._pack_options)
            return pack

    def _opened(self, path: str) -> tuple[Pack, str, str]:
        """The pack that a path is in, its path and the key."""
        pack, key = split_pack_path(self._strip_protocol(path))
        return self._open_pack(pack), pack, key

    def invalidate_cache(self, path: Optional[str] = None) -> None:
        """Closes what is open, so that the newest state is opened next."""
        with self._packs_lock:
            packs, self._packs = self._packs, {}
        for pack in packs.values():
            pack.close()
        super().invalidate_cache(path)

    @staticmethod
    def _keys(key: str) -> list[Key]:
        """What a key in a path may mean."""
        if not is_path(key):
            return []
        # No id has more digits.
        return [key, int(key)] if key.isdecimal() and len(key) <= 20 and int(key) < 1 << 64 else [key]

    @staticmethod
    def _info_of(opened: Pack, name: str, stat: Stat) -> Info:
        """What is said of a record."""
        if stat.kind == "directory":
            return {"name": name, "size": 0, "type": "directory"}
        if stat.kind == "symlink":
            return {"name": name, "size": stat.size, "type": "link", "destination": os.fsdecode(opened[stat.key])}
        return {"name": name, "size": stat.size, "type": "file"}

    def info(self, path: str, **_options: Any) -> Info:
        """Name, type and size of a record, or of what keys have in common. Reads no file."""
        path = self._strip_protocol(path)
        opened, _, key = self._opened(path)
        stat = next(filter(None, opened.stats(self._keys(key))), None) if key else None
        if stat is not None:
            return self._info_of(opened, path, stat)
        if key and (not is_path(key) or next(iter(opened.keys(prefix=key + "/")), None) is None):
            raise FileNotFoundError(path)
        return {"name": path, "size": 0, "type": "directory"}

    def _known(self, path: str) -> Info:
        """The same; nothing where there is nothing. Damage and wrong options are reported."""
        try:
            return self.info(path)
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except NotAPackError:
            if has_pack(split_pack_path(self._strip_protocol(path))[0]):
                raise
            return {}

    def exists(self, path: str, **_options: Any) -> bool:
        """Whether there is a record, or something below the path."""
        return bool(self._known(path))

    def isdir(self, path: str) -> bool:
        """Whether it is a directory, or the pack itself."""
        return bool(self._known(path).get("type") == "directory")

    def isfile(self, path: str) -> bool:
        """Whether it is a record with content."""
        return bool(self._known(path).get("type") == "file")

    def ls(self, path: str, detail: bool = True, **_options: Any) -> list[Any]:
        """What is directly below a path; a record itself for the path of one."""
        opened, pack, key = self._opened(path)
        found: dict[str, Info] = {}
        try:
            below = opened.listdir(key)
        except (FileNotFoundError, NotADirectoryError):
            # A file or an id; else it is said below that there is none.
            below = []
        for stat in filter(lambda one: is_path(one.key), below):
            name = _joined(pack, str(stat.key))
            found.setdefault(name, self._info_of(opened, name, stat))
        if not found:
            info = self.info(path)
            found = {} if info["type"] == "directory" else {info["name"]: info}
        names = sorted(found)
        return [found[name] for name in names] if detail else names

    def find(
        self, path: str, maxdepth: Optional[int] = None, withdirs: bool = False, detail: bool = False, **options: Any
    ) -> Any:
        """All files below a path, by one look through the keys."""
        if maxdepth is not None or withdirs:
            everything = super().find(path, maxdepth, withdirs, detail=True, **options) if self.exists(path) else {}
            found = {name: info for name, info in everything.items() if info["type"] != "link"}
            return found if detail else list(found)
        opened, pack, key = self._opened(path)
        below = self._below(opened, key)
        if not below and key:
            itself = self._known(path)
            found = {itself["name"]: itself} if itself.get("type") == "file" else {}
        elif detail:
            stats = zip(below, opened.stats(below))
            found = {name: self._info_of(opened, name, stat) for one, stat in stats if stat for name in [_joined(pack, str(one))]}
        else:
            found = {_joined(pack, str(one)): {} for one in below}
        names = sorted(found)
        return {name: found[name] for name in names} if detail else names

    @staticmethod
    def _below(opened: Pack, key: str) -> list[Union[str, int]]:
        """The keys of all files below a directory that are paths, each path once."""
        below = list(filter(is_path, opened.keys(prefix=key + "/" if key else None, kinds="file")))
        # Ids come last.
        if not below or not isinstance(below[-1], int):
            return below
        texts = set(opened.keys(start="0", end=":"))
        return [one for one in below if isinstance(one, str) or str(one) not in texts]

    def _content(self, path: str, record: Optional[Record] = None) -> memoryview:
        opened, _, key = self._opened(path)
        if record is None and key:
            # Of an empty value a record is not true.
            record = next((one for one in opened.records(self._keys(key)) if one is not None), None)
        if record is not None:
            if record.kind == "symlink":
                raise self._is_link(path, bytes(record))
            if record.kind != "directory":
                return record.value
        raise self._is_no_file(path)

    def _record(self, path: str) -> RecordFile:
        """What a record is read by range through."""
        opened, _, key = self._opened(path)
        keys = self._keys(key) if key else []
        for one, stat in zip(keys, opened.stats(keys)):
            if stat is None:
                continue
            if stat.kind == "symlink":
                raise self._is_link(path, opened[one])
            if stat.kind != "directory":
                return RecordFile(opened, one)
            break
        raise self._is_no_file(path)

    @staticmethod
    def _is_link(path: str, target: bytes) -> InvalidError:
        shown = os.fsdecode(target)
        return InvalidError(f"{path} is a link to {shown}, and links are not followed here: open what it leads to")

    def _is_no_file(self, path: str) -> OSError:
        """The error for a directory, and for what is not there."""
        if self.isdir(path):
            return IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    def cat_file(self, path: str, start: Optional[int] = None, end: Optional[int] = None, **_options: Any) -> bytes:
        """The bytes of a record, or some of them: then only the chunks that hold them are read."""
        path = self._strip_protocol(path)
        if start is None and end is None:
            return bytes(self._content(path))
        with self._record(path) as record:
            first, last, _ = slice(start, end).indices(record.size)
            return record.read(first, max(0, last - first))

    def cat(self, path: Any, recursive: bool = False, on_error: str = "raise", **options: Any) -> Any:
        """The bytes of one record, or of many, which are read together, by their names."""
        paths = self.expand_path(path, recursive=recursive)
        if isinstance(path, str) and paths == [self._strip_protocol(path)] and not recursive:
            return self.cat_file(paths[0])
        values: dict[str, Any] = {}
        by_pack: dict[str, list[str]] = {}
        for one in paths:
            pack, key = split_pack_path(one)
            by_pack.setdefault(pack, []).append(key)
        for pack, keys in by_pack.items():
            for key, record in zip(keys, self._open_pack(pack).records(keys)):
                name = _joined(pack, key)
                try:
                    values[name] = bytes(self._content(name, record if is_path(key) else None))
                except IsADirectoryError:
                    continue
                except (FileNotFoundError, InvalidError) as error:
                    if on_error == "raise":
                        raise
                    if on_error == "return":
                        values[name] = error
        return values

    def _open(self, path: str, mode: str = "rb", **options: Any) -> _Opened:
        if mode != "rb":
            raise InvalidError(f"the mode is 'rb', not {mode!r}: {_READ_HERE}")
        check_names(options, _OPEN_OPTIONS, "this is not among the options of open")
        return _Opened(self._record(path), self, path)

    def created(self, path: str) -> None:
        """Not kept for a path."""
        raise NotImplementedError("records have a time, paths have none")

    modified = created


#: What arguments are called that are paths of the other file system.
_PATHS = frozenset(("path", "path1", "path2", "rpath"))


def _forwarding(cls: _Class) -> _Class:
    """A file system that leaves to the other one what it does not do by itself."""
    # What lists, shows or signs is asked of the other file system as writing is.
    for name in (*_WRITING, "created", "exists", "info", "ls", "modified", "sign", "ukey"):
        setattr(cls, name, _forwarded(name))
    return cls


def _forwarded(name: str) -> Callable[..., Any]:
    known = getattr(AbstractFileSystem, name)
    signature = inspect.signature(known)

    @functools.wraps(known)
    def forwarded(self: Any, *arguments: Any, **options: Any) -> Any:
        bound = signature.bind(self, *arguments, **options)
        given = {argument: value for argument, value in bound.arguments.items() if argument in _PATHS}
        bound.arguments.update({argument: _of_other(self.fs, value) for argument, value in given.items()})
        try:
            return redacted(
                [list(value) if isinstance(value, dict) else value for value in given.values()],
                getattr(self.fs, name),
                *bound.args[1:],
                **bound.kwargs,
            )
        except NotImplementedError as error:
            if str(error):
                raise
            raise NotImplementedError(f"{name}: {type(self.fs).__name__} does not do this") from error
        finally:
            if name in _WRITING:
                # Directories and patterns stand for many files.
                self._kept.clear()

    return forwarded


def _of_other(fs: AbstractFileSystem, path: Any) -> Any:
    """A path, or several, or what they are to hold, as the other file system calls them."""
    if isinstance(path, dict):
        return {_of_other(fs, one): value for one, value in path.items()}
    if isinstance(path, (list, tuple)):
        return [_of_other(fs, one) for one in path]
    own = _without_name(os.fspath(path))
    # What ends in a slash is a directory that something is put into.
    stripped = str(fs._strip_protocol(own))
    return stripped + "/" if own.endswith("/") and not stripped.endswith("/") else stripped


@redacting_errors
@_forwarding
class StookCacheFileSystem(ChainedFileSystem):  # type: ignore[misc]
    """Another file system, read through a cache that fetches in few requests:
    ``stookcache::s3://bucket/key``.

    Everything but opening to read and reading is done by the other file system: writing, too, which
    drops what ranges were read through. What is fetched is kept in ``cache`` for the next time only
    if the other file system reports what follows the content: a checksum, a version, a strong ETag
    (of a web server, one as long as a hash). Whether the file has changed is asked after each
    request. A file of which nothing but the length is known is read as a whole when it is opened,
    if it has at most 64 MiB or ``sparse_options`` have ``whole_file``.

    Ranges of a file that are read one by one (:meth:`cat_file`) are read through one cache, as long
    as the other file system says the same of the file. A file that changed so short a time ago that
    another change could leave what is said as it is, is looked at again after that time (20 ms, or
    2 s where times are whole seconds). Times of web servers prove nothing here, because they do not
    say what time it is there: such pages are read as a whole, unless they have a hash.
    """

    protocol = "stookcache"
    root_marker = ""

    def __init__(
        self,
        target_protocol: Optional[str] = None,
        target_options: Optional[dict[str, Any]] = None,
        fs: Optional[AbstractFileSystem] = None,
        cache: Optional[str] = None,
        sparse_options: Optional[dict[str, Any]] = None,
        **options: Unpack[CacheFileSystemOptions],
    ) -> None:
        """Makes one.

        Args:
            target_protocol: Of the other file system; not needed after ``::``.
            target_options: What the other file system is made with.
            fs: The other file system itself.
            cache: A directory in which what was fetched is kept.
            sparse_options: Further options of :class:`stook.SparseFile`.
            **options: Those that every file system of ``fsspec`` has.

        Raises:
            TypeError: An option that there is not.
        """
        # What follows `::`, for versions of fsspec that do not give it as a path.
        self._chained = options.pop("fo", None)
        what = "this is not among the options; those of SparseFile stand in sparse_options="
        check_names(options, FileSystemOptions.__annotations__.keys(), what)
        super().__init__(**options)
        self._sparse_options = {"cache": cache, **(sparse_options or {})}
        check_sparse_options(self._sparse_options)
        if fs is None:
            if target_protocol is None:
                raise InvalidError("say what is to be cached: stookcache::s3://bucket/key, or fs=")
            fs = filesystem(target_protocol, **(target_options or {}))
        self.fs: AbstractFileSystem = fs
        #: What ranges are read through, by path; what was used last stands last.
        self._kept: dict[str, _Kept] = {}

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        text = _without_name(str(path))
        scheme, mark, _ = text.partition("://")
        return get_filesystem_class(scheme)._strip_protocol(text) if mark else text

    def _sparse(self, fetch: _Fetch, **defaults: Any) -> SparseFile:
        options = {**defaults, **self._sparse_options}
        fetch.begin(is_whole=bool(options.get("whole_file")))
        return SparseFile.from_fetch(
            fetch, fetch.size, name=fetch.address, identity=fetch.proof, origin=_who(self.fs), **options
        )

    def _fetch(self, path: str) -> _Fetch:
        return _Fetch(self.fs, self.fs._strip_protocol(path or self._chained or ""))

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        if mode != "rb":
            return redacted(path, self.fs._open, path, mode=mode, **options)
        check_names(options, _OPEN_OPTIONS, "this is not among the options of open")
        return File(self._sparse(self._fetch(path)))

    def _file(self, path: str) -> SparseFile:
        """What ranges of a file are read through: one cache while the file stays the same."""
        fetch = self._fetch(path)
        kept = self._kept.pop(fetch.path, None)
        if kept is None or not kept.fetch.may_go_on_as(fetch):
            bounds = {} if "store" in self._sparse_options else {"memory_bytes": _KEPT_BYTES}
            kept = _Kept(fetch, self._sparse(fetch, **bounds))
        if fetch.is_settled:
            self._kept[fetch.path] = kept
            for oldest in list(self._kept)[:-_KEPT_FILES]:
                self._kept.pop(oldest, None)
        return kept.file

    def cat_file(self, path: str, start: Optional[int] = None, end: Optional[int] = None) -> bytes:
        """The bytes of a file, or some of them."""
        file = self._file(path)
        first, last, _ = slice(start, end).indices(file.size)
        return file.read(first, max(0, last - first))

    def cat_ranges(
        self,
        paths: list[str],
        starts: Any,
        ends: Any,
        max_gap: Optional[int] = None,
        on_error: str = "return",
    ) -> list[Any]:
        """Ranges of files, in their order; those of one file are fetched together."""
        if max_gap is not None:
            raise InvalidError("how far apart ranges may be that one request fetches is set by max_gap in sparse_options=")
        starts = starts if isinstance(starts, list) else [starts] * len(paths)
        ends = ends if isinstance(ends, list) else [ends] * len(paths)
        if not len(paths) == len(starts) == len(ends):
            raise InvalidError(f"{len(paths)} paths have {len(starts)} starts and {len(ends)} ends")
        by_path: dict[str, list[int]] = {}
        for number, path in enumerate(paths):
            by_path.setdefault(path, []).append(number)
        got: list[Any] = [None] * len(paths)
        for path, numbers in by_path.items():
            try:
                file = self._file(path)
                bounds = [slice(starts[number], ends[number]).indices(file.size) for number in numbers]
                values: list[Any] = list(file.read_many([(first, max(first, last)) for first, last, _ in bounds]))
            except Exception as error:
                if on_error != "return":
                    raise
                values = [error] * len(numbers)
            for number, value in zip(numbers, values):
                got[number] = value
        return got

    def glob(self, path: str, maxdepth: Optional[int] = None, **options: Any) -> Any:
        """What the other file system finds: to some of them a ``?`` is no pattern."""
        path = _without_name(path)
        return redacted(path, self.fs.glob, path, maxdepth=maxdepth, **options)

    def invalidate_cache(self, path: Optional[str] = None) -> None:
        """Drops what ranges were read through, and the listings of the other file system."""
        self._kept.clear()
        self.fs.invalidate_cache(path)


#: What `fsspec` and those who use it say when they open a file for reading, and what is of no
#: matter here.
_OPEN_OPTIONS = frozenset(("autocommit", "block_size", "cache_options", "cache_type", "size"))
#: Files up to this length are read as a whole where changes could not be noticed.
_WHOLE_BYTES = 64 << 20
#: What was read by ranges is kept in memory of this many files, and this much of each.
_KEPT_FILES = 8
_KEPT_BYTES = 64 << 20


def _without_name(path: str) -> str:
    return path.removeprefix("stookcache://").removeprefix("stookcache::")


def _who(fs: AbstractFileSystem) -> str:
    """What beside the address of a file decides which bytes come: how its system was made."""
    options = {str(name): repr(value) for name, value in fs.storage_options.items()}
    kind = f"{type(fs).__module__}.{type(fs).__qualname__}"
    return who_asks(kind, [repr(value) for value in fs.storage_args], options)


class _Fetch:
    """Reads ranges of a file of another file system in one state; can be pickled."""

    def __init__(self, fs: AbstractFileSystem, path: str) -> None:
        self.fs, self.path = fs, path
        self.address: str = fs.unstrip_protocol(path)
        protocols = (fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol
        self._is_page = "http" in protocols or "https" in protocols
        self.whole: Optional[bytes] = None
        self.reported_size, self.signs, self.proof, wait = self._settled()
        self.size = self.reported_size
        #: Whether another state of the file would show in what it says of itself.
        self.is_settled = wait == 0

    def begin(self, is_whole: bool) -> None:
        """Reads all of it, where that is wanted, or nothing would show that it changes."""
        if not is_whole and self.signs is not None:
            return
        if not is_whole and self.size > _WHOLE_BYTES:
            raise InvalidError(
                f"a change of {shown_in(self.address)} would go unnoticed while parts of it are read; sparse_options="
                '{"whole_file": True} reads it as a whole, into memory'
            )
        whole: bytes = redacted(self.address, self.fs.cat_file, self.path)
        self.whole, self.size = whole, len(whole)

    def _settled(self) -> _FileState:
        """What is known of the file, once a change would be seen."""
        for _ in range(SETTLING_MAX):
            state = self._state()
            if not (wait := state[3]):
                return state
            time.sleep(wait)
            self.fs.invalidate_cache(self.path)
        return self._state()

    def _state(self) -> _FileState:
        about = redacted(self.address, self.fs.info, self.path)
        if about.get("type") == "directory":
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), shown_in(self.address))
        size = about.get("size")
        if size is None:
            raise InvalidError(f"the length of {shown_in(self.address)} is not known, so that parts of it cannot be read")
        fields = {str(name): str(value) for name, value in about.items() if value is not None}
        return (size, *described(fields, self._is_page))

    def may_go_on_as(self, now: _Fetch) -> bool:
        """Whether what was read by this is what the other would read."""
        return self.is_settled and (self.reported_size, self.signs) == (now.reported_size, now.signs)

    def __call__(self, start: int, end: int) -> bytes:
        if self.whole is not None:
            return self.whole[start:end]
        data: bytes = redacted(self.address, self.fs.cat_file, self.path, start=start, end=end)
        # Listings may be kept by the other file system.
        self.fs.invalidate_cache(self.path)
        size, signs, _, _ = self._state()
        if (size, signs) != (self.size, self.signs):
            raise SourceChangedError(f"{shown_in(self.address)} changed while it was read; open it again")
        return data


class _Kept(NamedTuple):
    """What ranges of a file are read through."""

    fetch: _Fetch
    file: SparseFile


class StookCache(BaseCache):  # type: ignore[misc]
    """The cache type ``stook``: what is missing is fetched in few requests, and ahead."""

    name = "stook"

    def __init__(
        self, blocksize: int, fetcher: Callable[[int, int], bytes], size: int, **sparse_options: Unpack[SparseFileOptions]
    ) -> None:
        """Made by ``fsspec``.

        Args:
            blocksize: Of no matter here.
            fetcher: Gives the bytes from one position to another.
            size: The length of the file.
            **sparse_options: Those of :class:`stook.SparseFile`; ``cache_options`` when it is
                opened.
        """
        super().__init__(blocksize, fetcher, size)
        # Its errors contain no secret; and it can be pickled if the function can.
        fetch = functools.partial(redacted, "", fetcher)
        self._file = SparseFile.from_fetch(fetch, size or 0, **sparse_options)

    def _fetch(self, start: Optional[int], stop: Optional[int]) -> bytes:
        first, last, _ = slice(start, stop).indices(self.size)
        return self._file.read(first, max(0, last - first))

    def _log_stats(self) -> str:
        # Asked for once in a while: it takes longer than a read.
        statistics = self._file.statistics()
        self.hit_count, self.miss_count = statistics.hits, statistics.misses
        self.total_requested_bytes = statistics.fetched_bytes
        return str(super()._log_stats())

    def close(self) -> None:
        """Closes it and frees what is held."""
        self._file.close()


register_cache(StookCache, clobber=True)
