"""The interface of svfsc 0.4.1 over sparse buffers: ``from stook.compat import svfsc``.

Classes, methods, keyword arguments, results, exceptions and their messages are those of svfsc, so
that a program needs no other change. Where svfsc breaks its own rules this module keeps them:
docs/guide/svfsc.md lists every difference. New programs are better served by
:class:`stook.SparseBuffer` itself, or by :class:`stook.SparseFile`, which also fetches.
"""

from __future__ import annotations

import datetime
import math
import threading
from collections.abc import Iterable
from operator import index
from typing import Any, Optional

from .._errors import DiffersError, NotHeldError
from .._stook import SparseBuffer

__all__ = [
    "cSVF", "cSVFS", "PY_THREAD_SAFE", "SVF_THREAD_SAFE", "SVFS_CPP_VERSION",
    "SVFS_CPP_VERSION_MAJOR", "SVFS_CPP_VERSION_MINOR", "SVFS_CPP_VERSION_PATCH",
    "SVFS_CPP_VERSION_SUFFIX", "SVFS_THREAD_SAFE",
]

# The version whose interface this is.
SVFS_CPP_VERSION = "0.4.1"
SVFS_CPP_VERSION_MAJOR = 0
SVFS_CPP_VERSION_MINOR = 4
SVFS_CPP_VERSION_PATCH = 1
SVFS_CPP_VERSION_SUFFIX = ""
# As of a svfsc from PyPI: its Python classes lock, the C++ under them does not.
SVF_THREAD_SAFE = 0
SVFS_THREAD_SAFE = 0
PY_THREAD_SAFE = 1

_STATE_VERSION = 1
_EPOCH = datetime.datetime(1970, 1, 1)


def _text(value: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"an id is a str, not {type(value).__name__}")
    if "\0" in value:
        raise ValueError("embedded null character")
    return value


def _real(value: float) -> float:
    # Takes what is a number, but no text, as `float` would.
    return math.ldexp(value, 0)


def _time(ns: Optional[int]) -> Optional[datetime.datetime]:
    """UTC without a time zone."""
    return None if ns is None else _EPOCH + datetime.timedelta(microseconds=ns // 1000)


def _lengths(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    return [(start, end - start) for start, end in ranges]


def _difference(error: DiffersError, file_position: int, data: bytes) -> str:
    """The message about the first byte that differs, with what both are as signed characters."""
    new, old = memoryview(data).cast("B")[error.offset - index(file_position)], error.held
    shown = [chr(byte) if byte < 128 else "\ufffd" for byte in (new, old)]
    ordinals = [byte if byte < 128 else byte - 256 for byte in (new, old)]
    return (
        f"SparseVirtualFile::write(): Difference at position {error.offset} '{shown[0]}' != '{shown[1]}'"
        f" Ordinal {ordinals[0]} != {ordinals[1]}"
    )


def _missing(buffer: SparseBuffer, file_position: int, length: int) -> str:
    """The message about a read of what is not held."""
    position, length = index(file_position), index(length)
    block = buffer.extent_before(position)
    if block is None:
        block = buffer.extent_after(position)
        if block is None:
            return "SparseVirtualFile::read(): Sparse virtual file is empty."
        return (
            f"SparseVirtualFile::read(): Requested file position {position} precedes first block at {block.start}"
        )
    size, offset = block.end - block.start, position - block.start
    return (
        f"SparseVirtualFile::read(): Requested position {position} length {length} (end {position + length})"
        f" overruns block that starts at {block.start} has size {size} (end {block.end})."
        f" Offset into block is {offset} overrun is {offset + length - size} bytes"
    )


def _no_block(file_position: int) -> str:
    return f"SparseVirtualFile::erase(): Non-existent file position {index(file_position)} at start of block."


class cSVF:
    """A sparse virtual file: fragments of a file that is elsewhere, in memory.

    All methods may be called from any thread.

    Args:
        id: What the file is called.
        mod_time: When it was modified, in seconds since 1970.
        overwrite_on_exit: Overwrites the memory before it is given back.
        compare_for_diff: Whether bytes that are written over others must be the same. If not, they
            replace them.

    Example:
        >>> from stook.compat import svfsc
        >>> svf = svfsc.cSVF("some file")
        >>> svf.write(14, b"ABCDEF")
        >>> svf.read(16, 2)
        b'CD'
        >>> svf.need(8, 24)
        [(8, 6), (20, 12)]
    """

    __slots__ = ("_buffer", "_compares", "_erased", "_id", "_lock", "_mod_time", "_policy", "_punted", "_wipes")

    def __init__(
        self, id: str, mod_time: float = 0.0, overwrite_on_exit: bool = False, compare_for_diff: bool = True
    ) -> None:
        self._id = _text(id)
        self._mod_time = _real(mod_time)
        self._wipes = bool(overwrite_on_exit)
        self._compares = bool(compare_for_diff)
        self._policy: Any = "error" if self._compares else "replace"
        self._buffer = SparseBuffer(exact=True, wipe=self._wipes)
        # Guards the counts of blocks, which the buffer does not keep.
        self._lock = threading.Lock()
        self._erased = self._punted = 0

    def id(self) -> str:
        """What the file is called."""
        return self._id

    def config(self) -> dict[str, bool]:
        """What it was made with."""
        return {"compare_for_diff": self._compares, "overwrite_on_exit": self._wipes}

    def file_mod_time(self) -> float:
        """When the file was modified, as it was given."""
        return self._mod_time

    def file_mod_time_matches(self, file_mod_time: float) -> bool:
        """Whether the file was modified at this time."""
        return _real(file_mod_time) == self._mod_time

    def write(self, file_position: int, data: bytes) -> None:
        """Writes ``data`` at ``file_position``: all of it, or nothing. No bytes are no write.

        Raises:
            OSError: A byte is held already and is another, and ``compare_for_diff`` is set.
        """
        try:
            self._write(file_position, data)
        except DiffersError as error:
            raise OSError(
                "cp_SparseVirtualFile_write: Can not write to a SVF as the given data is different from what is there."
                f" ERROR: {_difference(error, file_position, data)}"
            ) from error

    def _write(self, file_position: int, data: bytes) -> None:
        if memoryview(data).nbytes:
            self._buffer.write(file_position, data, self._policy)
        else:
            # Only to refuse what is no position.
            self._buffer.has(file_position, 0)

    def read(self, file_position: int, length: int) -> bytes:
        """The ``length`` bytes at ``file_position``.

        Raises:
            OSError: Not all of them are held.
        """
        try:
            return self._buffer.read(file_position, length)
        except NotHeldError as error:
            raise OSError(
                "private_SparseVirtualFile_svf_read_as_py_bytes()#462: Can not read from a SVF."
                f" ERROR: {_missing(self._buffer, file_position, length)}"
            ) from error

    def has_data(self, file_position: int, length: int) -> bool:
        """Whether all of the ``length`` bytes at ``file_position`` are held."""
        return self._buffer.has(file_position, length)

    def need(self, file_position: int, length: int, greedy_length: int = 0) -> list[tuple[int, int]]:
        """Positions and lengths of what must be written so that the ``length`` bytes at
        ``file_position`` can be read; each at least ``greedy_length`` long, where that is more than
        ``length``.
        """
        min_len = 0 if 0 <= greedy_length <= length else greedy_length
        return _lengths(self._buffer.need(file_position, length, min_len=min_len))

    def need_many(self, seek_reads: list[tuple[int, int]], greedy_length: int = 0) -> list[tuple[int, int]]:
        """The same for many positions and lengths, in any order: as few as serve all of them, each
        at least ``greedy_length`` long.
        """
        return _lengths(self._buffer.need_many(_ranges(seek_reads), min_len=greedy_length))

    def erase(self, file_position: int) -> None:
        """Takes away the block that begins at ``file_position``.

        Raises:
            OSError: No block begins there.
        """
        if not self._erase(file_position):
            raise OSError(f"cp_SparseVirtualFile_erase(): Can not erase from a SVF. ERROR: {_no_block(file_position)}")

    def _erase(self, file_position: int) -> bool:
        with self._lock:
            erased = self._buffer.erase_extent(file_position) is not None
            self._erased += erased
        return erased

    def lru_punt(self, cache_size_upper_bound: int) -> int:
        """Takes away blocks, the one that was touched longest ago first, until fewer bytes than
        ``cache_size_upper_bound`` are held or one block is left; how many bytes that were.
        """
        with self._lock:
            blocks, gone = self._buffer.evict_extents(max(cache_size_upper_bound, 1) - 1, keep=1)
            self._punted += blocks
        return gone

    def clear(self) -> None:
        """Takes everything away; counters and touches begin anew."""
        with self._lock:
            self._buffer.reset()
            self._erased = self._punted = 0

    def blocks(self) -> tuple[tuple[int, int], ...]:
        """Positions and lengths of what is held, ascending."""
        return tuple(_lengths(self._buffer.extents()))

    def block_touch(self) -> int:
        """How many touches there were: reads and writes that were done."""
        return self._buffer.next_touch - 1

    def block_touches(self) -> dict[int, int]:
        """The latest touch of every block, ascending, and the position of the block."""
        touched = sorted((touch, start) for start, _end, touch in self._buffer.extents_touched())
        return {touch - 1: start for touch, start in touched}

    def num_blocks(self) -> int:
        """How many blocks are held."""
        return self._buffer.extent_count

    def num_bytes(self) -> int:
        """How many bytes are held."""
        return self._buffer.held_bytes

    def size_of(self) -> int:
        """What all of it takes of memory."""
        return self._buffer.memory_bytes

    def last_file_position(self) -> int:
        """The position after the last byte held, 0 for none."""
        return self._buffer.end

    def count_write(self) -> int:
        """How many writes there were."""
        return self._buffer.counters().writes

    def count_read(self) -> int:
        """How many reads there were."""
        return self._buffer.counters().reads

    def bytes_write(self) -> int:
        """How many bytes were written, those that were held already included."""
        return self._buffer.counters().written_bytes

    def bytes_read(self) -> int:
        """How many bytes were read."""
        return self._buffer.counters().read_bytes

    def time_write(self) -> Optional[datetime.datetime]:
        """When the last write was, in UTC without a time zone; ``None`` while there was none."""
        return _time(self._buffer.counters().last_write_ns)

    def time_read(self) -> Optional[datetime.datetime]:
        """When the last read was, in UTC without a time zone; ``None`` while there was none."""
        return _time(self._buffer.counters().last_read_ns)

    def blocks_erased(self) -> int:
        """How many blocks were erased or punted."""
        with self._lock:
            return self._erased + self._punted

    def bytes_erased(self) -> int:
        """How many bytes were erased or punted."""
        counters = self._buffer.counters()
        return counters.erased_bytes + counters.evicted_bytes

    def blocks_punted(self) -> int:
        """How many blocks were punted."""
        return self._punted

    def bytes_punted(self) -> int:
        """How many bytes were punted."""
        return self._buffer.counters().evicted_bytes

    def __getstate__(self) -> dict[str, Any]:
        # Read from a copy, so that it is of one moment, and that no read is counted.
        copy = SparseBuffer.from_bytes(self._buffer.to_bytes())
        blocks = tuple((start, copy.read(start, end - start)) for start, end in copy.extents())
        return {
            "id": self._id, "file_mod_time": self._mod_time, "blocks": blocks,
            "pickle_version": _STATE_VERSION, "config": self.config(),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        # What svfsc made has no configuration.
        if not isinstance(state, dict):
            raise ValueError("the state of a cSVF is a dict")
        if (version := state["pickle_version"]) != _STATE_VERSION:
            raise ValueError(f"the state of a cSVF of version {version}; only {_STATE_VERSION} is known here")
        if not isinstance(state["blocks"], tuple):
            raise TypeError("the blocks in the state of a cSVF are a tuple")
        cSVF.__init__(self, state["id"], state["file_mod_time"], **state.get("config", {}))
        for position, data in state["blocks"]:
            self._write(position, data)


def _ranges(seek_reads: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges of positions and lengths, checked as svfsc does."""
    where = "cp_SparseVirtualFile_need_many_internal"
    if not isinstance(seek_reads, list):
        raise TypeError(f"{where}: seek_reads is not a list.")
    for number, pair in enumerate(seek_reads):
        if not isinstance(pair, tuple):
            raise TypeError(f"{where}: seek_reads[{number}] is not a tuple.")
        if len(pair) != 2:
            raise TypeError(f"{where}: seek_reads[{number}] length {len(pair)} is not a tuple of length 2.")
    ranges = []
    for number, (position, length) in enumerate(seek_reads):
        try:
            ranges.append((position, index(position) + index(length)))
        except TypeError as error:
            raise TypeError(f"{where}: can not parse list element[{number}].") from error
    return ranges


class cSVFS:
    """Sparse virtual files by their ids.

    All methods may be called from any thread. Those with an ``id`` do to its file what the method
    of :class:`cSVF` of the same name does, and raise ``IndexError`` where there is none of this id.

    Args:
        overwrite_on_exit: Overwrites the memory of files before it is given back.
        compare_for_diff: Whether bytes that are written over others must be the same.

    Example:
        >>> from stook.compat import svfsc
        >>> svfs = svfsc.cSVFS()
        >>> svfs.insert("some file", 1672574430.0)
        >>> svfs.write("some file", 14, b"ABCDEF")
        >>> svfs.has_data("some file", 14, 6), len(svfs), svfs.keys()
        (True, 1, ['some file'])
    """

    __slots__ = ("_compares", "_files", "_wipes")

    def __init__(self, overwrite_on_exit: bool = False, compare_for_diff: bool = True) -> None:
        self._wipes = bool(overwrite_on_exit)
        self._compares = bool(compare_for_diff)
        self._files: dict[str, cSVF] = {}

    def _file(self, id: str, method: str) -> cSVF:
        file = self._files.get(_text(id))
        if file is None:
            raise IndexError(f'cp_SparseVirtualFileSystem_svf_{method}: No SVF ID "{id}"')
        return file

    def config(self) -> dict[str, bool]:
        """What files are made with."""
        return {"compare_for_diff": self._compares, "overwrite_on_exit": self._wipes}

    def __len__(self) -> int:
        return len(self._files)

    def keys(self) -> list[str]:
        """The ids of all files, in the order in which they were inserted."""
        return list(self._files)

    def has(self, id: str) -> bool:
        """Whether there is a file of this id."""
        return _text(id) in self._files

    def insert(self, id: str, mod_time: float = 0.0) -> None:
        """Adds an empty file.

        Raises:
            RuntimeError: There is one of this id.
        """
        file = cSVF(id, mod_time, self._wipes, self._compares)
        if self._files.setdefault(id, file) is not file:
            raise RuntimeError(
                f'cp_SparseVirtualFileSystem_insert: Can not insert a new Sparse Virtual File ID = "{id}".'
                f' ERROR: SparseVirtualFileSystem::insert(): can not insert "{id}"'
            )

    def remove(self, id: str) -> None:
        """Takes a file out, and frees its memory.

        Raises:
            IndexError: There is none of this id.
        """
        if self._files.pop(_text(id), None) is None:
            raise IndexError(
                "cp_SparseVirtualFileSystem_remove: Can not remove a Sparse Virtual File."
                f' ERROR: SparseVirtualFileSystem::remove(): id "{id}" not found.'
            )

    def total_size_of(self) -> int:
        """What all files take of memory."""
        return sum(file.size_of() for file in list(self._files.values()))

    def total_bytes(self) -> int:
        """How many bytes all files hold."""
        return sum(file.num_bytes() for file in list(self._files.values()))

    def total_blocks(self) -> int:
        """How many blocks all files hold."""
        return sum(file.num_blocks() for file in list(self._files.values()))

    def write(self, id: str, file_position: int, data: bytes) -> None:
        """See :meth:`cSVF.write`."""
        try:
            self._file(id, "write")._write(file_position, data)
        except DiffersError as error:
            raise OSError(
                f'cp_SparseVirtualFileSystem_svf_write: Can not write to a SVF id = "{id}"'
                f" as the given data is different from what is there. ERROR: {_difference(error, file_position, data)}"
            ) from error

    def read(self, id: str, file_position: int, length: int) -> bytes:
        """See :meth:`cSVF.read`."""
        buffer = self._file(id, "read")._buffer
        try:
            return buffer.read(file_position, length)
        except NotHeldError as error:
            raise OSError(
                f'cp_SparseVirtualFileSystem_svf_read: Can not read from a SVF id= "{id}".'
                f" ERROR: {_missing(buffer, file_position, length)}"
            ) from error

    def erase(self, id: str, file_position: int) -> None:
        """See :meth:`cSVF.erase`."""
        if not self._file(id, "erase")._erase(file_position):
            raise OSError(
                f'cp_SparseVirtualFileSystem_svf_erase: Can not erase block from a SVF id= "{id}".'
                f" ERROR: {_no_block(file_position)}"
            )

    def has_data(self, id: str, file_position: int, length: int) -> bool:
        """See :meth:`cSVF.has_data`."""
        return self._file(id, "has_data").has_data(file_position, length)

    def need(self, id: str, file_position: int, length: int, greedy_length: int = 0) -> list[tuple[int, int]]:
        """See :meth:`cSVF.need`."""
        return self._file(id, "need").need(file_position, length, greedy_length)

    def need_many(
        self, id: str, seek_reads: list[tuple[int, int]], greedy_length: int = 0
    ) -> list[tuple[int, int]]:
        """See :meth:`cSVF.need_many`."""
        return self._file(id, "need_many").need_many(seek_reads, greedy_length)

    def lru_punt(self, id: str, cache_size_upper_bound: int) -> int:
        """See :meth:`cSVF.lru_punt`."""
        return self._file(id, "lru_punt").lru_punt(cache_size_upper_bound)

    def lru_punt_all(self, cache_size_upper_bound: int) -> int:
        """Does the same to every file: the bound is that of each, not of all together."""
        return sum(file.lru_punt(cache_size_upper_bound) for file in list(self._files.values()))

    def blocks(self, id: str) -> tuple[tuple[int, int], ...]:
        """See :meth:`cSVF.blocks`."""
        return self._unquoted(id, "svf_blocks").blocks()

    def block_touches(self, id: str) -> dict[int, int]:
        """See :meth:`cSVF.block_touches`."""
        return self._file(id, "block_touches").block_touches()

    def size_of(self, id: str) -> int:
        """See :meth:`cSVF.size_of`."""
        return self._file(id, "size_of").size_of()

    def num_bytes(self, id: str) -> int:
        """See :meth:`cSVF.num_bytes`."""
        return self._file(id, "num_bytes").num_bytes()

    def num_blocks(self, id: str) -> int:
        """See :meth:`cSVF.num_blocks`."""
        return self._file(id, "num_blocks").num_blocks()

    def file_mod_time(self, id: str) -> float:
        """See :meth:`cSVF.file_mod_time`."""
        return self._unquoted(id, "file_mod_time").file_mod_time()

    def file_mod_time_matches(self, id: str, file_mod_time: float) -> bool:
        """See :meth:`cSVF.file_mod_time_matches`."""
        return self._file(id, "file_mod_time_matches").file_mod_time_matches(file_mod_time)

    def count_write(self, id: str) -> int:
        """See :meth:`cSVF.count_write`."""
        return self._file(id, "count_write").count_write()

    def count_read(self, id: str) -> int:
        """See :meth:`cSVF.count_read`."""
        return self._file(id, "count_read").count_read()

    def bytes_write(self, id: str) -> int:
        """See :meth:`cSVF.bytes_write`."""
        return self._file(id, "bytes_write").bytes_write()

    def bytes_read(self, id: str) -> int:
        """See :meth:`cSVF.bytes_read`."""
        return self._file(id, "bytes_read").bytes_read()

    def time_write(self, id: str) -> Optional[datetime.datetime]:
        """See :meth:`cSVF.time_write`."""
        return self._file(id, "time_write").time_write()

    def time_read(self, id: str) -> Optional[datetime.datetime]:
        """See :meth:`cSVF.time_read`."""
        file = self._files.get(_text(id))
        if file is None:
            raise IndexError(f'cp_SparseVirtualFileSystem_svf_time_read: No Sparse Virtual File ID "{id}"')
        return file.time_read()

    def _unquoted(self, id: str, method: str) -> cSVF:
        """For the two methods whose message has no quotes."""
        file = self._files.get(_text(id))
        if file is None:
            raise IndexError(f"cp_SparseVirtualFileSystem_{method}: No SVF ID {id}")
        return file
