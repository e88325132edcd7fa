"""Types of arguments."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, SupportsIndex, Union

if TYPE_CHECKING:
    from typing_extensions import Buffer

# Numbers of other libraries have an index: numpy's, for one.
Key = Union[str, bytes, int, SupportsIndex]
Attribute = Union[int, str, bytes]
Attributes = Union[Mapping[str, Attribute], Mapping[int, Attribute], Mapping[Union[str, int], Attribute]]
Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
Address = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
Ranges = Iterable["tuple[int, int]"]
OnDifference = Literal["error", "keep", "replace"]
Mode = Literal["r", "r+", "a", "x"]
Access = Literal["auto", "direct", "cached"]
Durability = Union[Literal["sync", "put"], float]
ScanOrder = Literal["disk", "key"]
OnDamage = Literal["raise", "skip"]
Kind = Literal["file", "directory", "symlink", "all"]
Kinds = Union[Kind, Iterable[Kind]]


class Array(Protocol):
    """Arrays have a buffer, but type checkers know that only from Python 3.12 on."""

    def __array__(self, *arguments: Any, **options: Any) -> Any: ...


AnyBuffer = Union["Buffer", Array]
