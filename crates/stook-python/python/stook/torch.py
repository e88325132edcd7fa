"""Packs as data sets of PyTorch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Callable, Optional, Union

from torch.utils.data import Dataset

from . import _stook
from ._errors import InvalidError
from ._options import check_names
from ._typing import Key, Kinds, PackReadOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack


class PackDataset(Dataset):  # type: ignore[misc, type-arg, unused-ignore]
    """A map-style data set over the records of a pack.

    A batch is read as one: ``DataLoader`` hands all indices of a batch to ``__getitems__``, and its
    reads are under way together. It can be given to workers, forked or spawned: each opens the pack
    for itself when it first reads.

    Without ``keys`` samples are numbered in the order in which they are on the medium, and no key
    is in memory: about three bytes per sample. All workers read the generation that was published
    last when this was made; if it is gone when a worker opens it, because the pack was compacted,
    that is an error.

    Args:
        path: The pack.
        keys: The keys, in the order of their indices; values are those of the newest state when a
            worker opens the pack, unless ``at`` or ``generation`` says which.
        transform: Called with key and value; what it gives is the sample. Without it samples are
            pairs of both.
        prefix: Where no keys are given, only those that begin with this.
        group: Where no keys are given, only this group, or these.
        split: Where no keys are given, only this part of the pack; see `stook.Pack.splits`.
        kinds: Which records are meant where no keys are given, as for `stook.Pack.scan`. ``"all"``
            takes every record, without a look at their heads.
        options: What `stook.Pack` is opened with: ``map``, ``access``, ``at``, ``generation``.

    Raises:
        TypeError: Options with which a pack is not only read, or that there are not.
        stook.InvalidError: Keys and a selection.

    Examples:
        >>> import stook, stook.torch
        >>> with stook.Pack("images.stook", "a") as pack:
        ...     pack.update({f"{number}.raw": bytes([number]) * 4 for number in range(8)})
        >>> dataset = stook.torch.PackDataset("images.stook", transform=lambda key, value: len(value))
        >>> len(dataset), dataset[3]
        (8, 4)
    """

    def __init__(
        self,
        path: Union[str, os.PathLike[str]],
        keys: Optional[Sequence[Key]] = None,
        transform: Optional[Callable[[Key, bytes], Any]] = None,
        *,
        prefix: Optional[Key] = None,
        group: Union[str, list[str], None] = None,
        split: Optional[_stook.Split] = None,
        kinds: Kinds = "file",
        **options: Unpack[PackReadOptions],
    ) -> None:
        known, what = PackReadOptions.__annotations__.keys(), "a data set only reads; it takes map, access, at and generation"
        check_names(options, known, what)
        self._path = os.path.abspath(_stook.path_argument("path", path))
        self._options = options
        self._transform = transform
        self._pack: Optional[_stook.Pack] = None
        self._process = 0
        self.keys = keys
        self._ordinals: Optional[_stook.Ordinals] = None
        if keys is None:
            if options.get("generation") is None:
                # Workers open what is listed here.
                self._options = {**options, "generation": self.pack.info().generation}
                self._pack = _stook.Pack(self._path, "r", **self._options)
            self._ordinals = self.pack.ordinals(prefix=prefix, group=group, split=split, kinds=kinds)
        elif (prefix, group, split, kinds) != (None, None, None, "file"):
            raise InvalidError("prefix, group, split and kinds choose keys: they go with none that are given")

    @property
    def pack(self) -> _stook.Pack:
        """The pack, opened in this process."""
        if self._pack is None or self._process != os.getpid():
            self._pack = _stook.Pack(self._path, "r", **self._options)
            self._process = os.getpid()
        return self._pack

    def __len__(self) -> int:
        return len(self._ordinals) if self.keys is None else len(self.keys)  # type: ignore[arg-type]

    def __getitem__(self, index: int) -> Any:
        if self.keys is not None:
            key = self.keys[index]
            return self._sample(key, self.pack[key])
        record = self.pack.at(index, self._ordinals)
        return self._sample(record.key, bytes(record))

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        if self.keys is not None:
            keys = [self.keys[index] for index in indices]
            return [self._sample(key, value) for key, value in zip(keys, self.pack.get_many(keys))]
        records = self.pack.get_many_at(indices, self._ordinals)
        return [self._sample(record.key, bytes(record)) for record in records]

    def _sample(self, key: Key, value: Optional[bytes]) -> Any:
        if value is None:
            raise KeyError(key)
        return (key, value) if self._transform is None else self._transform(key, value)

    def __getstate__(self) -> dict[str, Any]:
        # The other process opens it for itself.
        return {**self.__dict__, "_pack": None, "_process": 0}
