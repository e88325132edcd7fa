"""What ``Pack.keys``, ``items`` and ``values`` give: views, as those of a dict.

Nothing that the pack has is listed into memory, but what the result of a set operation is.
"""

from __future__ import annotations

import collections.abc
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Union, cast

from ._progress import check
from ._stook import View, as_key

if TYPE_CHECKING:
    from ._stook import Items, Keys, Pack
    from ._typing import Progress

_T = TypeVar("_T")
_Element = TypeVar("_Element", covariant=True)
_Item = tuple[Union[str, int], bytes]


def _in_sets(element: Any) -> Any:
    """An element that a set can have, in place of one that is none of ours and that none can."""
    try:
        hash(element)
    except TypeError:
        return object()
    return element


class _Shown:
    """What all views have."""

    _view: View

    def __len__(self) -> int:
        return self._view.count()

    def __repr__(self) -> str:
        return f"<stook.{type(self).__name__} of {self._view.pack!r}{self._view.chosen}>"

    @property
    def pack(self) -> Pack:
        """The pack that is shown."""
        return self._view.pack


class _Elements(Generic[_Element]):
    """The operations of sets. What they are given may have keys in any form; they give them as the
    pack does.
    """

    def __iter__(self) -> Iterator[_Element]:
        raise NotImplementedError

    def __contains__(self, element: object) -> bool:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def _as_ours(self, element: Any) -> Any:
        """An element in the form in which this gives it; anything else as it is."""
        raise NotImplementedError

    def _each(self, other: Iterable[Any]) -> Iterator[Any]:
        return iter(other) if isinstance(other, type(self)) else map(self._as_ours, other)

    def _among(self, other: Iterable[Any]) -> collections.abc.Set[Any]:
        """Something to look elements up in; another view is asked for each, and not listed."""
        if isinstance(other, type(self)):
            return cast("collections.abc.Set[Any]", other)
        return set(map(_in_sets, self._each(other)))

    def __and__(self, other: Iterable[Any]) -> set[_Element]:
        if not isinstance(other, collections.abc.Iterable):
            return NotImplemented
        return {one for one in self._each(other) if one in self}

    def __rand__(self, other: Iterable[_T]) -> set[_T]:
        return cast("set[_T]", self.__and__(other))

    def __or__(self, other: Iterable[_T]) -> set[Union[_Element, _T]]:
        if not isinstance(other, collections.abc.Iterable):
            return NotImplemented
        return {*self, *self._each(other)}

    def __ror__(self, other: Iterable[_T]) -> set[Union[_Element, _T]]:
        return self.__or__(other)

    def __sub__(self, other: Iterable[Any]) -> set[_Element]:
        if not isinstance(other, collections.abc.Iterable):
            return NotImplemented
        others = self._among(other)
        return {one for one in self if one not in others}

    def __rsub__(self, other: Iterable[_T]) -> set[_T]:
        if not isinstance(other, collections.abc.Iterable):
            return NotImplemented
        return {one for one in self._each(other) if one not in self}

    def __xor__(self, other: Iterable[_T]) -> set[Union[_Element, _T]]:
        if not isinstance(other, collections.abc.Iterable):
            return NotImplemented
        if isinstance(other, type(self)):
            return (self - other) | (other - self)
        others = set(self._each(other))
        return {one for one in self if one not in others} | {one for one in others if one not in self}

    def __rxor__(self, other: Iterable[_T]) -> set[Union[_Element, _T]]:
        return self.__xor__(other)

    def isdisjoint(self, other: Iterable[Any]) -> bool:
        """Whether they have nothing in common."""
        return not any(one in self for one in self._each(other))

    def _is_part_of(self, other: object, also_equal: bool) -> Any:
        if not isinstance(other, collections.abc.Set):
            return NotImplemented
        others = self._among(other)
        ours, theirs = len(self), len(others)
        is_short = ours <= theirs if also_equal else ours < theirs
        return is_short and all(one in others for one in self)

    def _has_part(self, other: object, also_equal: bool) -> Any:
        if not isinstance(other, collections.abc.Set):
            return NotImplemented
        others = self._among(other)
        ours, theirs = len(self), len(others)
        is_long = ours >= theirs if also_equal else ours > theirs
        return is_long and all(one in self for one in others)

    def __le__(self, other: collections.abc.Set[Any]) -> bool:
        return cast(bool, self._is_part_of(other, also_equal=True))

    def __lt__(self, other: collections.abc.Set[Any]) -> bool:
        return cast(bool, self._is_part_of(other, also_equal=False))

    def __ge__(self, other: collections.abc.Set[Any]) -> bool:
        return cast(bool, self._has_part(other, also_equal=True))

    def __gt__(self, other: collections.abc.Set[Any]) -> bool:
        return cast(bool, self._has_part(other, also_equal=False))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, collections.abc.Set):
            return NotImplemented
        others = self._among(other)
        return len(self) == len(others) and all(one in others for one in self)

    __hash__ = None  # type: ignore[assignment]


class KeysView(_Shown, _Elements[Union[str, int]], collections.abc.KeysView[Union[str, int]]):
    """The keys of a pack, in order: what `Pack.keys` gives.

    It shows what the pack has when it is asked. Its length comes from the index; ``in``, ``&``,
    ``|``, ``-``, ``^`` and comparisons are those of sets, with other views, too. What can be no key
    is not in it. ``async for`` goes through it as ``for`` does.
    """

    def __init__(self, view: View, progress: None = None) -> None:
        """A view of what the native half selects."""
        self._view = view

    def __iter__(self) -> Keys:
        return self._view.keys()

    def __aiter__(self) -> AsyncIterator[Union[str, int]]:
        return self._view.keys().__aiter__()

    def __contains__(self, key: object) -> bool:
        return self._view.has(key)

    def _as_ours(self, element: Any) -> Any:
        return as_key(element)


class ItemsView(_Shown, _Elements[_Item], collections.abc.ItemsView[Union[str, int], bytes]):
    """Keys and values of a pack, as pairs in the order of the keys: what `Pack.items` gives.

    It is a set, as `KeysView` is. Values are compared by their bytes, whatever has them.
    """

    def __init__(self, view: View, progress: Progress = None) -> None:
        """A view of what the native half selects."""
        check(progress)
        self._view, self._progress = view, progress

    def __iter__(self) -> Items[_Item]:
        return self._view.items(self._progress)

    def __aiter__(self) -> AsyncIterator[_Item]:
        return self._view.items(self._progress).__aiter__()

    def __contains__(self, item: object) -> bool:
        return isinstance(item, tuple) and len(item) == 2 and self._view.has_item(*item)

    def _as_ours(self, element: Any) -> Any:
        if not (isinstance(element, tuple) and len(element) == 2):
            return element
        key, value = element
        try:
            return as_key(key), bytes(memoryview(value))
        except TypeError:
            # It has no bytes, and so is no value of a pack.
            return element


class ValuesView(_Shown, collections.abc.ValuesView[bytes]):
    """Values of a pack in the order of their keys: what `Pack.values` gives."""

    def __init__(self, view: View, progress: Progress = None) -> None:
        """A view of what the native half selects."""
        check(progress)
        self._view, self._progress = view, progress

    def __iter__(self) -> Items[bytes]:
        return self._view.values(self._progress)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._view.values(self._progress).__aiter__()

    def __contains__(self, value: object) -> bool:
        try:
            wanted = bytes(memoryview(value))  # type: ignore[arg-type]
        except TypeError:
            return False
        return any(value == wanted for value in self)
