# The types of what packs have as mappings: a part of those of `Pack`. The documentation is copied
# from it by `scripts/python stubs`.
from collections.abc import AsyncIterator, Iterable, Mapping, MutableMapping
from typing import Any, ClassVar, TypeVar, Union, overload

from typing_extensions import Self

from ._stook_items import Keys
from ._typing import AnyBuffer, Key, Kinds, Progress, SimpleProgress
from ._views import ItemsView, KeysView, ValuesView

_Default = TypeVar("_Default")
_Records = Union[
    Mapping[str, AnyBuffer],
    Mapping[bytes, AnyBuffer],
    Mapping[int, AnyBuffer],
    Mapping[Union[str, int], AnyBuffer],
    Iterable[tuple[Key, AnyBuffer]],
]

def as_key(object: Any, /) -> Any:
    """A key as packs give it back, and any other object as it is: what sets of keys are made of."""

class _PackMapping(MutableMapping[Union[str, int], bytes]):
    def __getitem__(self, key: Key, /) -> bytes: ...
    def __setitem__(self, key: Key, value: AnyBuffer, /) -> None: ...
    def __delitem__(self, key: Key, /) -> None: ...
    def __contains__(self, key: object, /) -> bool: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Keys: ...
    def __aiter__(self) -> AsyncIterator[Union[str, int]]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    __hash__: ClassVar[None]  # type: ignore[assignment]
    __reversed__: ClassVar[None]
    def __ior__(self, records: _Records, /) -> Self: ...
    @overload
    def get(self, key: Key) -> Union[bytes, None]:
        """Gets a value.

        Args:
            key: The key.
            default: What is given when there is no such record.

        Returns:
            The value, verified.

        Raises:
            stook.DamagedError: The record is not what was written.

        Examples:
            >>> import stook
            >>> pack = stook.Pack("data.stook", "a")
            >>> pack["a"] = b"1"
            >>> pack.get("a"), pack.get("b"), pack.get("b", b"")
            (b'1', None, b'')
            >>> pack.close()
        """
    @overload
    def get(self, key: Key, default: _Default) -> Union[bytes, _Default]: ...
    def keys(
        self,
        *,
        prefix: Union[str, bytes, None] = None,
        start: Union[Key, None] = None,
        end: Union[Key, None] = None,
        kinds: Kinds = "all",
    ) -> KeysView:
        """The keys, in order: byte strings first, then ids.

        A view, as that of a dict: it shows what the pack has when it is asked, has a length, and is
        a set for ``in``, ``&``, ``|``, ``-``, ``^`` and comparisons. Of keys that the pack has
        no more than a batch is in memory, but for those that a set operation gives.

        Args:
            prefix: Only keys that begin with this.
            start: Only keys from this one on.
            end: Only keys before this one.
            kinds: Only keys of records of these kinds, as for `scan`. ``"all"`` takes the index
                alone, others read the heads of records.

        Returns:
            A `KeysView`.

        Examples:
            >>> import stook
            >>> with stook.Pack("data.stook", "a") as pack:
            ...     pack.update({"a/1": b"x", "a/2": b"yy", "b/1": b"zzz"})
            ...     len(pack.keys(prefix="a/")), pack.keys() & {"a/2", "c"}
            (2, {'a/2'})
        """
    def items(
        self,
        *,
        prefix: Union[str, bytes, None] = None,
        start: Union[Key, None] = None,
        end: Union[Key, None] = None,
        kinds: Kinds = "file",
        progress: Progress = None,
    ) -> ItemsView:
        """Keys and values in the order of the keys: a view, as `keys` gives one.

        Args:
            prefix: Only keys that begin with this.
            start: Only keys from this one on.
            end: Only keys before this one.
            kinds: Only records of these kinds, as for `scan`: files.
            progress: As for `scan`, in each iteration.

        Returns:
            An `ItemsView`, which gives pairs.
        """
    def values(
        self,
        *,
        prefix: Union[str, bytes, None] = None,
        start: Union[Key, None] = None,
        end: Union[Key, None] = None,
        kinds: Kinds = "file",
        progress: Progress = None,
    ) -> ValuesView:
        """Values in the order of the keys: a view, as that of a dict.

        Args:
            prefix: Only those of keys that begin with this.
            start: Only those of keys from this one on.
            end: Only those of keys before this one.
            kinds: Only those of records of these kinds, as for `scan`: files.
            progress: As for `scan`, in each iteration.

        Returns:
            A `ValuesView`.
        """
    @overload
    def pop(self, key: Key) -> bytes:
        """Deletes a record and gives its value.

        Args:
            key: The key.
            default: What is returned if there is none; without it that is a ``KeyError``.

        Returns:
            The value that it had.
        """
    @overload
    def pop(self, key: Key, default: _Default) -> Union[bytes, _Default]: ...
    def popitem(self) -> tuple[Union[str, int], bytes]:
        """Deletes the first record in the order of the keys, and gives it.

        What was written before is synced first: of many records, `items` gives and `delete_many`
        deletes them far faster.

        Returns:
            Its key and its value.

        Raises:
            KeyError: There is none.
            stook.DamagedError: It is not what was written, and stays; or damage of the pack hides
                which is the first.
        """
    def setdefault(self, key: Key, default: Union[AnyBuffer, None] = None, *, group: str = "") -> bytes:
        """Gets a value, and puts it first if there is none. No other thread comes in between.

        Args:
            key: The key.
            default: The value that is put. Without it there has to be one: it is a ``TypeError``
                otherwise, as a pack has no ``None``.
            group: The group to put it into.

        Returns:
            The value that the key has.

        Examples:
            >>> import stook
            >>> with stook.Pack("data.stook", "a") as pack:
            ...     pack.setdefault("a", b"1"), pack.setdefault("a", b"2")
            (b'1', b'1')
        """
    def clear(self, *, progress: Progress = None) -> None:
        """Deletes every record, all of them or none: one commit, whatever happens. The keys of all are
        in memory meanwhile. `compact` gives the room back.

        Args:
            progress: Called now and then with the records so far and all there are, on another
                thread; what it raises ends it, and nothing is deleted then. ``True`` shows a bar.

        Raises:
            stook.DamagedError: Damage hides records, which would come back with what is missing;
                nothing is deleted.
        """
    def update(  # type: ignore[override]
        self,
        records: Union[_Records, None] = None,
        *,
        group: str = "",
        progress: SimpleProgress = None,
        **named: AnyBuffer,
    ) -> None:
        """Puts many records.

        Args:
            records: A mapping, or pairs of keys and values.
            group: The group to put them into.
            progress: Called now and then with the records so far; what it raises ends it. ``True``
                shows a bar with tqdm.
            named: Records by name, as ``dict.update`` takes them, with keys other than the names of
                these arguments.
        """
