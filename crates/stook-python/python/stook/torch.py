"""Packs as data sets of PyTorch."""

from __future__ import annotations

import array
import inspect
import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Callable, Optional, Union, overload

import torch
import torch.distributed
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from . import _stook
from ._errors import DamagedError, DamageWarning, DecodeError, InvalidError
from ._loader import STATE, Undecoded, check_called, error_of, merged, refuse_empty, skips_errors
from ._options import check_names
from ._paths import is_path
from ._typing import Conditions, Key, Kinds, OnDamage, OnError, PackReadOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: Endings of pictures that torchvision's loader takes.
IMAGE_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


class PackDataset(Dataset):  # type: ignore[misc, type-arg, unused-ignore]
    """A map-style data set over the records of a pack.

    A batch is read as one: ``DataLoader`` hands all indices of a batch to ``__getitems__``, and its
    reads are under way together. It can be given to workers, forked or spawned: each opens the pack
    for itself when it first reads.

    Without ``keys`` samples are numbered in the order in which they are on the medium, and no key
    is in memory: about three bytes per sample. All workers read the generation that was published
    last when this was made; if it is gone when a worker opens it, because the pack was published
    twice since and nobody has it open, that is an error.

    An index has a sample: where ``transform`` raises, that is a `stook.DecodeError` which names the
    record, and there is no ``on_error``. Have it give ``None``, which ``collate_fn`` of the
    ``DataLoader`` leaves out, or take `PackStream` or `stook.loader`.

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
        records: Whether ``transform`` is called with the `stook.Record`, which has attributes,
            group and times, too. Without ``transform`` samples are records, which no worker can
            send.
        where: Where no keys are given, only records with these attributes, as for
            `stook.Pack.scan`.
        options: What `stook.Pack` is opened with: ``map``, ``access``, ``at``, ``generation``.

    Raises:
        TypeError: Options with which a pack is not only read, or that there are not.
        stook.InvalidError: Keys and a selection, or nothing is selected.
        stook.DecodeError: ``transform`` raised; where the sample is taken.

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
        transform: Optional[Callable[..., Any]] = None,
        *,
        prefix: Optional[Key] = None,
        group: Union[str, list[str], None] = None,
        split: Optional[_stook.Split] = None,
        kinds: Kinds = "file",
        records: bool = False,
        where: Optional[Conditions] = None,
        **options: Unpack[PackReadOptions],
    ) -> None:
        _check_options(options, PackDataset, "a data set")
        check_called("transform", transform)
        self._path = os.path.abspath(_stook.path_argument("path", path))
        self._options = options
        self._transform = transform
        self._as_records = records
        self._pack: Optional[_stook.Pack] = None
        self._process = 0
        if isinstance(keys, (str, bytes)):
            raise TypeError(f"argument 'keys': several keys are wanted, in a list, not one {type(keys).__name__}")
        self.keys = keys
        self._ordinals: Optional[_stook.Ordinals] = None
        if keys is None:
            if options.get("generation") is None:
                # Workers open what is listed here.
                self._options = {**options, "generation": self.pack.info().generation}
                self._pack = _stook.Pack(self._path, "r", **self._options)
            self._ordinals = self.pack.ordinals(prefix=prefix, group=group, split=split, kinds=kinds, where=where)
            refuse_empty(len(self._ordinals), (), path, prefix=prefix, group=group, split=split, kinds=kinds, where=where)
        elif (prefix, group, split, kinds, where) != (None, None, None, "file", None):
            raise InvalidError("prefix, group, split, kinds and where choose keys: they go with none that are given")

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
        if self.keys is None:
            return sample_of(self.pack.at(index, self._ordinals), self._transform, self._as_records)
        key = self.keys[index]
        if self._as_records:
            return self._sample(key, self.pack.record(key))
        return self._sample(key, self.pack[key])

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        if self.keys is None:
            records = self.pack.get_many_at(indices, self._ordinals)
            return [sample_of(record, self._transform, self._as_records) for record in records]
        keys = [self.keys[index] for index in indices]
        values: Sequence[Any] = self.pack.records(keys) if self._as_records else self.pack.get_many(keys)
        return [self._sample(key, value) for key, value in zip(keys, values)]

    def _sample(self, key: Key, value: Any) -> Any:
        """A sample of a key that was given, and its value or record."""
        if value is None:
            raise KeyError(key)
        if self._as_records:
            return sample_of(value, self._transform, True)
        return transformed(key, self._transform, key, value, hint=_CALLED)

    def __getstate__(self) -> dict[str, Any]:
        # The other process opens it for itself.
        return {**self.__dict__, "_pack": None, "_process": 0}


def sample_of(record: _stook.Record, transform: Optional[Callable[..., Any]], as_record: bool) -> Any:
    """The sample of a record."""
    if as_record:
        return transformed(record.key, transform, record, hint=_CALLED)
    return transformed(record.key, transform, record.key, bytes(record), hint=_CALLED)


#: How transforms are called.
_CALLED = " (it is called with key and value, or with the record where records=True)"


def transformed(key: Key, transform: Optional[Callable[..., Any]], *arguments: Any, hint: str = "") -> Any:
    """What a function gives for a record with this key.

    Raises:
        stook.DecodeError: It raised.
    """
    if transform is None:
        return arguments if len(arguments) > 1 else arguments[0]
    try:
        return transform(*arguments)
    except Exception as error:
        # Raised by the call itself, not in what was called.
        is_call = isinstance(error, TypeError) and getattr(error.__traceback__, "tb_next", None) is None
        raise error_of(key, error, hint if is_call else "") from error


def _check_options(options: Iterable[str], of: type, what: str) -> None:
    """Refuses what is neither an option with which a pack is read, nor an argument."""
    own = inspect.signature(of.__init__).parameters.keys() - {"self", "options"}  # type: ignore[misc]
    known = {*PackReadOptions.__annotations__, *own}
    check_names(options, known, f"{what} only reads; it takes its own arguments, and map, access, at and generation")


class PackStream(IterableDataset):  # type: ignore[misc, type-arg, unused-ignore]
    """An iterable data set over the records of a pack, in an order that is shuffled anew in each
    epoch: it is read by few long reads, ahead of the reader.

    Workers of all ranks together have every record once. The state of all of them in the middle of
    an epoch is continued exactly, by any other number of them. Workers may be forked or spawned;
    all read the generation that was published last when this was made.

    ``torchdata``'s ``StatefulDataLoader`` collects the states of its workers; `load_state_dict`
    takes what it gives, also of several ranks, in a list. A plain ``DataLoader`` with workers has
    no way to ask them: `state_dict` refuses there.

    Args:
        path: The pack.
        transform: Called with key and value; what it gives is the sample. Without it samples are
            pairs of both.
        seed: What the order depends on, with the epoch. All ranks must have the same.
        shuffle: ``False`` leaves lanes in the order of the medium.
        rank: Which of several ranks this is; that of ``torch.distributed``, if it was initialised
            before this is made.
        world: How many ranks there are.
        prefix: Only keys that begin with this.
        keys: Only these keys, each once.
        group: Only this group, or these.
        split: Only this part of the pack; see `stook.Pack.splits`.
        kinds: Only records of these kinds, as for `stook.Pack.scan`.
        records: Whether ``transform`` is called with the `stook.Record`, as for `PackDataset`.
        on_damage: ``"raise"``, or ``"skip"``: damaged records are passed over, counted in
            ``skipped`` and in states, and warned of (`stook.DamageWarning`) at the end of an epoch.
        on_error: ``"raise"``, or ``"skip"``: records for which ``transform`` raises an `Exception`
            are passed over, counted in ``failed`` and in states, with the first errors in
            ``errors``, and warned of (`stook.DecodeWarning`) at the end of an epoch. They count as
            handed out.
        lanes: How many workers of all ranks there can be at most. Ranks have the same number of
            records, give or take a few, where it is a multiple of theirs.
        window_bytes: How much is read and mixed at once; a worker holds twice as much.
        even: Whether lanes have the same number of records, to the last, so that ranks have, too:
            fewer records than there are lanes are left out, other ones in each epoch.
        where: Only records with these attributes, as for `stook.Pack.scan`.
        options: What `stook.Pack` is opened with: ``map``, ``access``, ``at``, ``generation``.

    Raises:
        stook.InvalidError: Arguments that make no sense, or nothing is selected.
        stook.DecodeError: ``transform`` raised; from the iterator, with the key.

    Examples:
        >>> import stook, stook.torch
        >>> with stook.Pack("images.stook", "a") as pack:
        ...     pack.update({f"{number}.raw": bytes([number]) * 4 for number in range(8)})
        >>> stream = stook.torch.PackStream("images.stook", transform=lambda key, value: value[0])
        >>> sorted(stream)
        [0, 1, 2, 3, 4, 5, 6, 7]
    """

    def __init__(
        self,
        path: Union[str, os.PathLike[str]],
        transform: Optional[Callable[..., Any]] = None,
        *,
        seed: int = 0,
        shuffle: bool = True,
        rank: Optional[int] = None,
        world: Optional[int] = None,
        prefix: Optional[Key] = None,
        keys: Optional[Iterable[Key]] = None,
        group: Union[str, list[str], None] = None,
        split: Optional[_stook.Split] = None,
        kinds: Kinds = "file",
        records: bool = False,
        on_damage: OnDamage = "raise",
        on_error: OnError = "raise",
        lanes: int = 64,
        window_bytes: int = 32 << 20,
        even: bool = False,
        where: Optional[Conditions] = None,
        **options: Unpack[PackReadOptions],
    ) -> None:
        _check_options(options, PackStream, "a stream")
        check_called("transform", transform)
        self._skips_errors = skips_errors(on_error)
        if (rank is None) != (world is None):
            raise InvalidError("rank and world go together: give both or none")
        self._stream = _stook.Stream(
            path, seed=seed, shuffle=shuffle, prefix=prefix, keys=keys, group=group, split=split, kinds=kinds,
            on_damage=on_damage, lanes=lanes, window_bytes=window_bytes, even=even, where=where, **options,
        )
        if rank is None or world is None:
            is_distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
            rank = torch.distributed.get_rank() if is_distributed else 0
            world = torch.distributed.get_world_size() if is_distributed else 1
        refuse_empty(
            len(self._stream), self._stream.damages, path, prefix=prefix, keys=keys, group=group, split=split,
            kinds=kinds, even=even, where=where,
        )
        # Whether there is such a rank.
        self._stream.count(rank=rank, world=world)
        self._rank, self._world = rank, world
        self._transform = transform
        self._as_records = records
        #: In memory that workers share: workers that stay get it, too.
        self._epoch = torch.zeros(1, dtype=torch.int64).share_memory_()
        #: What the next iteration continues, and which workers have begun to; last whether any has,
        #: and the seed that is that of all workers of an iteration.
        self._resumed: Optional[str] = None
        self._begun = torch.zeros(lanes + 2, dtype=torch.int64).share_memory_()
        #: Whether workers read, whose states are not known here.
        self._has_workers = torch.zeros(1, dtype=torch.uint8).share_memory_()
        #: The number of the state that was loaded last in the process that has the workers, until
        #: another epoch is set; and of the one that is here.
        self._loaded = torch.zeros(1, dtype=torch.int64).share_memory_()
        self._load = 0
        self._running: Optional[_StreamSamples] = None

    @property
    def stream(self) -> _stook.Stream:
        """The records in their order."""
        return self._stream

    @property
    def epoch(self) -> int:
        """The epoch that the next iteration is of."""
        return int(self._epoch[0])

    def set_epoch(self, epoch: int) -> None:
        """Has the next iteration be of this epoch, in all workers, those that stay as well. Without
        it each has the same order.

        Args:
            epoch: Which.
        """
        self._stream.state(epoch)
        if self._resumed is not None and _stook.Stream.describe(self._resumed)["epoch"] != epoch:
            self._resumed = None
            if get_worker_info() is None:
                self._loaded[0] = 0
        self._epoch[0] = epoch
        self._has_workers[0] = 0
        if get_worker_info() is None:
            self._running = None

    def __len__(self) -> int:
        """How many samples this rank has in an epoch, damaged ones that are skipped included."""
        return self._stream.count(rank=self._rank, world=self._world)

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        worker, workers = (0, 1) if info is None else (info.id, info.num_workers)
        if info is not None:
            self._has_workers[0] = 1
            if int(self._loaded[0]) not in (0, self._load):
                return _Refused(
                    "a state was loaded into this stream after its workers were started, which stay and have "
                    "none of it: make a new DataLoader (persistent_workers=True), or set another epoch"
                )
        epoch = self.epoch
        state = self._stream.state(epoch)
        if self._resumed is not None and self._continues(worker, -1 if info is None else info.seed - info.id):
            if _stook.Stream.describe(self._resumed)["epoch"] == epoch:
                state = self._resumed
        records = self._stream.begin(state=state, rank=self._rank, world=self._world, worker=worker, workers=workers)
        self._running = _StreamSamples(self, records, self._stream.damages)
        return self._running

    def _continues(self, worker: int, seed: int) -> bool:
        """Whether a worker is the first of its number to begin since a state was loaded, in the
        first iteration since: the next has all of its epoch.
        """
        begun = self._begun
        if worker >= len(begun) - 2 or begun[worker] or (begun[-2] and begun[-1] != seed):
            return False
        # All workers of an iteration write the same.
        begun[-1] = seed
        begun[-2] = begun[worker] = 1
        return True

    @property
    def skipped(self) -> int:
        """How many damaged records the iteration in this process passed over."""
        return 0 if self._running is None else self._running.records.skipped

    @property
    def damages(self) -> list[Any]:
        """Why, as exceptions."""
        return [] if self._running is None else self._running.records.damages

    @property
    def failed(self) -> int:
        """How many records this process passed over because ``transform`` raised."""
        return 0 if self._running is None else self._running.undecoded.count

    @property
    def errors(self) -> list[DecodeError]:
        """Why, of the first of them."""
        return [] if self._running is None else list(self._running.undecoded.errors)

    def state_dict(self) -> dict[str, Any]:
        """What was handed out by the iteration in this process.

        Returns:
            A dict of texts and numbers.

        Raises:
            stook.InvalidError: Workers read, or did since the epoch was set: they have the state.
        """
        if self._has_workers[0] and get_worker_info() is None:
            raise InvalidError(
                "workers read this stream, and a DataLoader cannot ask them for their states: "
                "use the StatefulDataLoader of torchdata, stook.loader, or no workers"
            )
        if self._running is not None:
            return {STATE: self._running.records.state(), "skipped": self.skipped, "failed": self.failed}
        state = self._stream.state(self.epoch) if self._resumed is None else self._resumed
        return {STATE: state, "skipped": 0, "failed": 0}

    def load_state_dict(self, state: Any) -> None:
        """Has the next iteration continue after what a state says was handed out.

        Args:
            state: What `state_dict` gave, here or in a worker; a list of several; or anything that
                holds them, such as what a ``StatefulDataLoader`` gives, of each rank.

        Raises:
            stook.InvalidError: It is of something else.
            stook.NoSuchStateError: Records that it is of were compacted since, or are gone.
        """
        text = merged(state)
        self._stream = self._stream.resumed(text)
        self._resumed = text
        if get_worker_info() is None:
            self._load += 1
            self._loaded[0] = self._load
        self._load = int(self._loaded[0])
        self._begun = torch.zeros_like(self._begun).share_memory_()
        self._has_workers[0] = 0
        self._epoch[0] = _stook.Stream.describe(text)["epoch"]
        self._running = None

    def __getstate__(self) -> dict[str, Any]:
        # An iteration belongs to the process that began it.
        return {**self.__dict__, "_running": None}


class _Refused:
    """Raises where the first sample is taken: where ``iter`` raises, a worker that stays ends."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        raise InvalidError(self._text)


class _StreamSamples:
    """The samples of an iteration in this process."""

    def __init__(self, stream: PackStream, records: _stook.StreamRecords, hidden: list[DamagedError]) -> None:
        self.records = records
        self.undecoded = Undecoded()
        #: Damage of the pack, which may hide records.
        self._hidden = hidden
        self._transform, self._as_records = stream._transform, stream._as_records
        self._skips_errors = stream._skips_errors
        self._has_warned = self._has_failed = False

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._has_failed:
            raise StopIteration
        while taken := self.records.take(1):
            try:
                sample = sample_of(taken[0], self._transform, self._as_records)
            except BaseException as error:
                if self._skips_errors and isinstance(error, DecodeError):
                    self.undecoded.note(error)
                    self.records.confirm(1)
                    continue
                # What follows would be confirmed in its place.
                self._has_failed = True
                raise
            self.records.confirm(1)
            return sample
        self._warn()
        raise StopIteration

    def _warn(self) -> None:
        self.undecoded.warn(3)
        damages = [*self._hidden, *self.records.damages]
        if damages and not self._has_warned:
            self._has_warned = True
            passed = f"{self.records.skipped} damaged records were passed over"
            if self._hidden:
                passed += ", and damage of the pack may hide others"
            warnings.warn(DamageWarning(f"{passed}; the first: {damages[0]}"), stacklevel=3)


class _Keys(Sequence[str]):
    """Many keys in two pieces of memory, which forked workers share."""

    def __init__(self, keys: Iterable[str]) -> None:
        text = bytearray()
        self._ends = array.array("Q")
        for key in keys:
            text += key.encode("utf-8", "surrogateescape")
            self._ends.append(len(text))
        self._text = bytes(text)

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: Union[int, slice]) -> Union[str, list[str]]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        number = range(len(self))[index]
        begin = self._ends[number - 1] if number else 0
        return self._text[begin : self._ends[number]].decode("utf-8", "surrogateescape")


class _Samples(Sequence[tuple[str, int]]):
    """Keys with the numbers of their classes."""

    def __init__(self, keys: _Keys, targets: Sequence[int]) -> None:
        self._keys = keys
        self._targets = targets

    def __len__(self) -> int:
        return len(self._keys)

    @overload
    def __getitem__(self, index: int) -> tuple[str, int]: ...
    @overload
    def __getitem__(self, index: slice) -> list[tuple[str, int]]: ...
    def __getitem__(self, index: Union[int, slice]) -> Union[tuple[str, int], list[tuple[str, int]]]:
        if isinstance(index, slice):
            return list(zip(self._keys[index], self._targets[index]))
        return self._keys[index], self._targets[index]


def pil_loader(value: bytes) -> Any:
    """A picture of these bytes, as ``torchvision.datasets`` opens files. It needs Pillow."""
    import io

    from PIL import Image

    return Image.open(io.BytesIO(value)).convert("RGB")


class ImageFolder(PackDataset):
    """Pictures by class, as ``torchvision.datasets.ImageFolder`` has those of a folder: the class
    is the first directory of a key, ``cat/1.jpg`` is a ``cat``.

    ``classes``, ``class_to_idx``, ``samples``, ``targets`` and ``imgs`` are as there, in the same
    order. Keys take about as many bytes of memory as they have, in a piece that forked workers
    share.

    Args:
        root: The pack.
        transform: Called with the picture.
        target_transform: Called with the number of its class.
        loader: Makes a picture of the bytes of a record; that of torchvision if it is not given,
            with Pillow.
        is_valid_file: Called with each key: whether it is one. Without it those are that have an
            ending of pictures.
        prefix: Only what is below this directory, whose directories name the classes then. Keys
            that are no paths, such as one that begins with ``/``, are left out, as file systems of
            ``stook.fsspec`` do.
        options: What `stook.Pack` is opened with: ``map``, ``access``, ``at``, ``generation``.

    Raises:
        FileNotFoundError: There is no pack, or it has no pictures in directories.

    Examples:
        >>> import stook, stook.torch
        >>> with stook.Pack("pets.stook", "a") as pack:
        ...     pack.update({"cat/1.jpg": b"a", "dog/1.jpg": b"b", "dog/2.jpg": b"c", "note": b"d"})
        >>> pets = stook.torch.ImageFolder("pets.stook", loader=bytes)
        >>> pets.classes, len(pets), pets[1]
        (['cat', 'dog'], 3, (b'b', 1))
    """

    def __init__(
        self,
        root: Union[str, os.PathLike[str]],
        transform: Optional[Callable[[Any], Any]] = None,
        target_transform: Optional[Callable[[int], Any]] = None,
        loader: Callable[[bytes], Any] = pil_loader,
        is_valid_file: Optional[Callable[[str], bool]] = None,
        *,
        prefix: str = "",
        **options: Unpack[PackReadOptions],
    ) -> None:
        super().__init__(root, keys=(), **options)
        if self._options.get("generation") is None and self._options.get("at") is None:
            # Workers read what is listed here.
            self._options = {**self._options, "generation": self.pack.info().generation}
            self._pack = _stook.Pack(self._path, "r", **self._options)
        self.root = root
        self.transform = transform
        self.target_transform = target_transform
        self.loader = loader

        def is_picture(key: str) -> bool:
            if is_valid_file is not None:
                return is_valid_file(key)
            return key.lower().endswith(IMAGE_EXTENSIONS)

        found: dict[str, list[str]] = {}
        below = f"{prefix.rstrip('/')}/" if prefix.strip("/") else ""
        for key in self.pack.keys(prefix=below or None, kinds="file"):
            if not isinstance(key, str) or not is_path(key):
                continue
            name, _, rest = key[len(below) :].partition("/")
            if rest and is_picture(key):
                found.setdefault(name, []).append(key)
        if not found:
            here = f"{self._path}, below {below!r}," if below else self._path
            raise FileNotFoundError(f"{here} has no pictures in directories, of which the first names the class")
        self.classes = sorted(found)
        self.class_to_idx = {name: number for number, name in enumerate(self.classes)}
        self.targets = [self.class_to_idx[name] for name in self.classes for _ in found[name]]
        # As torchvision goes through directories: their files, then those of directories in them.
        ordered = (key for name in self.classes for key in sorted(found[name], key=lambda key: key.rpartition("/")))
        self.keys = self._folder_keys = _Keys(ordered)
        self._transform = None

    @property
    def samples(self) -> Sequence[tuple[str, int]]:
        """Keys with the numbers of their classes."""
        return _Samples(self._folder_keys, self.targets)

    @property
    def imgs(self) -> Sequence[tuple[str, int]]:
        """The same."""
        return self.samples

    def __getitem__(self, index: int) -> Any:
        return self._picture(index, super().__getitem__(index)[1])

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        pairs = super().__getitems__(indices)
        return [self._picture(index, value) for index, (_, value) in zip(indices, pairs)]

    def _picture(self, index: int, value: bytes) -> tuple[Any, Any]:
        key, target = self._folder_keys[index], self.targets[index]
        picture = transformed(key, self.loader, value)
        picture = transformed(key, self.transform, picture)
        return picture, target if self.target_transform is None else self.target_transform(target)
