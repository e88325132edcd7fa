# The types of the native half. The documentation is copied from it by `scripts/python stubs`.
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import PosixPath
from types import TracebackType
from typing import SupportsIndex, TypeVar, Union, final, overload

from typing_extensions import Self

from ._errors import DamagedError
from ._file import File
from ._stook_archive import *
from ._stook_items import *
from ._stook_mapping import *
from ._stook_mapping import _PackMapping
from ._stook_ops import *
from ._stook_sparse import *
from ._stook_stitch import *
from ._stook_stream import *
from ._types import CheckReport, CompactReport, DeleteReport, PackInfo
from ._typing import (
    Access, AnyBuffer, Attributes, Columns, Conditions, Durability, Key, Kinds, Mode, OnDamage,
    Path, Progress, ScanOrder, SimpleProgress, SupportsArrow, SupportsRead,
)

_Default = TypeVar("_Default")

@final
class Pack(_PackMapping):
    """Many records in a few large files: read by key or from end to end, changed in place, safe
    against crashes.

    A pack is a mapping from keys (`str`, `bytes` or `int`) to `bytes`, with all methods of one, and
    equal to any mapping with the same content; so it is not hashable, as a dict is not. A pack
    opened to read shows the state that it had then; one opened to write shows what it wrote. Any
    number of threads may use it; others may read it meanwhile, in other processes, too, but only
    one may write.

    Args:
        path: The directory of the pack.
        mode: ``"r"`` reads; ``"r+"`` reads and writes; ``"a"`` too, and makes the pack if it is not
            there; ``"x"`` makes it and fails if it is there.
        at: The state at this time rather than the newest: a
            ``datetime``, a text (``"2026-11-21T20:30:00Z"``, a date, ``"@1795293000"``), a float of
            seconds since 1970, or an int of nanoseconds, as ``time_ns`` of records is.
        generation: This generation, as it was published, rather than the newest.
        map: Whether sealed segments are mapped into memory. Gets are several times as fast where
            the pack is in memory. Its files must not be cut or overwritten meanwhile.
        access: ``"direct"`` past the page cache, ``"cached"`` through it, ``"auto"`` by what is in
            it, and gets through it where half of the free memory holds the pack.
        durability: When what was put is safe:
            ``"sync"`` after ``sync`` or ``close``, ``"put"`` when ``put`` returns (shared by all
            threads that wait), a number: at the latest after that many seconds, as long as records
            are put.
        segment_bytes: Segments of a new pack are sealed when they are this long.

    Raises:
        FileNotFoundError: There is nothing at ``path``.
        stook.NotAPackError: What is at ``path`` is no pack.
        stook.ExistsError: Mode ``"x"``, and there is a pack.
        stook.LockedError: Another process, or another object, writes to it.
        stook.NoSuchStateError: There is no such generation, history does not go back so far, or
            ``at`` is before the first record.
        stook.DamagedError: Its manifest is not what was written.

    Warns:
        stook.RecoveryWarning: Opened to be written, it was left unfinished by a writer before: what
            was found and mended.
        stook.DamageWarning: Something else of it is damaged, so that records may be missing:
            `Pack.damages` says what.

    Examples:
        >>> import stook
        >>> with stook.Pack("data.stook", "a") as pack:
        ...     pack["one"] = b"first"
        ...     pack[2] = b"second"
        ...     pack["one"], len(pack)
        (b'first', 2)
    """
    def __new__(
        cls,
        path: Path,
        mode: Mode = "r",
        *,
        at: Union[datetime, str, float, int, None] = None,
        generation: Union[int, None] = None,
        map: bool = False,
        access: Access = "auto",
        durability: Durability = "sync",
        segment_bytes: int = 4294967296,
    ) -> Self: ...
    @property
    def path(self) -> PosixPath:
        """Where the pack is."""
    @property
    def mode(self) -> str:
        """The mode in which it was opened."""
    @property
    def damages(self) -> list[DamagedError]:
        """The damage that was found when it was opened, as exceptions: records may be missing. `check`
        looks for all damage.
        """
    @property
    def closed(self) -> bool:
        """Whether it was closed."""
    @property
    def groups(self) -> list[str]:
        """The groups that the pack has; the default group is the empty string."""
    @property
    def generation(self) -> int:
        """The generation that is shown."""
    def close(self) -> None:
        """Closes the pack. What was put is safe when this returns. Closing twice does nothing."""
    def __enter__(self) -> Self: ...
    def __exit__(self, *exception: Union[type[BaseException], BaseException, TracebackType, None]) -> None: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *exception: Union[type[BaseException], BaseException, TracebackType, None]) -> None: ...
    @overload
    def get_many(self, keys: Iterable[Key], *, progress: Progress = None) -> list[Union[bytes, None]]:
        """Gets many values at once: reads are planned together and many are under way at a time.

        Args:
            keys: The keys, in any order; a key may occur twice.
            default: What is given for keys without a record.
            progress: Called now and then with the records and bytes so far; what it raises ends it.
                ``True`` shows a bar with tqdm.

        Returns:
            The values in the order of the keys.

        Raises:
            stook.DamagedError: A record is not what was written.

        Examples:
            >>> import stook
            >>> pack = stook.Pack("data.stook", "a")
            >>> pack.update({"a": b"1", "b": b"2"})
            >>> pack.get_many(["b", "c", "a"])
            [b'2', None, b'1']
            >>> pack.close()
        """
    @overload
    def get_many(
        self, keys: Iterable[Key], default: _Default, *, progress: Progress = None
    ) -> list[Union[bytes, _Default]]: ...
    @overload
    async def aget(self, key: Key) -> Union[bytes, None]: ...
    @overload
    async def aget(self, key: Key, default: _Default) -> Union[bytes, _Default]: ...
    @overload
    async def aget_many(self, keys: Iterable[Key]) -> list[Union[bytes, None]]: ...
    @overload
    async def aget_many(self, keys: Iterable[Key], default: _Default) -> list[Union[bytes, _Default]]: ...
    def record(self, key: Key) -> Union[Record, None]:
        """Gets a record with its attributes and times, its value without a copy.

        Args:
            key: The key.

        Returns:
            The record, or ``None``.

        Raises:
            stook.DamagedError: The record is not what was written.
        """
    def records(self, keys: Iterable[Key], *, progress: Progress = None) -> list[Union[Record, None]]:
        """Gets many records at once, as `get_many` does with values.

        Args:
            keys: The keys, in any order.
            progress: As for `get_many`.

        Returns:
            For each key the record, or ``None``.

        Raises:
            stook.DamagedError: A record is not what was written.
        """
    def open(self, key: Key) -> File:
        """Opens a record as a file, seekable and read-only, for records of any length: what is read of
        it is verified, and no more is read than the chunks that it is in. It shows the record as it
        is now, also once the pack is closed.

        Args:
            key: The key.

        Returns:
            A `File`.

        Raises:
            KeyError: There is no such record.
            IsADirectoryError: It is a directory.
            stook.DamagedError: Its head is not what was written; from reads, what they touch.

        Examples:
            >>> import stook
            >>> with stook.Pack("data.stook", "a") as pack:
            ...     pack["digits"] = b"0123456789"
            ...     with pack.open("digits") as file:
            ...         file.seek(-3, 2)
            ...         file.read()
            7
            b'789'
        """
    def stat(self, key: Key) -> Union[Stat, None]:
        """What is known of a record without reading its value.

        Args:
            key: The key.

        Returns:
            A `Stat`, or ``None`` where there is no such record.

        Examples:
            >>> import stook
            >>> pack = stook.Pack("data.stook", "a")
            >>> pack["a"] = b"123"
            >>> pack.stat("a")
            <stook.Stat 'a': file of 3 bytes>
            >>> pack.close()
        """
    def stats(self, keys: Iterable[Key]) -> list[Union[Stat, None]]:
        """The same for many records at once.

        Args:
            keys: The keys, in any order.

        Returns:
            For each key a `Stat`, or ``None``.
        """
    def listdir(self, directory: Union[str, bytes] = "") -> list[Stat]:
        """What lies directly below a directory, where keys are paths with ``/`` between their parts.
        Directories are there whether they have records of their own or not; numeric keys lie in the
        topmost directory.

        Args:
            directory: Its key, with or without a ``/`` at its end; ``""`` is the topmost one.

        Returns:
            A `Stat` for each, in the order of the keys.

        Raises:
            FileNotFoundError: There is no such directory.
            NotADirectoryError: It is a file or a link.

        Examples:
            >>> import stook
            >>> pack = stook.Pack("data.stook", "a")
            >>> pack.update({"a/1": b"x", "a/b/2": b"yy", "c": b"zzz"})
            >>> pack.listdir()
            [<stook.Stat 'a': directory of 0 bytes>, <stook.Stat 'c': file of 3 bytes>]
            >>> pack.listdir("a")
            [<stook.Stat 'a/1': file of 1 bytes>, <stook.Stat 'a/b': directory of 0 bytes>]
            >>> pack.close()
        """
    def scan(
        self,
        *,
        order: ScanOrder = "disk",
        prefix: Union[str, bytes, None] = None,
        start: Union[Key, None] = None,
        end: Union[Key, None] = None,
        group: Union[str, list[str], None] = None,
        split: Union[Split, None] = None,
        cursor: Union[str, None] = None,
        on_damage: OnDamage = "raise",
        kinds: Kinds = "file",
        progress: Progress = None,
        where: Union[Conditions, None] = None,
        columns: Union[Columns, None] = None,
    ) -> Scan:
        """Goes through live records: at the speed of the device, as they are on it, or by key.

        Args:
            order: ``"disk"`` or ``"key"``.
            prefix: Only keys that begin with this.
            start: Only keys from this one on.
            end: Only keys before this one.
            group: Only this group, or these; the default group is ``""``.
            split: Only this part of the pack; see `splits`.
            cursor: Continues where `Scan.cursor` was asked for; goes with none of the others but
                ``on_damage``, ``kinds`` and ``progress``.
            on_damage: ``"raise"``, or ``"skip"``: what is damaged is passed over and reported in
                `Scan.damages`.
            kinds: ``"file"``: what has content, of hard links that of the file, and everything that
                no tree was packed from; ``"directory"``, ``"symlink"``, several of these, or
                ``"all"``. What counts as a directory or a link is reported by
                ``attributes["kind"]``.
            progress: Called now and then with the records and bytes so far, and with the last ones
                at the end; what it raises is raised from the iterator. ``True`` shows a bar with
                tqdm.
            where: Only records with these attributes: a dict of names, as their columns are called,
                and values, or lists of the values that will do. A condition that no record of the
                pack can meet is an error at the end of the scan.
            columns: What tables of the scan have: names, or a dict of names and types
                (``"binary"``, ``"string"``, ``"uint64"``, ``"int64"``, ``"uint32"``,
                ``"timestamp"``; ``None`` for the usual one). Without ``value`` no values are read,
                and rows come in the order of the keys. Iteration gives whole records anyway.

        Returns:
            An iterator over records, which is also what tools that read Arrow take: see
            `Scan.to_table`.

        Raises:
            stook.DamagedError: A record is not what was written; from the iterator.
            stook.InvalidError: A split or cursor of another pack or another generation; a condition
                on what is no attribute, that no record of the pack has, or of a type that none has.

        Examples:
            >>> import stook
            >>> pack = stook.Pack("data.stook", "a")
            >>> pack.update({"a/1": b"x", "a/2": b"yy", "b/1": b"zzz"})
            >>> [(record.key, len(record.value)) for record in pack.scan(order="key", prefix="a/")]
            [('a/1', 1), ('a/2', 2)]
            >>> pack.close()
        """
    def splits(self, count: int, *, group: Union[str, list[str], None] = None) -> list[Split]:
        """Cuts the pack into parts of about the same length, so that several threads or processes scan
        one each.

        Args:
            count: How many at most.
            group: Only this group, or these.

        Returns:
            The parts. Every live record is in exactly one.
        """
    def ordinals(
        self,
        *,
        prefix: Union[Key, None] = None,
        start: Union[Key, None] = None,
        end: Union[Key, None] = None,
        group: Union[str, list[str], None] = None,
        split: Union[Split, None] = None,
        kinds: Kinds = "file",
        on_damage: OnDamage = "raise",
        where: Union[Conditions, None] = None,
    ) -> Ordinals:
        """Numbers the records of a selection, in the order in which they are on the medium, so that
        they can be read by `at` and `get_many_at` in any order, without a list of their keys.

        Args:
            prefix: Only keys that begin with this.
            start: Only keys from this one on.
            end: Only keys before this one.
            group: Only this group, or these.
            split: Only this part of the pack; see `splits`.
            kinds: Only records of these kinds, as for `scan`. ``"all"`` takes the index alone,
                others read the heads of records.
            on_damage: ``"raise"``, or ``"skip"``: what is not known to count is left out and
                reported in `Ordinals.damages`.
            where: Only records with these attributes, as for `scan`.

        Returns:
            `Ordinals`.

        Raises:
            stook.DamagedError: Whether a record counts is not known.
            stook.InvalidError: A split of another pack or another generation, an unknown group, a
                condition that no record can meet.

        Examples:
            >>> import stook
            >>> pack = stook.Pack("data.stook", "a")
            >>> pack.update({"a/1": b"x", "a/2": b"yy", "b/1": b"zzz"})
            >>> some = pack.ordinals(prefix="a/")
            >>> len(some), pack.at(1, some).key
            (2, 'a/2')
            >>> [bytes(record) for record in pack.get_many_at([1, 0], some)]
            [b'yy', b'x']
            >>> pack.close()
        """
    def at(self, number: SupportsIndex, ordinals: Union[Ordinals, None] = None) -> Record:
        """Gets the record with a number.

        Args:
            number: From 0 on; one below 0 counts from the end.
            ordinals: What numbers are of: all files of the pack if it is not given. They are
                listed when the first is asked for, and again after something was written.

        Returns:
            The record.

        Raises:
            IndexError: There are not so many.
            stook.DamagedError: The record is not what was written.
            stook.InvalidError: The numbers are of another state of the pack.
        """
    def get_many_at(
        self, numbers: Iterable[SupportsIndex], ordinals: Union[Ordinals, None] = None, *, progress: Progress = None
    ) -> list[Record]:
        """Gets the records with many numbers: reads are under way at a time.

        Args:
            numbers: Numbers as for `at`: a list, an array, anything that gives ints.
            ordinals: As for `at`.
            progress: As for `get_many`.

        Returns:
            The records in the order of the numbers.

        Raises:
            IndexError: There are not so many.
            stook.DamagedError: A record is not what was written.
            stook.InvalidError: The numbers are of another state of the pack.
        """
    def check(self, progress: Progress = None) -> CheckReport:
        """Verifies every record, every index page, and that they agree.

        Args:
            progress: Called now and then with the bytes gone through and all there are, on another
                thread. ``True`` shows a bar with tqdm.

        Returns:
            A `CheckReport`. Damage is not an exception here; it is what the report is for.
        """
    def info(self) -> PackInfo:
        """What is known of the pack without reading records.

        Returns:
            A `PackInfo`.
        """
    def is_current(self) -> bool:
        """Whether nothing was written since this state was opened."""
    def refresh(self) -> bool:
        """Shows what others wrote since.

        Returns:
            Whether there was anything new.
        """
    def follow(
        self,
        *,
        prefix: Union[str, bytes, None] = None,
        group: Union[str, list[str], None] = None,
        timeout: Union[float, None] = None,
    ) -> Follow:
        """Goes through records that are put from now on, by whomever, in the order in which they are
        put. A record that was replaced or deleted before it was looked at is passed over.

        Args:
            prefix: Only keys that begin with this.
            group: Only this group, or these.
            timeout: Ends when nothing was put for that long; ``None`` waits until the pack is
                closed.

        Returns:
            An iterator over records.

        Raises:
            stook.DamagedError: A record is not what was written; from the iterator, which continues
                after it.
            stook.InvalidError: The pack was opened with ``at`` or ``generation``: a state of the
                past does not grow.

        Examples:
            >>> import stook
            >>> with stook.Pack("data.stook", "a") as pack:
            ...     put = pack.follow(timeout=1)
            ...     pack["one"] = b"first"
            ...     pack.sync()
            ...     next(put).key
            'one'
        """
    def snapshot(self) -> Pack:
        """The state that is shown now, to be read: what is written later does not change it.

        Returns:
            A new `Pack` in mode ``"r"``.
        """
    def put(
        self,
        key: Key,
        value: AnyBuffer,
        *,
        attributes: Union[Attributes, None] = None,
        group: str = "",
    ) -> int:
        """Puts a record, in place of any older one with this key.

        Args:
            key: The key.
            value: The value: `bytes` or anything with a buffer in one piece.
            attributes: Small values that go with it, by name: ``int``, ``str`` or ``bytes``. The
                names ``kind``, ``mode``, ``mtime_ns``, ``user_id``, ``group_id``, ``names``,
                ``ctime_ns`` and ``inode`` are those of packed files, and take what those have.
            group: The group to put it into.

        Returns:
            Its sequence number. When the record is safe, ``durability`` says. After Ctrl-C a long
            value may still be written: it is whole or not there.

        Raises:
            OSError: The disk is full or fails. After a failed write the pack must be opened again.

        Examples:
            >>> import stook
            >>> pack = stook.Pack("data.stook", "a")
            >>> sequence = pack.put("cat.jpg", b"...", attributes={"label": "cat", "width": 640})
            >>> pack.record("cat.jpg").attributes
            {'label': 'cat', 'width': 640}
            >>> pack.close()
        """
    def put_file(
        self,
        key: Key,
        file: Union[Path, SupportsRead],
        *,
        attributes: Union[Attributes, None] = None,
        group: str = "",
        progress: SimpleProgress = None,
    ) -> int:
        """Puts what a file has, or what a stream gives until it ends, as a record: for values that are
        too long for memory, as ``stook put`` does.

        Args:
            key: The key.
            file: The path of a file, whose mode and modification time become attributes, and which
                must not change meanwhile; or an object with ``read``, open in binary mode.
            attributes: As for `put`; they take precedence over those of the file.
            group: The group to put it into.
            progress: Called now and then with the bytes so far, on another thread; what it raises
                ends it, and nothing is put then. ``True`` shows a bar with tqdm.

        Returns:
            Its sequence number.

        Raises:
            OSError: The file cannot be read, or the pack cannot be written.
            IsADirectoryError: It is a directory: `pack_tree` takes trees.
            stook.SourceChangedError: The file changed while it was read. Nothing was put.

        Examples:
            >>> import io, stook
            >>> with stook.Pack("data.stook", "a") as pack:
            ...     sequence = pack.put_file("digits", io.BytesIO(b"0123456789"))
            ...     pack["digits"]
            b'0123456789'
        """
    def append(
        self,
        value: AnyBuffer,
        *,
        attributes: Union[Attributes, None] = None,
        group: str = "",
    ) -> int:
        """Puts a record under the next id: above all that there are, 0 in a pack without ids.

        Args:
            value: The value.
            attributes: Small values that go with it, by name.
            group: The group to put it into.

        Returns:
            The id.

        Examples:
            >>> import stook
            >>> pack = stook.Pack("log.stook", "a")
            >>> pack.append(b"first"), pack.append(b"second")
            (0, 1)
            >>> pack.close()
        """
    def delete(self, key: Key) -> bool:
        """Deletes a record.

        Args:
            key: The key.

        Returns:
            Whether there was one.
        """
    def delete_many(
        self,
        keys: Union[Iterable[Key], None] = None,
        *,
        prefix: Union[str, bytes, None] = None,
        glob: Union[str, Sequence[str], None] = None,
        group: Union[str, list[str], None] = None,
        dry_run: bool = False,
        progress: SimpleProgress = None,
    ) -> DeleteReport:
        """Deletes many records, all of them or none: those with these keys, and those that a prefix,
        patterns and groups select, as ``stook rm`` does.

        Args:
            keys: The keys of records.
            prefix: Every record whose key begins with this; ``"id:"`` for every numeric one.
            glob: A pattern, or several: every record whose key matches one.
            group: Of all these only the records of this group, or these; alone, all of them.
            dry_run: Whether nothing is deleted: the report says what would be.
            progress: Called now and then with the records so far, on another thread; what it raises
                ends it, and nothing is deleted then. ``True`` shows a bar with tqdm.

        Returns:
            A `DeleteReport`.

        Raises:
            stook.InvalidError: Nothing is asked for, or an empty prefix or the default group alone,
                which would be everything (``glob="**"`` is everything), or nothing matches; nothing
                is deleted then.

        Examples:
            >>> import stook
            >>> with stook.Pack("data.stook", "a") as pack:
            ...     pack.update({"a/1.tmp": b"x", "a/2": b"yy", "b/1": b"zzz"})
            ...     pack.delete_many(glob="*.tmp").deleted
            ...     pack.delete_many(["a/2", "c"]).missing
            ...     list(pack)
            1
            ['c']
            ['b/1']
        """
    def from_arrow(
        self,
        stream: SupportsArrow,
        *,
        key: str = "key",
        value: str = "value",
        group: str = "",
        progress: SimpleProgress = None,
    ) -> int:
        """Puts the rows of a table of Arrow as records, all of them or none.

        Args:
            stream: An object with ``__arrow_c_stream__``: of pyarrow, polars, pandas, DuckDB, or a
                scan of a pack.
            key: The column of the keys: bytes, text, or numbers from 0 on, which are ids.
            value: The column of the values: bytes or text.
            group: The group to put records into.
            progress: Called now and then with the records so far, on another thread; what it raises
                before all are written ends it, and nothing is put then. ``True`` shows a bar with
                tqdm.

        All other columns become attributes: numbers, text, bytes, and times, which become
        nanoseconds. A null is an attribute that the record does not have. A batch of the producer
        is in memory at a time.

        Returns:
            How many rows were put.

        Raises:
            TypeError: The object has no stream.
            stook.InvalidError: No such column, one of a type that attributes do not have, a row
                without a key or a value; rows are counted from 0.
            OSError: The producer of the stream reports an error, or the disk fails.

        Examples:
            >>> import pyarrow, stook
            >>> table = pyarrow.table({"name": ["a"], "data": [b"1"], "label": [7]})
            >>> with stook.Pack("data.stook", "a") as pack:
            ...     pack.from_arrow(table, key="name", value="data")
            ...     pack.record("a").attributes
            1
            {'label': 7}
        """
    def batch(self, *, group: str = "") -> Batch:
        """Puts and deletions that count together or not at all, whatever happens.

        Use it in a ``with`` statement: when its body ends all of it is written, after an exception
        nothing. What is put is kept in memory until then.

        Args:
            group: The group to put records into.

        Returns:
            A `Batch` with ``put`` and ``delete``.

        Examples:
            >>> import stook
            >>> pack = stook.Pack("data.stook", "a")
            >>> with pack.batch() as batch:
            ...     batch.put("a", b"1")
            ...     batch.put("b", b"2")
            >>> pack.get_many(["a", "b"])
            [b'1', b'2']
            >>> pack.close()
        """
    def sync(self) -> None:
        """Puts everything that was written so far on the medium."""
    def compact(
        self,
        *,
        keep_seconds: float = 0.0,
        max_dead: Union[float, None] = None,
        extra_bytes: Union[int, None] = None,
        memory: Union[int, None] = None,
        group: Union[str, list[str], None] = None,
        dry_run: bool = False,
        progress: SimpleProgress = None,
    ) -> CompactReport:
        """Rewrites the live records, in the order of their keys, and removes the rest.

        Args:
            keep_seconds: Versions that died less long ago stay readable through ``at``.
            max_dead: Only groups in which at least this share of bytes, 0 to 1, is dead.
            extra_bytes: Room that a step may take on top of what is there; by default half of what
                is free, at most 16 GiB. Segments that need more are left as they are.
            memory: Bytes of memory for records on their way; 256 MiB unless given.
            group: Only this group, or these.
            dry_run: Whether nothing is done: the report says what would be, and how long it takes.
            progress: Called now and then with the bytes written so far, on another thread. It may
                read the pack, not change it. ``True`` shows a bar with tqdm.

        Returns:
            A `CompactReport`.

        Raises:
            OSError: With ``errno.ENOSPC``: a step would need more room than is free. Nothing was
                changed.
        """
