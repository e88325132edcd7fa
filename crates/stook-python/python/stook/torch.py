"""Packs as data sets of PyTorch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Callable, Optional, Union

from torch.utils.data import Dataset

from . import _stook
from ._errors import InvalidError
from ._typing import Key, Kinds


class PackDataset(Dataset):  # type: ignore[misc, type-arg, unused-ignore]
    """A map-style data set over the records of a pack.

    A batch is read as one: ``DataLoader`` hands all indices of a batch to ``__getitems__``, and its
    reads are under way together. It can be given to workers, forked or spawned: each opens the pack
    for itself when it first reads. Which keys there are, and in which order, is settled here, for
    all of them; values are those of the newest state when a worker opens the pack, unless ``at`` or
    ``generation`` says which.

    Args:
        path: The pack.
        keys: The keys, in the order of their indices; all files of the pack in the order of their
            keys if none are given.
        transform: Called with key and value; what it gives is the sample. Without it samples are
            pairs of both.
        kinds: Which records are meant where no keys are given, as for `stook.Pack.scan`. ``"all"``
            takes every key, without a look at the heads of the records.
        options: What `stook.Pack` is opened with: ``map``, ``access``, ``at``, ``generation``.

    Raises:
        stook.InvalidError: Options with which a pack is not only read.

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
        kinds: Kinds = "file",
        **options: Any,
    ) -> None:
        if unknown := sorted(options.keys() - {"map", "access", "at", "generation"}):
            raise InvalidError(f"a data set only reads; it takes map, access, at and generation, not {', '.join(unknown)}")
        self._path = os.path.abspath(_stook.path_argument("path", path))
        self._options = options
        self._transform = transform
        self._pack: Optional[_stook.Pack] = None
        self._process = 0
        self.keys: Sequence[Key] = list(self.pack.keys(kinds=kinds)) if keys is None else keys

    @property
    def pack(self) -> _stook.Pack:
        """The pack, opened in this process."""
        if self._pack is None or self._process != os.getpid():
            self._pack = _stook.Pack(self._path, "r", **self._options)
            self._process = os.getpid()
        return self._pack

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, index: int) -> Any:
        key = self.keys[index]
        return self._sample(key, self.pack[key])

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        keys = [self.keys[index] for index in indices]
        values = self.pack.get_many(keys)
        return [self._sample(key, value) for key, value in zip(keys, values)]

    def _sample(self, key: Key, value: Optional[bytes]) -> Any:
        if value is None:
            raise KeyError(key)
        return (key, value) if self._transform is None else self._transform(key, value)

    def __getstate__(self) -> dict[str, Any]:
        # The other process opens it for itself.
        return {**self.__dict__, "_pack": None, "_process": 0}
