# The types of records in a seeded order. The documentation is copied from it by
# `scripts/python stubs`.
from collections.abc import Iterable
from datetime import datetime
from pathlib import PosixPath
from types import TracebackType
from typing import Union, final

from typing_extensions import Self

from ._errors import DamagedError
from ._stook_items import Record, Split
from ._typing import Access, Conditions, Key, Kinds, OnDamage, Path

@final
class Stream:
    """The records of a pack in a seeded order, for training: read by few long reads, shared by workers
    and ranks, resumed exactly by any other number of them.

    An epoch brings spans of 2 MiB of the pack into the order of ``seed`` and epoch, cuts the
    sequence into ``lanes`` of the same number of records, and shuffles what it reads of a lane at
    once, ``window_bytes``. Readers divide the lanes. The same seed gives the same order in every
    release. All is of the generation that was published last when this was made: what is put later
    is not in it. It can be pickled, and used after a fork.

    `stook.loader` and `stook.torch.PackStream` are made of it.

    Args:
        path: The pack.
        seed: What the order depends on.
        shuffle: ``False`` leaves records in the order of the medium.
        prefix: Only keys that begin with this.
        start: Only keys from this one on.
        end: Only keys before this one.
        keys: Only these keys, each once. It goes with no ``split``.
        group: Only this group, or these.
        split: Only this part of the pack; see `Pack.splits`.
        kinds: Only records of these kinds, as for `Pack.scan`.
        on_damage: ``"raise"``, or ``"skip"``: damaged records are passed over, counted and
            reported by `StreamRecords.damages`.
        lanes: How many readers there can be at most. Ranks have the same number of records where
            it is a multiple of theirs.
        window_bytes: How much is read and mixed at once. Twice as much is in memory.
        even: Whether all lanes have the same number of records, to the last: what remains, fewer
            records than there are lanes, is left out, other ones in each epoch: in the order of the
            medium each begins where the one before ended.
        map: As for `Pack`.
        access: As for `Pack`.
        at: As for `Pack`.
        generation: As for `Pack`.
        where: Only records with these attributes, as for `Pack.scan`. A state of other records is
            refused.

    Raises:
        stook.InvalidError: Lanes or windows that are not possible, an unknown group or key.
        stook.DamagedError: Whether a record counts is not known.
        stook.NoSuchStateError: There is no such generation.

    Examples:
        >>> import stook
        >>> with stook.Pack("data.stook", "a") as pack:
        ...     pack.update({f"{number}": bytes([number]) for number in range(100)})
        >>> stream = stook.Stream("data.stook", seed=7)
        >>> epoch = stream.begin()
        >>> first = [next(epoch).key for _ in range(40)]
        >>> rest = [record.key for record in stream.begin(state=epoch.state())]
        >>> len(stream), len({*first, *rest})
        (100, 100)
        >>> epoch.close()
    """
    def __new__(
        cls,
        path: Path,
        *,
        seed: int = 0,
        shuffle: bool = True,
        prefix: Union[Key, None] = None,
        start: Union[Key, None] = None,
        end: Union[Key, None] = None,
        keys: Union[Iterable[Key], None] = None,
        group: Union[str, list[str], None] = None,
        split: Union[Split, None] = None,
        kinds: Kinds = "file",
        on_damage: OnDamage = "raise",
        lanes: int = 64,
        window_bytes: int = 33554432,
        even: bool = False,
        map: bool = False,
        access: Access = "auto",
        at: Union[datetime, str, float, int, None] = None,
        generation: Union[int, None] = None,
        where: Union[Conditions, None] = None,
    ) -> Self: ...
    @property
    def path(self) -> PosixPath:
        """Where the pack is."""
    @property
    def generation(self) -> int:
        """The generation that is read."""
    @property
    def seed(self) -> Union[int, None]:
        """What the order depends on; ``None`` where it is that of the medium."""
    @property
    def lanes(self) -> int:
        """How many readers there can be at most."""
    @property
    def memory_bytes(self) -> int:
        """Bytes of memory that the list of records takes."""
    @property
    def damages(self) -> list[DamagedError]:
        """Records that are left out because whether they count is not known, as exceptions."""
    def __len__(self) -> int: ...
    def begin(
        self,
        epoch: Union[int, None] = None,
        *,
        state: Union[str, None] = None,
        rank: int = 0,
        world: int = 1,
        worker: int = 0,
        workers: int = 1,
        threads: int = 1,
    ) -> StreamRecords:
        """Begins an epoch, or continues one.

        Args:
            epoch: Which: 0 unless a state says.
            state: Continues after what this says was handed out.
            rank: Which rank this is.
            world: How many ranks there are.
            worker: Which worker of the rank this is.
            workers: How many workers the rank has.
            threads: How many threads read ahead; each holds a window.

        Returns:
            `StreamRecords`, an iterator over records: of all workers of all ranks together each
            record once.

        Raises:
            stook.InvalidError: A state of something else, or of one of several readers; more
            readers
                than lanes.
        """
    def count(self, *, rank: int = 0, world: int = 1, worker: int = 0, workers: int = 1) -> int:
        """How many records one reader of an epoch has, damaged ones included.

        Args:
            rank: As for `begin`, like all others.
            world: …
            worker: …
            workers: …

        Returns:
            How many.
        """
    def state(self, epoch: int = 0) -> str:
        """The state at the beginning of an epoch.

        Args:
            epoch: Which.

        Returns:
            A text, as `StreamRecords.state` gives it.
        """
    def resumed(self, state: str) -> Self:
        """The stream that a state is of: this one, or one of the generation of the state, if the pack
        was changed since. What was put, replaced or deleted since does no harm: the records lie
        where they did until they are compacted, and it is proved by a checksum that they do.

        Args:
            state: A state.

        Returns:
            A `Stream`.

        Raises:
            stook.NoSuchStateError: Records of that generation were compacted since, or are gone.
            stook.InvalidError: A state of another pack, selection, seed or number of lanes.
        """
    def in_lanes_of(self, state: str, readers: int) -> tuple[Self, str]:
        """What continues an epoch in the order of the medium with another number of readers than began
        it: this stream in the lanes of the state, or, where these are fewer than readers, the state
        in those of this stream. With ``shuffle=True`` both are left as they are.

        Args:
            state: A state.
            readers: How many readers there are: workers of all ranks.

        Returns:
            A `Stream` and a state.

        Raises:
            stook.InvalidError: It is no state.
        """
    def is_over(self, state: str) -> bool:
        """Whether a state says that nothing is left of its epoch.

        Args:
            state: A state of this stream.

        Returns:
            Whether that is so; a state of one reader of several does not say it.

        Raises:
            stook.InvalidError: A state of something else.
        """
    @staticmethod
    def merge(states: Iterable[str]) -> str:
        """One state for all readers of an epoch, which any number of others can continue.

        Args:
            states: The states of all of them, at one moment.

        Returns:
            A text.

        Raises:
            stook.InvalidError: They are not of one epoch of one stream, or there is none.
        """
    @staticmethod
    def describe(state: str) -> dict[str, int]:
        """What a state says: ``epoch``, ``generation``, and how many ``records`` were handed out.

        Args:
            state: A state.

        Returns:
            A dict.

        Raises:
            stook.InvalidError: It is no state.
        """

@final
class StreamRecords:
    """Records of an epoch, or of one reader's share of it, as threads read and verified them ahead.

    It belongs to the process that began it. Close it, use `with`, or drop it: then its threads end.
    """
    @property
    def epoch(self) -> int:
        """Which epoch."""
    @property
    def skipped(self) -> int:
        """How many damaged records were passed over, with ``on_damage="skip"``."""
    @property
    def damages(self) -> list[DamagedError]:
        """Why, as exceptions."""
    def __iter__(self) -> Self: ...
    def __next__(self) -> Record: ...
    def take(self, count: int, wait: bool = True) -> list[Record]:
        """Takes several records. They count as handed out once they are confirmed.

        Args:
            count: How many.
            wait: Whether to wait for them; else those are taken that are there.

        Returns:
            A list of records, with fewer at the end, or where it did not wait.

        Raises:
            stook.DamagedError: A record is not what was written.
        """
    def confirm(self, count: int) -> None:
        """Counts records that were taken as handed out: the next state is after them.

        Args:
            count: How many more.
        """
    def state(self) -> str:
        """What was handed out: a text with which `Stream.begin` continues after it. It is of the lanes
        of this reader; `Stream.merge` makes one of those of all.

        Returns:
            A text.
        """
    def close(self) -> None:
        """Ends it: its threads end after what they are reading."""
    def __enter__(self) -> Self: ...
    def __exit__(self, *exception: Union[type[BaseException], BaseException, TracebackType, None]) -> None: ...
