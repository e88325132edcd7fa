"""``stook.open``: what is somewhere else, as the files of the standard library are."""

from __future__ import annotations

import errno
import io
import os
import stat
import threading
import weakref
from functools import partial
from operator import index
from typing import TYPE_CHECKING, Any, Callable, Optional, Union

from stook._errors import ClosedError, InvalidError, OutOfBoundsError
from stook._options import check_sparse_file
from stook._progress import callback
from stook._sparse import Identity, SparseStatistics

if TYPE_CHECKING:
    from typing_extensions import Buffer, Unpack

    from stook._stook import Archive, Pack, RecordFile, SparseFile
    from stook._typing import Address, Key, Progress, Ranges, SparseFileOptions

#: What `peek` shows, which is what lines are looked for in.
_PEEK_BYTES = 8192
#: The longest single read of a local file: the kernel gives no more at once.
_READ_BYTES_MAX = 1 << 30


class _Descriptor:
    """A descriptor that is closed when the last one who uses it has let go.

    Closing the number itself would hand it to whatever is opened next, under a read that is still
    to come.
    """

    __slots__ = ("number",)

    def __init__(self, path: str) -> None:
        self.number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        # Nothing is there where it could not be opened.
        if hasattr(self, "number"):
            os.close(self.number)


class LocalFile:
    """A local file that is read by range, as it lies in the page cache of the system.

    What :func:`stook.open` reads from where it is given a path and no cache. It has the methods of
    :class:`SparseFile` that mean something without a cache.
    """

    def __init__(self, path: Address) -> None:
        """Opens it.

        Args:
            path: Where it is.

        Raises:
            InvalidError: The path is empty.
            IsADirectoryError: It is a directory.
            OSError: The system refuses.
        """
        from stook._stook import path_argument

        self.name = os.path.abspath(path_argument("path", path))
        self._descriptor: Optional[_Descriptor] = None
        descriptor = _Descriptor(self.name)
        status = os.fstat(descriptor.number)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self.name)
        #: The length when it was opened, in bytes.
        self.size = os.lseek(descriptor.number, 0, os.SEEK_END)
        #: What it was when it was opened.
        self.identity = Identity(
            size=self.size,
            modified_ns=status.st_mtime_ns,
            changed_ns=status.st_ctime_ns,
            inode=status.st_ino,
            device=status.st_dev,
        )
        self._descriptor = descriptor
        self._reads = 0
        self._asked_bytes = 0

    def _open_descriptor(self) -> _Descriptor:
        """What to read from: its holder may do so until it lets go, even after closing."""
        descriptor = self._descriptor
        if descriptor is None:
            raise ClosedError("this file is closed")
        return descriptor

    def _count(self, length: int) -> None:
        self._reads += 1
        self._asked_bytes += length

    def read(self, position: int, length: int) -> bytes:
        """The ``length`` bytes at ``position``; fewer only where the file ends."""
        descriptor = self._open_descriptor()
        if position < 0 or length < 0:
            raise InvalidError(f"positions and lengths are 0 or more, not {position} and {length}")
        length = max(0, min(length, self.size - position))
        data = os.pread(descriptor.number, min(length, _READ_BYTES_MAX), position)
        if len(data) == length:
            self._count(length)
            return data
        parts = [data]
        while data and (left := length - sum(map(len, parts))) > 0:
            data = os.pread(descriptor.number, min(left, _READ_BYTES_MAX), position + length - left)
            parts.append(data)
        self._count(length)
        return b"".join(parts)

    def readinto(self, position: int, out: Buffer) -> int:
        """Reads bytes at ``position`` into ``out``; how many, fewer only where the file ends."""
        descriptor = self._open_descriptor()
        if position < 0:
            raise InvalidError(f"positions are 0 or more, not {position}")
        view = memoryview(out)
        # A view with a dimension of 0 cannot be cast.
        length = max(0, min(view.nbytes, self.size - position))
        view = view.cast("B")[:length] if length else memoryview(b"")
        done = 0
        while done < length:
            count = os.preadv(descriptor.number, [view[done : done + _READ_BYTES_MAX]], position + done)
            if count == 0:
                break
            done += count
        self._count(done)
        return done

    def read_many(self, ranges: Ranges) -> list[bytes]:
        """The bytes of many ranges, in their order."""
        return [self.read(start, end - start) for start, end in self._checked(ranges)]

    def prefetch(self, ranges: Ranges, *, progress: Progress = None) -> None:
        """Advises the system that these ranges will be read soon.

        It waits for nothing, so ``progress`` is called once.
        """
        report = callback(progress, "bytes", "total")
        descriptor = self._open_descriptor()
        checked = self._checked(ranges)
        for start, end in checked:
            if end > start and hasattr(os, "posix_fadvise"):
                os.posix_fadvise(descriptor.number, start, end - start, os.POSIX_FADV_WILLNEED)
        if report is not None:
            total = sum(end - start for start, end in checked)
            report(total, total)

    def _checked(self, ranges: Ranges) -> list[tuple[int, int]]:
        self._open_descriptor()
        checked = list(ranges)
        for start, end in checked:
            if not 0 <= start <= end:
                raise InvalidError(f"a range must not end before it begins: ({start}, {end})")
            if end > self.size:
                raise OutOfBoundsError(f"range {start}..{end} reaches past the end of {self.name} ({self.size} bytes)")
        return checked

    def statistics(self) -> SparseStatistics:
        """What was asked for. There are no requests, and nothing is ever missed."""
        return SparseStatistics(reads=self._reads, hits=self._reads, asked_bytes=self._asked_bytes)

    def close(self) -> None:
        """Closes it. May be called again."""
        self._descriptor = None

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._descriptor is None

    def __reduce__(self) -> tuple[type[LocalFile], tuple[str]]:
        self._open_descriptor()
        return LocalFile, (self.name,)

    def __repr__(self) -> str:
        return f"<stook.LocalFile {self.name} of {self.size} bytes>"


class File(io.BufferedIOBase):
    """A file for reading, wherever it is: seekable, buffered by its cache, for any number of
    threads.

    What :func:`stook.open` and :meth:`Pack.open` give. Whatever reads files of the standard library
    reads it: ``h5py``, ``pyarrow``, ``tifffile``, ``zipfile``, ``numpy``, ``pandas``. Threads that
    use ``read`` and ``seek`` share one position; :meth:`read_at` has none, and its callers do not
    wait for one another.
    """

    def __init__(self, base: Union[SparseFile, LocalFile, RecordFile]) -> None:
        """A file over something that is read by range.

        Args:
            base: What is read. It is closed with this file.
        """
        super().__init__()
        self._base = base
        self._read = base.read
        self._size = base.size
        self._position = 0
        self._lock = threading.RLock()
        _files.add(self)

    @property
    def base(self) -> Union[SparseFile, LocalFile, RecordFile]:
        """What is read."""
        return self._base

    @property
    def size(self) -> int:
        """The length, in bytes."""
        return self._size

    @property
    def name(self) -> str:
        """Its path, or its address without secrets."""
        return self._base.name

    @property
    def mode(self) -> str:
        """``"rb"``."""
        return "rb"

    def readable(self) -> bool:
        """``True``."""
        self._check()
        return True

    def seekable(self) -> bool:
        """``True``."""
        self._check()
        return True

    def writable(self) -> bool:
        """``False``."""
        self._check()
        return False

    def read(self, size: Optional[int] = -1, /) -> bytes:
        """Reads up to ``size`` bytes; all that follow for ``None`` or -1."""
        # What is read refuses by itself once it is closed, and gives less at the end. This is
        # called very often.
        with self._lock:
            position = self._position
            if size is None or size < 0:
                size = max(0, self._size - position)
            data = self._read(position, size)
            self._position = position + len(data)
            return data

    def read1(self, size: int = -1, /) -> bytes:
        """Reads up to ``size`` bytes; some 8 KiB for -1."""
        return self.read(_PEEK_BYTES if size < 0 else size)

    def readinto(self, out: Buffer, /) -> int:
        """Reads into ``out``; how many bytes, fewer than it has room for only at the end."""
        with self._lock:
            count = self._base.readinto(self._position, out)
            self._position += count
            return count

    def readinto1(self, out: Buffer, /) -> int:
        """The same as :meth:`readinto`."""
        return self.readinto(out)

    def peek(self, size: int = 0, /) -> bytes:
        """Bytes that follow, without moving: ``size``, or some 8 KiB where there are as many."""
        with self._lock:
            self._check()
            return self._base.read(self._position, max(size, _PEEK_BYTES))

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Moves to ``offset`` bytes from the beginning, the position (1) or the end (2)."""
        with self._lock:
            self._check()
            bases = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}
            if whence not in bases:
                raise InvalidError(f"whence is 0, 1 or 2, not {whence}")
            position = bases[whence] + index(offset)
            if position < 0:
                raise InvalidError(f"position {position} is before the beginning")
            self._position = position
            return position

    def tell(self) -> int:
        """The position."""
        self._check()
        return self._position

    def read_at(self, position: int, length: int) -> bytes:
        """The ``length`` bytes at ``position``; fewer only where the file ends."""
        self._check()
        return self._base.read(position, length)

    def readinto_at(self, position: int, out: Buffer) -> int:
        """Reads bytes at ``position`` into ``out``; how many, fewer than it has room for only at
        the end.
        """
        self._check()
        return self._base.readinto(position, out)

    def prefetch(self, ranges: Ranges, *, progress: Progress = None) -> None:
        """Fetches these ranges, given as ``(start, end)``, all together.

        ``progress`` is as for :meth:`SparseFile.prefetch`.
        """
        self._check()
        self._base.prefetch(ranges, progress=progress)

    def statistics(self) -> SparseStatistics:
        """What was asked for and what that cost, since it was opened."""
        self._check()
        return self._base.statistics()

    def close(self) -> None:
        """Closes it. May be called again."""
        # None where it could not be made.
        if (base := getattr(self, "_base", None)) is not None:
            base.close()
        super().close()

    def _check(self) -> None:
        if self.closed:
            raise ClosedError("this file is closed")

    def __reduce__(self) -> tuple[Any, ...]:
        self._check()
        return File, (self._base,), {"_position": self._position}

    def __repr__(self) -> str:
        return "<stook.File, closed>" if self.closed else f"<stook.File {self.name} of {self._size} bytes>"


# Locks that a thread of the parent held would be held for ever in a forked child.
_files: weakref.WeakSet[File] = weakref.WeakSet()


def _renew_locks() -> None:
    for file in _files:
        file._lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_locks)


def open(address: Address, mode: str = "rb", **options: Unpack[SparseFileOptions]) -> File:  # noqa: A001
    """Opens a file or an object for reading, through a cache where it is remote.

    Args:
        address: A path, or ``https://``, ``http://``, ``s3://bucket/key``, ``gs://bucket/key``,
            ``az://container/key``; or ``data.stook//key``, a record of a pack, as :meth:`Pack.open`
            reads it; or ``files.toml//name``, a :class:`VirtualFile` of a layout.
        mode: ``"rb"`` or ``"r"``; nothing can be written.
        **options: ``cache=`` and all others of :class:`SparseFile`. A local path without any is
            read as it is.

    Returns:
        A file that is seekable and may be used by several threads.

    Raises:
        InvalidError: Another mode, or an empty path.
        TypeError: An option that there is not; the message has the one that was probably meant.
        IsADirectoryError: The path, or the record, is a directory.
        OSError: As for :class:`SparseFile`.

    Example:
        >>> import pathlib, stook
        >>> _ = pathlib.Path("digits").write_bytes(b"0123456789")
        >>> with stook.open("digits") as file:
        ...     file.seek(-2, 2)
        ...     file.read()
        8
        b'89'
    """
    from stook._stook import SparseFile, local_path, path_argument

    if mode not in ("rb", "r"):
        raise InvalidError(f"the mode is 'rb', not {mode!r}: nothing can be written")
    # Refused here, by the name that it has here.
    path_argument("address", address)
    check_sparse_file(options)
    given: Any = {name: value for name, value in options.items() if value is not None}
    path = local_path(address) if isinstance(address, str) else address
    if path == address and isinstance(address, str) and ".stook//" in address:
        if not given:
            return File(_open_record(address))
        record = _open_record(address)
        return File(SparseFile.from_fetch(partial(_read_range, record), record.size, name=address, **given))
    if path == address and isinstance(address, str) and ".toml//" in address and not given:
        from stook._virtual import VirtualFile

        return VirtualFile(address)
    return File(SparseFile(address, **given) if given or path is None else LocalFile(path))


def _open_record(address: str) -> RecordFile:
    """The record of a pack that an address names. Digits are an id where no such text is a key."""
    from stook._stook import Pack, RecordFile, split_pack_path

    path, key = split_pack_path(address)
    keys: list[Key] = [key]
    if key.isdecimal() and int(key) < 1 << 64:
        keys.append(int(key))
    with Pack(path) as pack:
        for one in keys:
            if one in pack:
                try:
                    return RecordFile(pack, one)
                except IsADirectoryError:
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), address) from None
    raise FileNotFoundError(errno.ENOENT, "the pack has no such record", address)


def _open_again(pack: Callable[[], Pack], key: Key) -> RecordFile:
    """A record that was given to another process."""
    from stook._stook import RecordFile

    with pack() as opened:
        return RecordFile(opened, key)


def _open_member(archive: Callable[..., Archive], path: str, key: Key) -> Any:
    """What a member that was given to another process is read through."""
    with archive(path) as opened:
        file = opened.open(key)
        base = file.base
        # The file would close it.
        del file._base
        return base


def _read_range(record: RecordFile, start: int, end: int) -> bytes:
    """A range of a record, for what caches it."""
    return record.read(start, end - start)
