"""Types of arguments."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Callable, Literal, Protocol, SupportsIndex, TypedDict, Union

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ._stook import DiskCache, SparseStore

# Numbers of other libraries have an index: numpy's, for one.
Key = Union[str, bytes, int, SupportsIndex]
Attribute = Union[int, str, bytes]
# Also integers of other libraries, which come back as `int`.
_Given = Union[Attribute, SupportsIndex]
# Keys are names, or numbers; a union of mappings has no type for a dict of texts and numbers.
Attributes = Mapping[Any, _Given]
# Attributes with the value, or the values, that they have to have; keys as those of attributes.
Conditions = Mapping[Any, Union[Attribute, Collection[Attribute]]]
ColumnType = Literal["binary", "string", "uint64", "int64", "uint32", "timestamp"]
Columns = Union[str, Iterable[str], Mapping[str, Union[ColumnType, None]]]
Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
Address = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
Ranges = Iterable["tuple[int, int]"]
OnDifference = Literal["error", "keep", "replace"]
Mode = Literal["r", "r+", "a", "x"]
Access = Literal["auto", "direct", "cached"]
Durability = Union[Literal["sync", "put"], float]
ScanOrder = Literal["disk", "key"]
OnDamage = Literal["raise", "skip"]
OnError = Literal["raise", "skip"]
CopyDurability = Literal["batch", "file", "none"]
HashName = Literal["xxh3", "xxh128", "xxh64", "blake3", "sha256", "sha1", "md5", "c4"]
MhlHashName = Literal["c4", "md5", "sha1", "xxh128", "xxh3", "xxh64"]
Overwrite = Literal["never", "older", "different", "always"]
Workload = Literal["read", "write", "rw", "randread", "randwrite", "randrw"]
StudyName = Literal["many-small-files", "ssd-profile", "bulk-copy", "solid-reads", "sparse-file"]
Kind = Literal["file", "directory", "symlink", "all"]
Kinds = Union[Kind, Iterable[Kind]]
# Called with how much is done, and with how much there is or a second measure.
Progress = Union[Callable[[int, int], object], bool, None]
# Called with how much is done.
SimpleProgress = Union[Callable[[int], object], bool, None]
# Called with seconds.
TimeProgress = Union[Callable[[float], object], bool, None]


class SparseFileOptions(TypedDict, total=False):
    """Options of :class:`stook.SparseFile`, which documents them; ``None`` is the default."""

    cache: Union[Path, DiskCache, None]
    memory_bytes: Union[int, None]
    store: Union[SparseStore, None]
    store_name: Union[str, None]
    max_gap: Union[int, None]
    allowance: Union[int, None]
    max_window: Union[int, None]
    requests: Union[int, None]
    max_request_bytes: Union[int, None]
    tries: Union[int, None]
    deadline: Union[float, None]
    stall: Union[float, None]
    whole_file: Union[bool, None]
    settings: Union[dict[str, str], None]
    headers: Union[dict[str, str], None]


class PackReadOptions(TypedDict, total=False):
    """Options of :class:`stook.Pack`, which documents them, where it is only read."""

    map: bool
    access: Access
    at: Union[datetime, str, float, int, None]
    generation: Union[int, None]


class PackTableOptions(PackReadOptions, total=False):
    """Options of :class:`stook.Pack`, where it is only read, and of :meth:`stook.Pack.scan`, which
    documents them: which columns a table has, of which records.
    """

    columns: Union[Columns, None]
    prefix: Union[str, bytes, None]
    group: Union[str, list[str], None]
    kinds: Kinds
    where: Union[Conditions, None]
    on_damage: OnDamage


class FileSystemOptions(TypedDict, total=False):
    """Options that every file system of ``fsspec`` takes."""

    asynchronous: bool
    batch_size: Union[int, None]
    listings_expiry_time: Union[float, None]
    loop: Any
    max_paths: Union[int, None]
    skip_instance_cache: bool
    use_listings_cache: bool


class PackFileSystemOptions(FileSystemOptions, total=False):
    """The same, and those of :class:`stook.Pack` that say how a pack is read."""

    map: bool
    access: Access
    at: Union[datetime, str, float, int, None]


class CacheFileSystemOptions(FileSystemOptions, total=False):
    """The same, and what ``fsspec`` gives as the file where protocols are chained."""

    fo: Union[str, None]


class Array(Protocol):
    """Arrays have a buffer, but type checkers know that only from Python 3.12 on."""

    def __array__(self, *arguments: Any, **options: Any) -> Any: ...


class SupportsRead(Protocol):
    """What is open to be read in binary mode."""

    def read(self, size: int, /) -> Buffer: ...


class SupportsArrow(Protocol):
    """What can be read as a stream of Arrow."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


AnyBuffer = Union["Buffer", Array]
