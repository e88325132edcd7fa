"""``stook.loader``: batches of the records of a pack, shuffled, read and decoded ahead."""

from __future__ import annotations

import contextlib
import os
import threading
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional, Union

from ._collate import collate
from ._errors import DecodeError, DecodeWarning, InvalidError
from ._stook import Record, Split, Stream, StreamRecords
from ._options import whole as _whole
from ._options import wrong_type as _wrong_type
from ._typing import Access, Conditions, Key, Kinds, OnDamage, OnError, Path

if TYPE_CHECKING:
    from typing_extensions import Self

#: Where a state is in what `state_dict` gives.
STATE = "stook.Stream"
#: The most records that are handed to a decoding thread at once.
CHUNK_MAX = 16
#: The most native threads of a loader that read ahead.
READERS_MAX = 64
#: How many errors of records that were passed over are kept.
ERRORS_MAX = 16


def states_in(state: Any) -> Iterator[str]:
    """All states of streams in a state of anything: of a loader, its workers, several ranks."""
    if isinstance(state, dict):
        if isinstance(state.get(STATE), str):
            yield state[STATE]
        for value in state.values():
            yield from states_in(value)
    elif isinstance(state, (list, tuple)):
        for value in state:
            yield from states_in(value)


def merged(state: Any) -> str:
    """One state of all in it."""
    states = list(states_in(state))
    if not states:
        raise InvalidError(f"there is no state of a stream of stook in this {type(state).__name__}")
    return Stream.merge(states)


class _Decoders:
    """Threads that decode: as daemons, so that a program ends though one is still at it."""

    def __init__(self, decode: Callable[[Record], Any], threads: int, skips: bool) -> None:
        self._tasks: SimpleQueue[Any] = SimpleQueue()
        self._threads = threads
        #: What is handed over after the threads were sent away would wait for ever.
        self._lock = threading.RLock()
        self._is_closed = False
        for _ in range(threads):
            arguments = (self._tasks, decode, skips)
            threading.Thread(target=_work, args=arguments, name="stook-decode", daemon=True).start()

    def submit(self, records: list[Record]) -> Future[list[Any]]:
        future: Future[list[Any]] = Future()
        with self._lock:
            if self._is_closed:
                future.cancel()
            else:
                self._tasks.put((future, records))
        return future

    def close(self) -> None:
        """Has the threads end after the records that they are at."""
        with self._lock:
            self._is_closed = True
        with contextlib.suppress(Empty):
            while (task := self._tasks.get_nowait()) is not None:
                # Another thread may wait for it.
                task[0].cancel()
        for _ in range(self._threads):
            self._tasks.put(None)


def _work(tasks: SimpleQueue[Any], decode: Callable[[Record], Any], skips: bool) -> None:
    while (task := tasks.get()) is not None:
        future, records = task
        if not future.set_running_or_notify_cancel():
            continue
        samples: list[Any] = []
        for record in records:
            try:
                samples.append(decode(record))
            # Whatever it raises is raised where the sample is wanted.
            except BaseException as error:
                is_passed = skips and isinstance(error, Exception)
                samples.append(_Failed(error_of(record.key, error), is_passed))
                if not is_passed:
                    break
        future.set_result(samples)
        del task, future, records, samples


class _Failed(NamedTuple):
    """Stands for a sample that there is not."""

    error: DecodeError
    #: Whether the next one comes in its place.
    is_passed: bool


def error_of(key: Any, cause: BaseException, hint: str = "") -> DecodeError:
    """The error for a record that was not decoded."""
    error = DecodeError(f"the record {key!r} was not decoded: {type(cause).__name__}: {cause}{hint}")
    error.key = key
    error.__cause__ = cause
    return error


class Undecoded:
    """Records that are passed over because they could not be decoded."""

    def __init__(self) -> None:
        self.count = 0
        #: The first of them.
        self.errors: list[DecodeError] = []
        self._has_warned = False

    def note(self, error: DecodeError) -> None:
        """Counts one."""
        self.count += 1
        if len(self.errors) < ERRORS_MAX:
            if error.__cause__ is not None:
                # Its frames have the record.
                error.__cause__.__traceback__ = None
            error.__traceback__ = None
            self.errors.append(error)

    def warn(self, stacklevel: int) -> None:
        """Warns of them, once."""
        if self.count and not self._has_warned:
            self._has_warned = True
            were = "record was" if self.count == 1 else "records were"
            text = f"{self.count} {were} passed over because decoding failed; the first: {self.errors[0]}"
            warnings.warn(DecodeWarning(text), stacklevel=stacklevel + 1)


class Making(NamedTuple):
    """How batches are made of records."""

    batch: Optional[int]
    decode: Optional[Callable[[Record], Any]]
    collate: Callable[[Sequence[Any]], Any]
    drop_last: bool
    threads: int
    ahead: int
    skips_errors: bool


class Loader:
    """Batches of the records of a pack: what `loader` makes.

    Each ``iter(loader)`` begins the next epoch, or continues the one that was resumed. One epoch is
    under way at a time.
    """

    def __init__(
        self, stream: Stream, making: Making, readers: int, share: tuple[int, int], has_own_lanes: bool
    ) -> None:
        self._stream = stream
        #: Whether the lanes were chosen by the caller.
        self._has_own_lanes = has_own_lanes
        self._making = making
        self._readers = readers
        self._rank, self._world = share
        self._records = stream.count(rank=self._rank, world=self._world)
        self._epoch = 0
        self._resumed: Optional[str] = None
        self._running: Optional[Batches] = None

    @property
    def stream(self) -> Stream:
        """The records in their order."""
        return self._stream

    @property
    def epoch(self) -> int:
        """The epoch that is under way, or comes next."""
        return self._epoch + (self._running is not None and self._running.is_closed)

    def set_epoch(self, epoch: int) -> None:
        """Has the next ``iter`` begin this epoch; one that was resumed is continued.

        Args:
            epoch: Which.
        """
        self._stream.state(epoch)
        if self._resumed is not None and Stream.describe(self._resumed)["epoch"] == epoch:
            # The usual loop over epochs, after one was resumed.
            return
        self.close()
        self._running, self._epoch, self._resumed = None, epoch, None

    def __len__(self) -> int:
        """How many batches an epoch has; fewer come where damaged records are skipped."""
        size = self._making.batch or 1
        return self._records // size if self._making.drop_last else -(-self._records // size)

    def __iter__(self) -> Batches:
        self.close()
        epoch = self.epoch
        state = self._stream.state(epoch) if self._resumed is None else self._resumed
        self._running, self._epoch = None, epoch
        records = self._stream.begin(state=state, rank=self._rank, world=self._world, threads=self._readers)
        # Where it could not begin, it is resumed the next time.
        self._resumed = None
        self._running = Batches(self._making, records, self._stream.damages)
        return self._running

    def state_dict(self) -> dict[str, Any]:
        """What was handed out: `load_state_dict` continues exactly after the last batch.

        Returns:
            A dict of texts and numbers.
        """
        if self._running is not None:
            running = self._running
            return {STATE: running.state(), "skipped": running.skipped, "failed": running.failed}
        state = self._stream.state(self._epoch) if self._resumed is None else self._resumed
        return {STATE: state, "skipped": 0, "failed": 0}

    def load_state_dict(self, state: Any) -> None:
        """Continues where `state_dict` was asked for, with the next ``iter``.

        Args:
            state: What it gave; of several ranks all of it, in a list. Any number of them continues
                what any other number began.

        Raises:
            stook.InvalidError: It is of something else.
            stook.NoSuchStateError: Records that it is of were compacted since, or are gone.
        """
        text, stream = merged(state), self._stream
        if not self._has_own_lanes:
            stream, text = stream.in_lanes_of(text, self._world)
        stream = stream.resumed(text)
        self.close()
        self._running, self._stream = None, stream
        self._records = stream.count(rank=self._rank, world=self._world)
        self._epoch = Stream.describe(text)["epoch"]
        self._resumed = text
        if stream.is_over(text):
            self._epoch, self._resumed = self._epoch + 1, None

    def close(self) -> None:
        """Ends the epoch under way, and its threads; the next ``iter`` begins the next. The state
        stays what it was.
        """
        if self._running is not None:
            self._running.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: Union[type[BaseException], BaseException, TracebackType, None]) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<stook.Loader of {self._records} records of {self._stream.path}>"


class _Sample(NamedTuple):
    """One that waits for its batch."""

    key: Any
    value: Any
    #: How many records it counts for: those that were passed over before it, too.
    records: int


class Batches:
    """The batches of an epoch of a `Loader`."""

    def __init__(self, making: Making, records: StreamRecords, hidden: list[Any]) -> None:
        self._making = making
        #: Damage of the pack, which may hide records.
        self._hidden = hidden
        self._records = records
        self._process = os.getpid()
        self._decoders: Optional[_Decoders] = None
        if making.decode is not None:
            self._decoders = _Decoders(making.decode, making.threads, making.skips_errors)
        #: What is being decoded, in order, with the keys of the records that it is of.
        self._futures: deque[tuple[list[Any], Future[list[Any]]]] = deque()
        self._samples: deque[_Sample] = deque()
        self._under_way = 0
        #: Records that were passed over since the last sample.
        self._passed = 0
        self._undecoded = Undecoded()
        self._is_over = self.is_closed = False
        #: Threads may share it: one at a time takes a batch.
        self._lock = threading.RLock()
        #: Whether it ended by itself: all was handed out, or an error was raised.
        self._has_ended = False
        #: What ends the epoch once all before it was handed out.
        self._failure: Optional[Exception] = None

    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> Any:
        if self._process != os.getpid():
            raise InvalidError("this was begun in the process that this one was forked from; begin it again here")
        with self._lock:
            return self._next()

    def _check_open(self) -> None:
        # That it is over would say that all was handed out.
        if self.is_closed and not self._has_ended:
            raise InvalidError(
                "this iteration was ended before its epoch was over: another one was begun, or the loader was closed"
            )

    def _next(self) -> Any:
        if self._has_ended:
            raise StopIteration
        self._check_open()
        making, size = self._making, self._making.batch or 1
        try:
            self._gather(size)
            self._check_open()
            whole = len(self._samples) >= size
            if not whole and self._failure is not None:
                raise self._failure
            if not self._samples or (not whole and making.drop_last):
                # What is left out was handed out, too: the epoch is over.
                self._records.confirm(self._passed + sum(sample.records for sample in self._samples))
                self._undecoded.warn(3)
                raise StopIteration
            samples = [self._samples.popleft() for _ in range(min(size, len(self._samples)))]
            for sample in samples:
                if isinstance(sample.value, _Failed):
                    raise sample.value.error
            try:
                batch = self._batch_of(samples)
            except KeyboardInterrupt:
                # It is made again, if another batch is asked for.
                self._samples.extendleft(reversed(samples))
                raise
        except CancelledError:
            self._check_open()
            raise
        except Exception:
            self._has_ended = not self.is_closed
            self.close()
            raise
        count = sum(sample.records for sample in samples)
        if self._is_over and not self._samples and not self._futures:
            # Nothing comes after them.
            count, self._passed = count + self._passed, 0
        self._records.confirm(count)
        return batch

    def _batch_of(self, samples: list[_Sample]) -> Any:
        values = [sample.value for sample in samples]
        if self._making.batch is None:
            return values[0]
        if self._making.collate is collate:
            return collate(values, [sample.key for sample in samples])
        return self._making.collate(values)

    def _add(self, keys: list[Any], decoded: list[Any]) -> None:
        """Takes what was made of records with these keys."""
        for key, value in zip(keys, decoded):
            if isinstance(value, _Failed) and value.is_passed:
                self._passed += 1
                self._undecoded.note(value.error)
                continue
            self._samples.append(_Sample(key, value, 1 + self._passed))
            self._passed = 0
        if isinstance(decoded[-1], _Failed) and not decoded[-1].is_passed:
            self._is_over = True
            self._futures.clear()

    def _gather(self, size: int) -> None:
        """Has records decoded ahead, and waits for the samples of a batch."""
        limit = size * (self._making.ahead + 1)
        chunk = size if self._decoders is None else max(1, min(CHUNK_MAX, size // self._making.threads))
        while True:
            here = len(self._samples)
            while not self._is_over and here + self._under_way < limit:
                is_needed = here + self._under_way < size
                try:
                    records = self._records.take(min(chunk, limit - here - self._under_way), wait=is_needed)
                except Exception as error:
                    self._failure, self._is_over = error, True
                    break
                if not records:
                    self._is_over = is_needed
                    break
                if self._decoders is None:
                    self._samples.extend(_Sample(None, record, 1) for record in records)
                    here += len(records)
                else:
                    keys = [record.key for record in records]
                    self._futures.append((keys, self._decoders.submit(records)))
                    self._under_way += len(records)
            while len(self._samples) < size and self._futures:
                keys, future = self._futures.popleft()
                try:
                    decoded = future.result()
                except BaseException:
                    # Ctrl-C: it is waited for again, if another batch is asked for.
                    self._futures.appendleft((keys, future))
                    raise
                self._under_way -= len(keys)
                self._add(keys, decoded)
            if len(self._samples) >= size or self._is_over and not self._futures:
                return

    @property
    def skipped(self) -> int:
        """How many damaged records were passed over, with ``on_damage="skip"``."""
        return self._records.skipped

    @property
    def damages(self) -> list[Any]:
        """Why, as exceptions."""
        met = self._records.damages
        # A damaged record that was known before is met again where it is read.
        keys = {damage.key for damage in met} - {None}
        return [*(damage for damage in self._hidden if damage.key not in keys), *met]

    @property
    def failed(self) -> int:
        """How many records were passed over because ``decode`` raised, with ``on_error="skip"``."""
        return self._undecoded.count

    @property
    def errors(self) -> list[DecodeError]:
        """Why, of the first of them."""
        return list(self._undecoded.errors)

    def state(self) -> str:
        """What was handed out, as `Stream.begin` takes it."""
        return self._records.state()

    def close(self) -> None:
        """Ends it, and its threads after what they are at."""
        if self._process != os.getpid():
            return
        self.is_closed = True
        self._records.close()
        if (decoders := self._decoders) is not None:
            decoders.close()
        # A thread that takes a batch just now sees that it is closed.
        if self._lock.acquire(blocking=False):
            try:
                self._samples.clear()
                self._futures.clear()
                self._decoders = None
            finally:
                self._lock.release()

    def __del__(self) -> None:
        # Where making it failed there is nothing to end.
        if "is_closed" in self.__dict__:
            self.close()


def _cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_called(name: str, value: Any) -> None:
    """Raises for what is no function.

    Raises:
        TypeError: It is none.
    """
    if value is not None and not callable(value):
        raise _wrong_type(name, "a function", value)


def skips_errors(on_error: str) -> bool:
    """Whether records that are not decoded are passed over.

    Raises:
        stook.InvalidError: There is no such choice.
    """
    if on_error not in ("raise", "skip"):
        raise InvalidError(f"on_error is 'raise' or 'skip', not {on_error!r}")
    return on_error == "skip"


def refuse_empty(count: int, damages: Sequence[Any], path: Path, **selection: Any) -> None:
    """Raises where nothing is selected: an epoch of nothing ends at once. A split may be empty.

    Raises:
        stook.InvalidError: That is so.
    """
    if count or damages or selection.get("split") is not None:
        return
    given = {name: value for name, value in selection.items() if value is not None}
    if given.get("even") is False:
        del given["even"]
    shown = ", ".join(f"{name}={value!r}" if isinstance(value, (str, bytes, int)) else f"{name}=…" for name, value in given.items())
    raise InvalidError(f"there is nothing to read in {os.fsdecode(path)}: it has no record with {shown}")


def loader(
    path: Path,
    *,
    batch: Optional[int] = None,
    shuffle: bool = True,
    decode: Optional[Callable[[Record], Any]] = None,
    collate: Callable[[Sequence[Any]], Any] = collate,
    drop_last: bool = False,
    seed: int = 0,
    threads: Optional[int] = None,
    readers: int = 1,
    ahead: int = 2,
    rank: int = 0,
    world: int = 1,
    prefix: Optional[Key] = None,
    keys: Optional[Iterable[Key]] = None,
    group: Union[str, list[str], None] = None,
    split: Optional[Split] = None,
    kinds: Kinds = "file",
    on_damage: OnDamage = "raise",
    on_error: OnError = "raise",
    lanes: Optional[int] = None,
    window_bytes: int = 32 << 20,
    even: bool = False,
    map: bool = False,
    access: Access = "auto",
    at: Any = None,
    generation: Optional[int] = None,
    where: Optional[Conditions] = None,
) -> Loader:
    """Batches of the records of a pack, shuffled anew in each epoch: read and verified ahead by
    native threads, decoded ahead by threads of Python, without other processes. It needs no torch,
    and can be resumed exactly in the middle of an epoch.

    Args:
        path: The pack.
        batch: How many samples a batch has; ``None`` gives single samples.
        shuffle: ``False`` gives the order of the medium.
        decode: Called with each `Record` in one of ``threads``; what it gives is the sample.
            Decoders that let go of the interpreter run side by side, as those of images do. Without
            it samples are records.
        collate: Makes a batch of a list of samples, such as ``list``. If it is not given: arrays of
            one shape and type become one array, tensors likewise; numbers become an array, or a
            tensor where the sample has a tensor in another field, and so do arrays there; of
            tuples, named ones too, and dicts each field does. All else stays a list. Samples of
            other shapes, types or fields than each other are an error that names their records.
        drop_last: Whether a last batch that is not full is left out.
        seed: What the order depends on, with the epoch.
        threads: Threads that decode: as many as there are CPUs.
        readers: Native threads that read ahead. Each holds a window of ``window_bytes``.
        ahead: How many batches are decoded ahead.
        rank: Which of several processes this is, which share an epoch.
        world: How many they are.
        prefix: Only keys that begin with this.
        keys: Only these keys, each once.
        group: Only this group, or these.
        split: Only this part of the pack; see `Pack.splits`.
        kinds: Only records of these kinds, as for `Pack.scan`.
        on_damage: ``"raise"``, or ``"skip"``: damaged records are passed over and counted.
        on_error: ``"raise"``, or ``"skip"``: records for which ``decode`` raises an `Exception` are
            passed over, counted in ``failed`` of the iterator and in states, with the first errors
            in ``errors``, and warned of (`stook.DecodeWarning`) at the end of an epoch. They count
            as handed out: no continued epoch meets them again. Batches are full all the same.
        lanes: As for `Stream`: 64, or 1 where one process reads in the order of the medium; a state
            of the other is continued.
        window_bytes: As for `Stream`.
        even: As for `Stream`.
        map: As for `Pack`.
        access: As for `Pack`.
        at: As for `Pack`.
        generation: As for `Pack`.
        where: Only records with these attributes, as for `Pack.scan`.

    Returns:
        A `Loader`, over which epoch after epoch is iterated.

    Raises:
        stook.InvalidError: Numbers that make no sense, or nothing is selected.
        stook.DecodeError: ``decode`` raised; from the iterator, with the key.
        stook.DamagedError: A record is not what was written; from the iterator.

    Examples:
        >>> import stook
        >>> with stook.Pack("numbers.stook", "a") as pack:
        ...     pack.update({number: bytes([number]) for number in range(10)})
        >>> loader = stook.loader("numbers.stook", batch=4, decode=lambda record: record.value[0])
        >>> [len(batch) for batch in loader], len(loader)
        ([4, 4, 2], 3)
    """
    rank, world = _whole("rank", rank, 0), _whole("world", world, 1)
    check_called("decode", decode)
    if not callable(collate):
        raise _wrong_type("collate", "a function", collate)
    if not isinstance(drop_last, bool):
        raise _wrong_type("drop_last", "True or False", drop_last)
    readers = _whole("readers", readers, 1)
    if readers > READERS_MAX:
        raise InvalidError(f"argument 'readers': 1 to {READERS_MAX} threads that read ahead are possible, not {readers}")
    stream = Stream(
        path, seed=seed, shuffle=shuffle, prefix=prefix, keys=keys, group=group, split=split, kinds=kinds, on_damage=on_damage,
        lanes=lanes if lanes is not None else 64 if shuffle or world > 1 else 1,
        window_bytes=window_bytes, even=even, map=map, access=access, at=at, generation=generation,
        where=where,
    )
    making = Making(
        batch=None if batch is None else _whole("batch", batch, 1),
        decode=decode,
        collate=collate,
        drop_last=drop_last,
        threads=_cpus() if threads is None else _whole("threads", threads, 1),
        ahead=_whole("ahead", ahead, 0),
        skips_errors=skips_errors(on_error),
    )
    refuse_empty(
        len(stream), stream.damages, path, prefix=prefix, keys=keys, group=group, split=split, kinds=kinds,
        even=even, at=at, generation=generation, where=where,
    )
    return Loader(stream, making, readers, (rank, world), shuffle or lanes is not None)
