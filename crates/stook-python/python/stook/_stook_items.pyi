# The types of what packs and archives hand out, and of batches. The documentation is copied from it
# by `scripts/python stubs`.
from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import Literal, TypeVar, Union, final

import pyarrow
from typing_extensions import Self

from ._errors import DamagedError
from ._stook import Pack
from ._typing import AnyBuffer, Attribute, Attributes, Columns, ColumnType, Key, Progress

@final
class Buffer:
    """Bytes that the library holds: read-only, shown to Python through the buffer protocol.

    ``memoryview(buffer)``, ``bytes(buffer)`` and ``numpy.frombuffer(buffer, ...)`` work; none but
    ``bytes`` copies.
    """
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __release_buffer__(self, view: memoryview, /) -> None: ...

@final
class Batch:
    """Puts and deletions that count together or not at all; made by `Pack.batch`.

    ``batch[key] = value`` puts, and ``del batch[key]`` deletes, if there is such a record then.
    """
    def put(self, key: Key, value: AnyBuffer, *, attributes: Union[Attributes, None] = None) -> None:
        """Puts a record when the batch is committed.

        Args:
            key: The key.
            value: The value.
            attributes: Small values that go with it, by name.
        """
    def delete(self, key: Key) -> None:
        """Deletes a record, if there is one, when the batch is committed.

        Args:
            key: The key.
        """
    def commit(self) -> None:
        """Writes all of it. The end of a ``with`` statement does so by itself."""
    def __setitem__(self, key: Key, value: AnyBuffer, /) -> None: ...
    def __delitem__(self, key: Key, /) -> None: ...
    def __len__(self) -> int: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exception: Union[type[BaseException], BaseException, TracebackType, None]) -> None: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *exception: Union[type[BaseException], BaseException, TracebackType, None]) -> None: ...

@final
class Record:
    """A record of a pack. Everything it shows was verified.

    ``memoryview(record)``, ``bytes(record)`` and ``numpy.frombuffer(record, ...)`` give the value;
    none but ``bytes`` copies. Records are equal if keys, values and attributes are, wherever and
    whenever they were put. They can be pickled, by protocol 5 without a copy of the value.

    Records of a scan share memory: one that is kept keeps up to a quarter of a MiB around it.
    """
    @property
    def key(self) -> Union[str, int]:
        """The key: `str` (bytes that are not UTF-8 as surrogate escapes) or `int`."""
    @property
    def value(self) -> memoryview:
        """The value, without a copy."""
    @property
    def kind(self) -> Literal["file", "directory", "symlink", "hard_link"]:
        """``"file"``, ``"directory"``, ``"symlink"``, or ``"hard_link"``, another name of a file.
        What no tree was packed from is a file.
        """
    @property
    def attributes(self) -> dict[Union[str, int], Attribute]:
        """The attributes: a new dict."""
    @property
    def group(self) -> str:
        """The group that it is in; the default group is the empty string."""
    @property
    def sequence(self) -> int:
        """Its sequence number: records that were put later have a higher one."""
    @property
    def time_ns(self) -> int:
        """When it was put, in nanoseconds since 1970."""
    @property
    def segment(self) -> int:
        """The id of the segment that it is in."""
    @property
    def offset(self) -> int:
        """Where in the segment, in bytes."""
    def __len__(self) -> int: ...
    def __bytes__(self) -> bytes: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __release_buffer__(self, view: memoryview, /) -> None: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class View:
    """The records of a pack with keys in a range, of some kinds, as they are when it is asked."""
    @property
    def pack(self) -> Pack:
        """The pack."""
    @property
    def chosen(self) -> str:
        """The arguments that choose records, as text, each after a comma."""
    def keys(self) -> Keys:
        """Goes through the keys."""
    def items(self, progress: Progress = None) -> Items[tuple[Union[str, int], bytes]]:
        """Goes through keys and values."""
    def values(self, progress: Progress = None) -> Items[bytes]:
        """Goes through values."""
    def count(self) -> int:
        """How many there are: from the index, and by heads where it says no kinds."""
    def has(self, key: object) -> bool:
        """Whether a key is among them; what can be no key is not."""
    def has_item(self, key: object, value: object) -> bool:
        """Whether a key is among them that has this value."""

@final
class Keys(Iterator[Union[str, int]]):
    """The keys of a pack or an archive in order, byte strings first, then ids."""
    def __iter__(self) -> Self: ...
    def __next__(self) -> Union[str, int]: ...
    def __aiter__(self) -> AsyncIterator[Union[str, int]]: ...

_Item = TypeVar("_Item", covariant=True)

@final
class Items(Iterator[_Item]):
    """Keys and values of a pack in the order of the keys, or of an archive as they lie in it; or
    values alone.
    """
    def __iter__(self) -> Self: ...
    def __next__(self) -> _Item: ...
    def __aiter__(self) -> AsyncIterator[_Item]: ...

@final
class Follow(Iterator[Record]):
    """Records that are put into a pack from now on, each as a `Record`."""
    def __iter__(self) -> Self: ...
    def __next__(self) -> Record: ...
    def __aiter__(self) -> AsyncIterator[Record]: ...

@final
class Scan(Iterator[Record]):
    """Live records of a pack, one after another, each as a `Record`."""
    def __iter__(self) -> Self: ...
    def __next__(self) -> Record: ...
    def __aiter__(self) -> AsyncIterator[Record]: ...
    def cursor(self) -> str:
        """Where it is: a text with which `Pack.scan(cursor=...)` continues after the last record,
        in another process too, as long as the pack has this generation.
        """
    @property
    def damages(self) -> list[DamagedError]:
        """The damage that was passed over, as exceptions, with ``on_damage="skip"``: while it was
        iterated over, and while tables were read of it.
        """
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...
    def to_table(self) -> pyarrow.Table:
        """All that is scanned as a table of pyarrow, which has to be installed. Others take the scan
        itself: ``polars.DataFrame(scan)``, ``duckdb.sql("from scan")``.

        Columns are ``key``, ``value``, and the attributes that the first records have, unless
        `Pack.scan` was given ``columns``.

        Returns:
            A ``pyarrow.Table``.

        Raises:
            ImportError: There is no pyarrow.
            stook.DamagedError: A record is not what was written.
            stook.InvalidError: A record has what no column is of, or what does not fit into one.
        """
    def _failure(self) -> Union[Exception, None]: ...
    def _set_part(self, known: Union[Columns, None] = None) -> None: ...
    def column_types(self) -> dict[str, ColumnType]:
        """The columns that a table of this scan has: names and types, as ``columns`` of `Pack.scan`
        takes them. The first records are read for it.

        Returns:
            A dict of names and types.
        """

@final
class Stat:
    """What is known of a record, of a directory that has none, or of a member of an archive, without
    reading a value.
    """
    @property
    def key(self) -> Union[str, int]:
        """The key: `str` (bytes that are not UTF-8 as surrogate escapes) or `int`."""
    @property
    def kind(self) -> Literal["file", "directory", "symlink", "hard_link", "other"]:
        """``"file"``, ``"directory"``, ``"symlink"``, or ``"hard_link"``, another name of a file.
        A record that does not say is a file; a pipe or device in an archive is ``"other"``.
        """
    @property
    def size(self) -> Union[int, None]:
        """Bytes of the value; of a hard link those of the file. ``None`` where only reading it
        would show them.
        """
    @property
    def attributes(self) -> dict[Union[str, int], Attribute]:
        """The attributes: a new dict."""
    @property
    def xattrs(self) -> dict[str, Union[bytes, None]]:
        """The extended attributes, access control lists among them: values by name. ``None`` is what
        could not be packed.
        """
    @property
    def group(self) -> Union[str, None]:
        """The group that it is in; ``None`` for a directory without a record of its own, and for
        members of archives.
        """
    @property
    def time_ns(self) -> Union[int, None]:
        """When it was put, in nanoseconds since 1970; ``None`` for a directory without a record of its
        own, and for members of archives.
        """

@final
class Ordinals:
    """The records of a selection of a pack, numbered from 0: what `Pack.ordinals` makes.

    It has no keys: about three bytes per record. It is of one state of the pack, in which the
    numbers are always the same. It can be pickled; processes that are forked share it.
    """
    def __len__(self) -> int: ...
    @property
    def memory_bytes(self) -> int:
        """Bytes of memory that it takes."""
    @property
    def damages(self) -> list[DamagedError]:
        """Records that are left out because whether they count is not known, as exceptions."""

@final
class Split:
    """A part of a pack: every record is in exactly one of the parts that `Pack.splits` gives.

    It can be pickled, and its text (`str(split)`) given to another process; `Split(text)` reads it.
    """
    def __new__(cls, text: str) -> Self: ...
    @property
    def bytes(self) -> int:
        """Bytes of segments in it, dead records included."""
    def __hash__(self) -> int: ...
