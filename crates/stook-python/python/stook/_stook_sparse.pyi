# The types of the native half that hold ranges of files, or read them. The documentation is copied
# from it by `scripts/python stubs`.
import pathlib
from collections.abc import Callable, Coroutine, Iterator, Mapping
from types import TracebackType
from typing import Any, Optional, TypeVar, Union, final, overload

from typing_extensions import Self, Unpack

from ._sparse import DiskStatistics, Extent, Identity, SparseCounters, SparseStatistics
from ._stook import Pack
from ._typing import Address, AnyBuffer, Key, OnDifference, Path, Progress, Ranges, SparseFileOptions

_Default = TypeVar("_Default")
@final
class Pin:
    """Keeps a range from being evicted until it is released, left as a context, or collected.

    Made by :meth:`SparseBuffer.pin`.
    """
    @property
    def range(self) -> tuple[int, int]:
        """What is pinned, as ``(start, end)``."""
    def release(self) -> None:
        """Ends it. May be called again, and does nothing then."""
    def __enter__(self) -> Self: ...
    def __exit__(self, *exception: Union[type[BaseException], BaseException, TracebackType, None]) -> None: ...

@final
class SparseBuffer:
    """Bytes at any positions in memory, with gaps between them.

    Holds what has been fetched of a file that is elsewhere: it is written as ranges come, read
    where all is there, and asked what is still needed. Neighbours count as one range. All methods
    may be called from any thread.

    Ranges are ``(start, end)``, ``end`` not included; single ones are given as
    ``position, length``.

    Args:
        budget_bytes: More than this is not held: each write evicts what was touched longest ago.
            ``None`` for no limit.
        grain: The most bytes of a segment, which is what is touched and evicted as one: 1 to
            65,536.
        adopt_min: What is shorter is copied by :meth:`adopt`: 4,096 or more.
        first_touch: Where the count of touches begins.
        exact: Touches are numbered without gaps, in one order for all threads, and every read and
            write notes the time. Operations take longer for it.
        wipe: Memory that bytes were copied into is overwritten before it is given back.

    Raises:
        InvalidError: For an option with a value that it cannot have.

    Example:
        >>> import stook
        >>> buffer = stook.SparseBuffer()
        >>> buffer.write(100, b"head")
        4
        >>> buffer.write(104, b"er")
        2
        >>> buffer.read(100, 6)
        b'header'
        >>> buffer.need(90, 20)
        [(90, 100), (106, 110)]
    """
    def __new__(
        cls,
        *,
        budget_bytes: Union[int, None] = None,
        grain: int = 65536,
        adopt_min: int = 16384,
        first_touch: int = 0,
        exact: bool = False,
        wipe: bool = False,
    ) -> Self: ...
    def write(self, position: int, data: AnyBuffer, on_difference: OnDifference = "error") -> int:
        """Writes ``data`` at ``position``: all of it, or nothing.

        Args:
            position: Where its first byte goes.
            data: Any bytes-like object.
            on_difference: What to do where bytes are held already. ``"error"``: the same are fine,
                others raise. ``"keep"``: what is held stays. ``"replace"``: it is replaced.

        Returns:
            How many bytes were not held before. The others were kept, or replaced where that was
            asked for.

        Raises:
            DiffersError: A byte is held already and is another; ``offset`` is the first.
            InvalidError: The last byte would be past the last position, 2**64 - 2.
        """
    def adopt(self, position: int, data: AnyBuffer, on_difference: OnDifference = "error") -> int:
        """Holds ``data`` at ``position`` without a copy.

        The object is kept until the last part of it is erased or evicted. What is shorter than
        ``adopt_min``, and what may be written to (a ``bytearray``), is copied instead. The memory
        under a read-only view of something else must not change.

        Args:
            position: Where its first byte goes.
            data: Any bytes-like object; ``bytes``, or a read-only buffer, to be adopted.
            on_difference: As for :meth:`write`.

        Returns:
            How many bytes were not held before.

        Raises:
            DiffersError: A byte is held already and is another; ``offset`` is the first.
            InvalidError: The last byte would be past the last position, 2**64 - 2.
        """
    def read(self, position: int, length: int) -> bytes:
        """The ``length`` bytes at ``position``.

        Raises:
            NotHeldError: Not all of them are held; ``gap`` is the first range that is missing.
            InvalidError: They would end past the last position.
        """
    def readinto(self, position: int, out: AnyBuffer) -> int:
        """Reads as many bytes at ``position`` as ``out`` has room for.

        Args:
            position: Where the first one is.
            out: A writable bytes-like object: ``bytearray``, ``memoryview``, an array.

        Returns:
            How many that are: the length of ``out``.

        Raises:
            NotHeldError: Not all of them are held; ``out`` is then as it was.
        """
    def view(self, position: int, length: int) -> memoryview:
        """The ``length`` bytes at ``position`` as a read-only ``memoryview``.

        What was adopted together is shown where it is, without a copy; it stays in memory as long
        as the view, whatever happens to the buffer. Anything else is copied once.

        Raises:
            NotHeldError: Not all of them are held.
        """
    def has(self, position: int, length: int) -> bool:
        """Whether all of the ``length`` bytes at ``position`` are held."""
    def gaps(self, position: int, length: int) -> list[tuple[int, int]]:
        """The ranges that are missing of the ``length`` bytes at ``position``, ascending."""
    def need(
        self,
        position: int,
        length: int,
        *,
        min_len: int = 0,
        max_gap: int = 0,
        max_len: Union[int, None] = None,
        alignment: int = 1,
        end: Union[int, None] = None,
    ) -> list[tuple[int, int]]:
        """The ranges to read elsewhere so that all of the ``length`` bytes at ``position`` are held.

        Args:
            position: The first byte.
            length: How many bytes.
            min_len: The shortest read, as far as ``max_len`` and ``end`` allow.
            max_gap: Bytes that are held, or not wanted, are read again to make one read of two: at
                most this many.
            max_len: The longest read; ``None`` for no limit.
            alignment: Reads begin and end at multiples of this power of two.
            end: The length of what is read, past which nothing is planned; ``None`` where it is not
                known.

        Raises:
            InvalidError: The options contradict themselves.
        """
    def need_many(
        self,
        ranges: Ranges,
        *,
        min_len: int = 0,
        max_gap: int = 0,
        max_len: Union[int, None] = None,
        alignment: int = 1,
        end: Union[int, None] = None,
    ) -> list[tuple[int, int]]:
        """The same as :meth:`need` for many ranges, in any order: as few reads as serve all of them.

        Args:
            ranges: An iterable of ``(start, end)``.
            min_len: As for :meth:`need`, and so are the others.
            max_gap: Gaps up to this many bytes are read over.
            max_len: The longest read.
            alignment: Reads begin and end at multiples of this power of two.
            end: The length of what is read.

        Raises:
            InvalidError: The options contradict themselves, a range ends before it begins, or more
                than 4 million reads would be needed.
        """
    def extents(self) -> list[tuple[int, int]]:
        """What is held, as the fewest ranges, ascending."""
    def extent_at(self, position: int) -> Union[Extent, None]:
        """All that is held around ``position`` without a gap; ``None`` where it is not held."""
    def extents_touched(self) -> list[tuple[int, int, int]]:
        """The ranges of :meth:`extents`, each with its latest touch: ``(start, end, last_touch)``."""
    def extent_before(self, position: int) -> Union[Extent, None]:
        """The last range of :meth:`extents` that begins at ``position`` or before, whether it reaches
        ``position`` or not; ``None`` where there is none.
        """
    def extent_after(self, position: int) -> Union[Extent, None]:
        """The first range of :meth:`extents` that ends after ``position``; ``None`` where there is
        none.
        """
    def segments(self) -> list[tuple[int, int, int]]:
        """How what is held is divided, as ``(start, end, last_touch)``: what is touched and evicted as
        one.
        """
    def erase(self, position: int, length: int) -> int:
        """Takes away what is held of the ``length`` bytes at ``position``.

        Returns:
            How many bytes that were.
        """
    def erase_extent(self, position: int) -> Union[int, None]:
        """Takes away the whole range of :meth:`extents` that begins at ``position``.

        Returns:
            How many bytes that were, or ``None`` where none begins there.
        """
    def clear(self) -> int:
        """Takes everything away, pinned or not. Counters, options and the count of touches stay.

        Returns:
            How many bytes that were.
        """
    def reset(self) -> int:
        """Takes everything away, pinned or not, and begins anew: all counters are 0, and the next
        touch is the first again. Options, pins and ``modified_ns`` stay; in a store touches go on.

        Returns:
            How many bytes that were.
        """
    def evict_extents(self, budget_bytes: int, *, keep: int = 0) -> tuple[int, int]:
        """Takes away whole ranges of :meth:`extents`, first the one whose latest touch is the
        earliest, until at most ``budget_bytes`` are held or ``keep`` of them are left. Those of
        which a byte is pinned stay.

        :meth:`evict_to` takes away parts of them, and so keeps more of what is needed.

        Returns:
            How many ranges that were, and how many bytes.
        """
    def evict_to(self, budget_bytes: int) -> int:
        """Takes away what was touched longest ago until at most ``budget_bytes`` are held, or only
        what is pinned.

        Whole segments go, so up to 64 KiB more than needed.

        Returns:
            How many bytes that were.
        """
    def pin(self, position: int, length: int) -> Pin:
        """Keeps the ``length`` bytes at ``position`` from being evicted, now or when they are written.

        Returns:
            A context manager that ends it; so does ``release()``.
        """
    def touch(self, position: int, length: int) -> None:
        """Makes what is held of the ``length`` bytes at ``position`` the last to be evicted."""
    def counters(self) -> SparseCounters:
        """What was done to it since it was made, and when last."""
    def work(self) -> tuple[int, int]:
        """How much was moved within memory since it was made, as ``(bytes, segments)``: for tests and
        tuning.
        """
    def to_bytes(self) -> bytes:
        """The serialised form: bytes, options, counters and touches, with checksums; pins are left
        out.
        """
    @staticmethod
    def from_bytes(data: AnyBuffer) -> SparseBuffer:
        """Reads what :meth:`to_bytes` gave. The bytes may come from anywhere: what they say is
        verified.

        Raises:
            DamagedError: They were cut or changed.
            UnsupportedError: They are something else, or of another version.
        """
    @property
    def held_bytes(self) -> int:
        """How many bytes are held."""
    @property
    def memory_bytes(self) -> int:
        """What it takes of memory, everything included."""
    @property
    def end(self) -> int:
        """The position after the last byte held, 0 for none."""
    @property
    def modified_ns(self) -> Union[int, None]:
        """The modification time of what the bytes come from, nanoseconds since 1970: whatever was set.
        Kept in the serialised form, to be compared later.
        """
    @modified_ns.setter
    def modified_ns(self, modified_ns: Union[int, None]) -> None: ...
    @property
    def budget_bytes(self) -> Union[int, None]:
        """More than this is not held; ``None`` for no limit."""
    @property
    def grain(self) -> int:
        """The most bytes of a segment."""
    @property
    def adopt_min(self) -> int:
        """What is shorter is copied when it is adopted."""
    @property
    def first_touch(self) -> int:
        """Where the count of touches began."""
    @property
    def exact(self) -> bool:
        """Whether touches are numbered without gaps, and every read and write notes the time."""
    @property
    def wipe(self) -> bool:
        """Whether memory is overwritten before it is given back."""
    @property
    def next_touch(self) -> int:
        """A number greater than those of all touches so far; with ``exact`` that of the next."""
    @property
    def extent_count(self) -> int:
        """How many ranges :meth:`extents` gives."""
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class SparseStore:
    """Many named sparse buffers in memory, under one byte budget and one count of touches.

    A mapping of names to :class:`SparseBuffer`. What was touched longest ago is evicted, whichever
    of them it is in.

    Args:
        budget_bytes: What all of them together hold at most; ``None`` for no limit.
        grain: The most bytes of a segment, which is what is touched and evicted as one: 1 to
            65,536.
        adopt_min: What is shorter is copied by ``adopt``: 4,096 or more.
        first_touch: Where the count of touches begins.
        exact: Touches are numbered without gaps, in one order for all threads, and every read and
            write notes the time. Operations take longer for it.
        wipe: Memory that bytes were copied into is overwritten before it is given back.

    Raises:
        InvalidError: For an option with a value that it cannot have.

    Example:
        >>> import stook
        >>> store = stook.SparseStore(budget_bytes=1000)
        >>> store.get_or_create("a").write(0, bytes(600))
        600
        >>> store.get_or_create("b").write(7, bytes(600))
        600
        >>> store.held_bytes
        600
    """
    def __new__(
        cls,
        *,
        budget_bytes: Union[int, None] = None,
        grain: int = 65536,
        adopt_min: int = 16384,
        first_touch: int = 0,
        exact: bool = False,
        wipe: bool = False,
    ) -> Self: ...
    @overload
    def get(self, name: str, /) -> Union[SparseBuffer, None]:
        """The buffer of this name, or ``default``."""
    @overload
    def get(self, name: str, default: _Default, /) -> Union[SparseBuffer, _Default]: ...
    def get_or_create(self, name: str) -> SparseBuffer:
        """The buffer of this name, a new one where there was none."""
    def remove(self, name: str) -> Union[SparseBuffer, None]:
        """Takes a buffer out. Its users keep it; it no longer counts for the budget and
        is not evicted from.

        Returns:
            The buffer, or ``None`` where there was none of this name.
        """
    def clear(self) -> None:
        """Takes all buffers out."""
    def load(self, name: str, data: AnyBuffer) -> SparseBuffer:
        """Reads a serialised buffer and gives it this name. Its budget is that of the store.

        Args:
            name: The name.
            data: What :meth:`SparseBuffer.to_bytes` gave.

        Raises:
            ExistsError: The name is taken.
            DamagedError: The bytes were cut or changed.
            UnsupportedError: They are something else, or of another version.
        """
    def keys(self) -> list[str]:
        """The names, ascending."""
    def values(self) -> list[SparseBuffer]:
        """The buffers, by their names ascending."""
    def items(self) -> list[tuple[str, SparseBuffer]]:
        """Names and buffers, ascending."""
    def names_after(self, name: str, count: int) -> list[str]:
        """Up to ``count`` names after ``name``, ascending: for stores of very many buffers."""
    def evict_to(self, budget_bytes: int) -> int:
        """Takes away what was touched longest ago, in whichever buffers, until at most
        ``budget_bytes`` are held, or only what is pinned.

        Returns:
            How many bytes that were.
        """
    def counters(self) -> SparseCounters:
        """What was done to all buffers, those included that were removed."""
    @property
    def held_bytes(self) -> int:
        """How many bytes all buffers hold."""
    @property
    def memory_bytes(self) -> int:
        """What all buffers take of memory, everything included."""
    @property
    def budget_bytes(self) -> Union[int, None]:
        """What all of them together hold at most; ``None`` for no limit."""
    def __getitem__(self, name: str, /) -> SparseBuffer: ...
    def __delitem__(self, name: str, /) -> None: ...
    def __contains__(self, name: object, /) -> bool: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[str]: ...

@final
class DiskCache:
    """A directory in which what was fetched of remote files is kept for the next time, within a
    budget.

    Shared by any number of processes. What was used longest ago is evicted. Bytes are verified
    whenever they are read; what is damaged is fetched again. A disk that is full or read-only fails
    no read: :meth:`statistics` shows it.

    Args:
        directory: Where. It is made, for the user of this process alone, where there is none;
            no other user may be able to write in it.
        budget_bytes: What all that is kept may take of the disk.

    Raises:
        OSError: It cannot be made or opened, or others may write in it.
    """
    def __new__(cls, directory: Path, budget_bytes: int = 10737418240) -> Self: ...
    @property
    def directory(self) -> pathlib.Path:
        """Where it is."""
    @property
    def budget_bytes(self) -> int:
        """What all that is kept may take of the disk, in bytes."""
    def statistics(self) -> DiskStatistics:
        """What was done with it in this process."""

@final
class SparseFile:
    """A file or an object somewhere else that is read through a cache, which fetches only what is
    missing.

    A read gives what is held and fetches what is missing, in few large requests, ahead of the
    reader where its pattern allows a guess. What one thread fetches no other asks for again. All
    bytes are of one state of the source: once it has changed, every read raises. May be used from
    any number of threads, after a fork, and is pickled by its address and options, credentials in
    ``settings`` included.

    Ranges are ``(start, end)``, ``end`` not included. Reads past the end give fewer bytes, as those
    of files do.

    Args:
        address: A path, or ``https://``, ``http://``, ``s3://bucket/key``, ``gs://bucket/key``,
            ``az://container/key``.
        cache: A directory in which what was fetched is kept for the next time, or a
            :class:`DiskCache`.
        memory_bytes: What is held in memory at most; ``None`` for no limit.
        store: A :class:`SparseStore` that holds the bytes, under its budget.
        store_name: The name of the buffer in ``store``. What it holds is given only where it is
            proven to be of this source in this state, as in ``cache``; otherwise the name stands
            for this file from now on, and nothing of what was there is given.
        max_gap: Gaps between reads up to this many bytes are fetched too. 64 KiB where nothing is
            said.
        allowance: Bytes that may be fetched and never used; beyond that, at most as many as were
            needed. 1 MiB.
        max_window: The longest way ahead of one read, in bytes. 32 MiB.
        requests: Requests under way at once, at most. 8.
        max_request_bytes: The longest request. 8 MiB.
        tries: How often a request is sent, at most. 6.
        deadline: Seconds that one range may take, with all its tries. 60.
        stall: Seconds without a byte after which a try counts as failed. 15.
        whole_file: Whether an object whose server cannot send parts is read as a whole.
        settings: Settings of the object store by their names in the environment (``AWS_REGION``),
            which they override.
        headers: Further headers of requests to ``http://`` and ``https://`` addresses.

    Raises:
        FileNotFoundError: There is no such file or object.
        IsADirectoryError: The path is one of a directory.
        PermissionError: The file, or the server, refuses.
        RemoteError: The server did not give what was asked for, after all tries.
        AddressError: The address means nothing.
        ExistsError: ``store`` holds bytes under this name of which nothing says whose they are.

    Example:
        >>> import pathlib, stook
        >>> _ = pathlib.Path("digits").write_bytes(b"0123456789")
        >>> with stook.SparseFile("digits") as file:
        ...     file.read(1, 3)
        b'123'
    """
    def __new__(cls, address: Address, **options: Unpack[SparseFileOptions]) -> Self: ...
    @staticmethod
    def from_fetch(
        fetch: Callable[[int, int], AnyBuffer],
        size: int,
        *,
        name: Union[str, None] = None,
        identity: Union[str, None] = None,
        origin: Union[str, None] = None,
        **options: Unpack[SparseFileOptions],
    ) -> SparseFile:
        """A file whose bytes a function gives: for other libraries that can read ranges.

        Args:
            fetch: Called as ``fetch(start, end)``, from threads of this package and several times
                at once; gives ``end - start`` bytes, as any bytes-like object. What it raises is
                raised by the read that needed it. It may not wait for this file itself: such a read
                raises :class:`InvalidError`.
            size: The length of the file, in bytes.
            name: What it is: an address, a path. Messages and ``cache`` show it without user,
                password and query.
            identity: What distinguishes this state of the file and follows its content, such as
                a strong ETag. Without it, or with a weak ETag, nothing is kept in ``cache``.
            origin: What beside ``name`` decides which bytes come, such as who asks. Only a salted
                hash of it is kept.
            **options: As for :class:`SparseFile`.

        Example:
            >>> import stook
            >>> data = bytes(1000)
            >>> file = stook.SparseFile.from_fetch(lambda start, end: data[start:end], 1000)
            >>> len(file.read(990, 100))
            10
        """
    def read(self, position: int, length: int) -> bytes:
        """The ``length`` bytes at ``position``; fewer only where the file ends.

        Raises:
            SourceChangedError: The source is no longer what it was when it was opened.
            RemoteError: The server did not give what was asked for, after all tries.
            ClosedError: The file is closed.
        """
    def readinto(self, position: int, out: AnyBuffer) -> int:
        """Reads bytes at ``position`` into ``out``.

        Args:
            position: Where the first one is.
            out: A writable bytes-like object: ``bytearray``, ``memoryview``, an array.

        Returns:
            How many: fewer than ``out`` has room for only where the file ends.
        """
    def read_many(self, ranges: Ranges) -> list[bytes]:
        """The bytes of many ranges, in their order, fetched together: for callers that know what they
        will need.

        Args:
            ranges: An iterable of ``(start, end)``.

        Raises:
            OutOfBoundsError: A range reaches past the end.
        """
    def prefetch(self, ranges: Ranges, *, progress: Progress = None) -> None:
        """Fetches what is missing of these ranges, all of it together, and nothing ahead.

        Args:
            ranges: An iterable of ``(start, end)``.
            progress: Called now and then with the bytes that came and all that were missing. What
                it raises is raised, and what was begun continues. ``True`` shows a bar with tqdm.

        Raises:
            OutOfBoundsError: A range reaches past the end.
        """
    def aread(self, position: int, length: int) -> Coroutine[Any, Any, bytes]:
        """The same as :meth:`read`, awaitable: it waits in a thread."""
    def aread_many(self, ranges: Ranges) -> Coroutine[Any, Any, list[bytes]]:
        """The same as :meth:`read_many`, awaitable: it waits in a thread."""
    def _read_at_once(self, position: int, length: int) -> Union[bytes, None]: ...
    def has(self, position: int, length: int) -> bool:
        """Whether all of the ``length`` bytes at ``position`` are held in memory."""
    def statistics(self) -> SparseStatistics:
        """What was asked for and what that cost, since it was opened."""
    def close(self) -> None:
        """Closes it; what is held in memory is let go. May be called again.

        In a ``store``, what is proven to be of this state of the source (by a strong ETag, or a
        time that is old enough) stays there for the next file, within the budget; all else goes
        with the last file that is open over it.
        """
    @property
    def closed(self) -> bool:
        """Whether it was closed."""
    @property
    def size(self) -> int:
        """The length of the file, in bytes."""
    @property
    def identity(self) -> Identity:
        """What the source was when it was opened."""
    @property
    def name(self) -> str:
        """What it is called in messages: its path, or its address without secrets."""
    @property
    def buffer(self) -> SparseBuffer:
        """What is held in memory. What is written there is taken for bytes of the file."""
    def __enter__(self) -> Self: ...
    def __exit__(self, *exception: Union[type[BaseException], BaseException, TracebackType, None]) -> None: ...

@final
class RecordFile:
    """A record of a pack, read by range: of a record of any length only the chunks are read that a
    range touches, and what is given was verified.

    What `Pack.open` reads from. It shows the state that it was opened in, also once the pack is
    closed; it may be used by any number of threads.

    Args:
        pack: The pack.
        key: The key of the record.

    Raises:
        KeyError: There is no such record.
        IsADirectoryError: It is a directory.
        stook.DamagedError: Its head is not what was written.
    """
    def __new__(cls, pack: Pack, key: Key) -> Self: ...
    @property
    def key(self) -> Union[str, int]:
        """The key of the record; of a hard link that of its file."""
    @property
    def size(self) -> int:
        """The length of the record, in bytes."""
    @property
    def identity(self) -> Identity:
        """What distinguishes this record from what may have its key later."""
    @property
    def name(self) -> str:
        """The path of the pack, and after two slashes the key."""
    @property
    def closed(self) -> bool:
        """Whether it was closed."""
    def read(self, position: int, length: int) -> bytes:
        """The ``length`` bytes at ``position``; fewer only where the record ends.

        Raises:
            stook.DamagedError: A chunk in which some of them are is not what was written.
            stook.ClosedError: The file is closed.
        """
    def readinto(self, position: int, out: AnyBuffer) -> int:
        """Reads bytes at ``position`` into ``out``.

        Args:
            position: Where the first one is.
            out: A writable bytes-like object: ``bytearray``, ``memoryview``, an array.

        Returns:
            How many: fewer than ``out`` has room for only where the record ends.
        """
    def read_many(self, ranges: Ranges) -> list[bytes]:
        """The bytes of many ranges, in their order, read together.

        Args:
            ranges: An iterable of ``(start, end)``.

        Raises:
            stook.OutOfBoundsError: A range reaches past the end.
        """
    def prefetch(self, ranges: Ranges, *, progress: Progress = None) -> None:
        """Reads these ranges and verifies them, so that they are in the page cache where half of the
        free memory holds the pack.

        Args:
            ranges: An iterable of ``(start, end)``.
            progress: Called now and then with the bytes that were read and all that are wanted.
                ``True`` shows a bar with tqdm.

        Raises:
            stook.OutOfBoundsError: A range reaches past the end.
        """
    def statistics(self) -> SparseStatistics:
        """What was asked for. There are no requests, and nothing is ever missed."""
    def close(self) -> None:
        """Closes it. May be called again."""
    def __enter__(self) -> Self: ...
    def __exit__(self, *exception: Union[type[BaseException], BaseException, TracebackType, None]) -> None: ...

def described(
    fields: Mapping[str, str], is_page: bool, /
) -> tuple[Optional[str], Optional[str], Optional[float]]:
    """What a file system says of a state of a file: ``(signs, proof, wait)``.

    Args:
        fields: What it says, by the names that it has for it.
        is_page: Whether it is a web server, whose ETags are not reliable.

    Returns:
        All that distinguishes states, or ``None`` where nothing does; what follows the content, or
        ``None``; and the seconds after which it is to be asked again, because no change can then
        leave all as it is: 0 where none can now, ``None`` where one always could.
    """

def local_path(address: str, /) -> Optional[str]:
    """The path that an address means: what follows ``file://``, or all of it where it has no
    scheme; ``None`` for an object on a server.

    Raises:
        AddressError: It means nothing.
    """
def path_argument(name: str, path: Path, /) -> str:
    """The path of an argument with this name, as ``str``. Errors name the argument."""
def split_pack_path(path: str, /) -> tuple[str, str]:
    """A pack and a key in one path; an empty key where the pack itself is meant."""

def has_pack(directory: str, /) -> bool:
    """Whether there are files of a pack in a directory."""

def shown_in(text: str, /) -> str:
    """A text without what may be a secret in the addresses that are in it: users, passwords, queries."""

def check_sparse_options(options: dict[str, Any], /) -> None:
    """Raises what :class:`SparseFile` would raise for these options, before there is anything to open."""

def who_asks(kind: str, arguments: list[str], options: dict[str, str], /) -> str:
    """Who asks a file system of this kind that was made with these arguments and options, without
    their secrets.
    """
