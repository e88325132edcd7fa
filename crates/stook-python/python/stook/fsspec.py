"""Packs, and the cache of remote files, for everything that reads through ``fsspec``.

``fsspec`` finds them by their names once this package is installed:

- ``stook://data.stook//key`` is a record of a pack: ``fsspec.open``, ``pandas.read_parquet``, ...
- ``stookcache::s3://bucket/key`` reads any other file system through :class:`stook.SparseFile`: what is missing is fetched in few
  requests, and kept in memory, and on disk with ``stookcache={"cache": directory}``.
- ``cache_type="stook"`` is the same for the files of file systems that buffer by themselves (``s3fs``, ``gcsfs``, ``adlfs``, HTTP);
  importing this module registers it.
"""

from __future__ import annotations

import errno
import io
import json
import os
import re
import threading
from typing import TYPE_CHECKING, Any, Callable, Optional, Union

from fsspec import AbstractFileSystem, filesystem
from fsspec.caching import BaseCache, register_cache
from fsspec.core import get_filesystem_class

from stook._errors import InvalidError, SourceChangedError
from stook._file import File
from stook._stook import Pack, Record, SparseFile, Stat

try:
    from fsspec.implementations.chained import ChainedFileSystem
except ImportError:  # fsspec before 2025.9 knows its own chained file systems by name only.
    ChainedFileSystem = AbstractFileSystem

if TYPE_CHECKING:
    from stook._typing import Key

_SCHEME = "stook:"
_SUFFIX = ".stook"
Info = dict[str, Any]


def _split(path: str) -> tuple[str, str]:
    """A pack and a key; an empty key where the pack itself is meant."""
    # Whoever joins or normalises paths leaves one slash of two.
    for mark in (f"{_SUFFIX}//", f"{_SUFFIX}/"):
        at = path.find(mark)
        if at >= 0:
            end = at + len(_SUFFIX)
            return path[:end], path[end:].strip("/")
    pack, _, key = path.partition("//")
    return pack, key


def _joined(pack: str, key: str) -> str:
    return f"{pack}//{key}" if key else pack


def _without_scheme(path: str) -> str:
    if path.startswith(f"{_SCHEME}//"):
        return path[len(_SCHEME) + 2 :]
    if not path.startswith(f"{_SCHEME}/"):
        return path
    # pathlib makes the same of `stook://data.stook` and `stook:///data.stook`.
    path = path[len(_SCHEME) :]
    return path if os.path.exists(_split(path)[0]) else path[1:]


class StookFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """Packs as a file system that can be read: ``stook://data.stook//key``.

    Keys are paths in a pack, with ``/`` between their parts; ids are their decimal digits. Where the name of a pack ends in
    ``.stook``, one slash behind it will do. A pack is opened once and shows the state that it had then, until
    :meth:`invalidate_cache`. Further names of a file (hard links) have its content. Symbolic links are of type ``link``:
    :meth:`ls` tells where they lead, and they are not followed; :meth:`find`, :meth:`glob`
    and :meth:`get` pass over them.
    """

    protocol = "stook"
    root_marker = ""
    async_impl = False

    def __init__(self, **options: Any) -> None:
        """Makes one.

        Args:
            **options: ``map``, ``access`` and ``at`` as for :class:`stook.Pack`; all others as for every file system of
                ``fsspec``.
        """
        self._pack_options = {name: options[name] for name in ("map", "access", "at") if name in options}
        super().__init__(**options)
        self._packs: dict[str, Pack] = {}
        self._packs_lock = threading.Lock()

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        pack, key = _split(_without_scheme(str(path)))
        return _joined(pack.rstrip("/"), key.strip("/"))

    @classmethod
    def _parent(cls, path: str) -> str:
        pack, key = _split(cls._strip_protocol(path))
        return _joined(pack, key.rpartition("/")[0])

    def unstrip_protocol(self, name: str) -> str:
        """The path with ``stook://`` before it."""
        return f"{_SCHEME}//{self._strip_protocol(name)}"

    def _open_pack(self, path: str) -> Pack:
        with self._packs_lock:
            pack = self._packs.get(path)
            if pack is None or pack.closed:
                pack = self._packs[path] = Pack(path, "r", **self._pack_options)
            return pack

    def _opened(self, path: str) -> tuple[Pack, str, str]:
        """The pack that a path is in, its path and the key."""
        pack, key = _split(self._strip_protocol(path))
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
        return [key, int(key)] if key.isdecimal() and int(key) < 1 << 64 else [key]

    @staticmethod
    def _told(opened: Pack, name: str, stat: Stat) -> Info:
        """What is told of a record."""
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
            return self._told(opened, path, stat)
        if key and next(opened.keys(prefix=key + "/"), None) is None:
            raise FileNotFoundError(path)
        return {"name": path, "size": 0, "type": "directory"}

    def ls(self, path: str, detail: bool = True, **_options: Any) -> list[Any]:
        """What is directly below a path; a record itself for the path of one."""
        opened, pack, key = self._opened(path)
        found: dict[str, Info] = {}
        for stat in opened.listdir(key):
            name = _joined(pack, str(stat.key))
            found.setdefault(name, self._told(opened, name, stat))
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
            found = super().find(path, maxdepth=maxdepth, withdirs=withdirs, detail=True, **options)
            found = {name: info for name, info in found.items() if info["type"] != "link"}
            return found if detail else list(found)
        opened, pack, key = self._opened(path)
        below = list(opened.keys(prefix=key + "/" if key else None, kinds="file"))
        if not below and key:
            itself = self.info(path) if self.exists(path) else {"type": ""}
            found = {itself["name"]: itself} if itself["type"] == "file" else {}
        elif detail:
            stats = zip(below, opened.stats(below))
            found = {name: self._told(opened, name, stat) for one, stat in stats if stat for name in [_joined(pack, str(one))]}
        else:
            found = {_joined(pack, str(one)): {} for one in below}
        names = sorted(found)
        return {name: found[name] for name in names} if detail else names

    def _content(self, path: str, record: Optional[Record] = None) -> memoryview:
        opened, _, key = self._opened(path)
        if record is None and key:
            # Of an empty value a record is not true.
            record = next((one for one in opened.records(self._keys(key)) if one is not None), None)
        if record is not None:
            kind = record.attributes.get("kind")
            if kind == "symlink":
                target = os.fsdecode(bytes(record))
                raise InvalidError(f"{path} is a link to {target}, and links are not followed here: open what it leads to")
            if kind != "directory":
                return record.value
        if self.isdir(path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    def cat_file(self, path: str, start: Optional[int] = None, end: Optional[int] = None, **_options: Any) -> bytes:
        """The bytes of a record, or some of them."""
        return bytes(self._content(self._strip_protocol(path))[start:end])

    def cat(self, path: Any, recursive: bool = False, on_error: str = "raise", **options: Any) -> Any:
        """The bytes of one record, or of many, which are read together, by their names."""
        paths = self.expand_path(path, recursive=recursive)
        if isinstance(path, str) and paths == [self._strip_protocol(path)] and not recursive:
            return self.cat_file(paths[0])
        values: dict[str, Any] = {}
        by_pack: dict[str, list[str]] = {}
        for one in paths:
            pack, key = _split(one)
            by_pack.setdefault(pack, []).append(key)
        for pack, keys in by_pack.items():
            for key, record in zip(keys, self._open_pack(pack).records(keys)):
                name = _joined(pack, key)
                try:
                    values[name] = bytes(self._content(name, record))
                except IsADirectoryError:
                    continue
                except (FileNotFoundError, InvalidError) as error:
                    if on_error == "raise":
                        raise
                    if on_error == "return":
                        values[name] = error
        return values

    def _open(self, path: str, mode: str = "rb", **_options: Any) -> io.BytesIO:
        if mode != "rb":
            raise InvalidError(f"the mode is 'rb', not {mode!r}: packs are written with stook.Pack")
        return io.BytesIO(self.cat_file(path))

    def created(self, path: str) -> None:
        """Not kept for a path."""
        raise NotImplementedError("records have a time, paths have none")

    def modified(self, path: str) -> None:
        """Not kept for a path."""
        raise NotImplementedError("records have a time, paths have none")


class StookCacheFileSystem(ChainedFileSystem):  # type: ignore[misc]
    """Another file system, read through a cache that fetches in few requests: ``stookcache::s3://bucket/key``.

    Everything but opening and reading is done by the other file system. What is fetched is kept in ``cache`` for the next time only if
    the other file system tells what follows the content: a checksum, a version, a strong ETag (of a web server, one as long as a
    hash). Whether the file has changed is asked after each request. A file of which nothing but the length is known is
    read as a whole when it is opened, if it has at most 64 MiB or ``sparse_options`` have ``whole_file``.
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
        **options: Any,
    ) -> None:
        """Makes one.

        Args:
            target_protocol: Of the other file system; where it stands behind ``::``, nothing need be said.
            target_options: What the other file system is made with.
            fs: The other file system itself.
            cache: A directory in which what was fetched is kept.
            sparse_options: Further options of :class:`stook.SparseFile`.
            **options: As for every file system of ``fsspec``.
        """
        # What stands behind `::`, for versions of fsspec that do not give it as a path.
        self._behind = options.pop("fo", None)
        super().__init__(**options)
        if fs is None:
            if target_protocol is None:
                raise InvalidError("say what is to be cached: stookcache::s3://bucket/key, or fs=")
            fs = filesystem(target_protocol, **(target_options or {}))
        self.fs: AbstractFileSystem = fs
        self._sparse_options = {"cache": cache, **(sparse_options or {})}

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        text = str(path).removeprefix("stookcache://").removeprefix("stookcache::")
        scheme, mark, _ = text.partition("://")
        return get_filesystem_class(scheme)._strip_protocol(text) if mark else text

    def _sparse(self, path: str) -> SparseFile:
        path = self.fs._strip_protocol(path or self._behind or "")
        fetch = _Fetch(self.fs, path, is_whole=bool(self._sparse_options.get("whole_file")))
        return SparseFile.from_fetch(
            fetch, fetch.size, name=fetch.address, identity=fetch.proof, origin=_who(self.fs), **self._sparse_options
        )

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        if mode != "rb":
            return self.fs._open(path, mode=mode, **options)
        return File(self._sparse(path))

    def cat_file(self, path: str, start: Optional[int] = None, end: Optional[int] = None, **_options: Any) -> bytes:
        """The bytes of a file, or some of them."""
        with self._sparse(path) as file:
            first, last, _ = slice(start, end).indices(file.size)
            return file.read(first, max(0, last - first))

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
        """What the other file system lists."""
        return self.fs.ls(path, detail=detail, **options)

    def info(self, path: str, **options: Any) -> Any:
        """What the other file system tells."""
        return self.fs.info(path, **options)

    def exists(self, path: str, **options: Any) -> bool:
        """Whether the other file system has it."""
        return bool(self.fs.exists(path, **options))

    def ukey(self, path: str) -> Any:
        """What the other file system tells states of a file apart by."""
        return self.fs.ukey(path)

    def invalidate_cache(self, path: Optional[str] = None) -> None:
        """Lets the other file system forget its listings."""
        self.fs.invalidate_cache(path)


#: What file systems call that which follows the content of a file; in lower case, without ``-`` and ``_``.
_PROOFS = (
    *("checksum", "contentcrc32c", "contentmd5", "crc32c", "digest", "etag", "generation", "md5", "md5hash", "sha1", "sha256"),
    *("sha512", "versionid"),
)
#: What else tells states of a file apart, though not all of them.
_SIGNS = ("created", "ctime", "ino", "lastmodified", "modified", "mtime", "timemodified", "updated")
#: An ETag of a web server that has so many letters and digits in a row is a hash. Others may be made of a time and a length, which
#: are the same for two states within a second.
_HASH = re.compile("[0-9A-Za-z+/_]{22}")
#: Options of file systems that are secrets. Who asks is told by others.
_SECRET = re.compile("secret|passw|account_key|sas_token|credential$|private", re.IGNORECASE)
#: Variables by which file systems know whom to ask and as whom.
_VARIABLES = (
    *("AWS_ACCESS_KEY_ID", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_PROFILE", "AWS_ROLE_ARN"),
    *("AZURE_CLIENT_ID", "AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_CLIENT_ID", "AZURE_TENANT_ID"),
    *("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT", "STORAGE_EMULATOR_HOST", "USER"),
)
#: Files up to this length are read as a whole where changes could not be noticed.
_WHOLE_BYTES = 64 << 20


def _said(about: Info) -> dict[str, str]:
    """What a file system says of a state of a file, by names that are written alike."""
    said = {re.sub("[-_]", "", name.lower()): str(value) for name, value in about.items() if value not in (None, "")}
    return {name: said[name] for name in (*_PROOFS, *_SIGNS) if name in said}


def _proof_of(fs: AbstractFileSystem, said: dict[str, str]) -> Optional[str]:
    """What follows the content of a file, if anything does."""
    proofs = {name: said[name] for name in _PROOFS if name in said}
    etag = proofs.get("etag", "")
    protocols = (fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol
    is_page = "http" in protocols or "https" in protocols
    if etag.startswith("W/") or (is_page and not _HASH.search(etag)):
        proofs.pop("etag", None)
    return json.dumps(proofs, sort_keys=True) if proofs else None


def _who(fs: AbstractFileSystem) -> str:
    """What beside the address of a file decides which bytes come: how the file system was made, and for whom."""
    options = {str(name): repr(value) for name, value in fs.storage_options.items() if not _SECRET.search(str(name))}
    variables = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
    kind = f"{type(fs).__module__}.{type(fs).__qualname__}"
    return json.dumps([kind, [repr(value) for value in fs.storage_args], options, variables], sort_keys=True)


def _shown(address: str) -> str:
    """An address without user, password and query."""
    scheme, mark, rest = address.partition("://")
    if not mark:
        return address
    bare = re.split("[?#]", rest, maxsplit=1)[0]
    host, slash, path = bare.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}{'?…' if '?' in rest else ''}"


class _Fetch:
    """Reads ranges of a file of another file system in one state; can be pickled."""

    def __init__(self, fs: AbstractFileSystem, path: str, is_whole: bool) -> None:
        self.fs, self.path = fs, path
        self.address: str = fs.unstrip_protocol(path)
        about = fs.info(path)
        if about.get("size") is None:
            raise InvalidError(f"the length of {_shown(self.address)} is not known, so that parts of it cannot be read")
        self.size: int = about["size"]
        self.said = _said(about)
        #: What follows the content, for whoever keeps it.
        self.proof = _proof_of(fs, self.said)
        self.whole: Optional[bytes] = None
        if is_whole or not self.said:
            if not is_whole and self.size > _WHOLE_BYTES:
                raise InvalidError(
                    f"nothing would tell that {_shown(self.address)} changes while parts of it are read; sparse_options="
                    '{"whole_file": True} reads it as a whole, into memory'
                )
            self.whole = fs.cat_file(path)
            self.size = len(self.whole)

    def __call__(self, start: int, end: int) -> bytes:
        if self.whole is not None:
            return self.whole[start:end]
        data: bytes = self.fs.cat_file(self.path, start=start, end=end)
        # Listings may be kept by the other file system.
        self.fs.invalidate_cache(self.path)
        about = self.fs.info(self.path)
        if about.get("size") != self.size or _said(about) != self.said:
            raise SourceChangedError(f"{_shown(self.address)} changed while it was read; open it again")
        return data


class StookCache(BaseCache):  # type: ignore[misc]
    """The cache type ``stook``: what is missing is fetched in few requests, ahead where the pattern allows a guess."""

    name = "stook"

    def __init__(
        self, blocksize: int, fetcher: Callable[[int, int], bytes], size: int, **sparse_options: Union[int, str, None]
    ) -> None:
        """Made by ``fsspec``.

        Args:
            blocksize: Of no matter here.
            fetcher: Gives the bytes from one position to another.
            size: The length of the file.
            **sparse_options: Those of :class:`stook.SparseFile`; ``cache_options`` of whoever opens it.
        """
        super().__init__(blocksize, fetcher, size)
        options: dict[str, Any] = {**sparse_options}
        self._file = SparseFile.from_fetch(fetcher, size or 0, **options)

    def _fetch(self, start: Optional[int], stop: Optional[int]) -> bytes:
        first, last, _ = slice(start, stop).indices(self.size)
        return self._file.read(first, max(0, last - first))

    def _log_stats(self) -> str:
        # Asked for once in a while: telling takes longer than a read.
        told = self._file.statistics()
        self.hit_count, self.miss_count, self.total_requested_bytes = told.hits, told.misses, told.fetched_bytes
        text: str = super()._log_stats()
        return text

    def close(self) -> None:
        """Lets go of what is held."""
        self._file.close()


register_cache(StookCache, clobber=True)
