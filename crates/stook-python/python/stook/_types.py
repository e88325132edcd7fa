"""Reports of methods: frozen dataclasses with units in their names."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional, Union

from ._errors import DamagedError
from ._html import Report


@dataclass(frozen=True)
class SegmentInfo(Report):
    """What is known of a segment without reading its records."""

    id: int
    group: str
    sealed: bool
    records: int
    body_bytes: int
    file_bytes: int
    dead_records: int
    dead_bytes: int
    index_memory_bytes: int


@dataclass(frozen=True)
class TornTail(Report):
    """What a writer had not made durable when it died: this many bytes at the end of a segment."""

    segment: int
    offset: int
    size: int


@dataclass(frozen=True)
class PackInfo(Report):
    """What is known of a pack without reading its records.

    Attributes:
        path: Where it is.
        generation: The generation that is shown.
        complete: Whether what built it came to its end.
        records: Live records.
        body_bytes: Bytes of values, dead ones included.
        file_bytes: Bytes of segments.
        dead_records: Records that were deleted or replaced and not compacted yet.
        dead_bytes: Bytes that they take.
        groups: Names of groups.
        history_from_ns: From when on ``at`` works, in nanoseconds since 1970; ``None`` if from the
            beginning.
        roots: The paths of what it was packed from, as they were recorded.
        torn_tails: Unfinished ends of segments: readers ignore them, the next writer cuts them.
        action: The most urgent thing to do: ``"permit"``, ``"update"``, ``"check"``, ``"finish"``,
            ``"compact"`` or ``"none"``.
        action_text: The same as a sentence.
        damages: Damage that was found when it was opened.
        segments: Its segments.
    """

    path: Path
    generation: int
    complete: bool
    records: int
    body_bytes: int
    file_bytes: int
    dead_records: int
    dead_bytes: int
    groups: list[str]
    history_from_ns: Optional[int]
    roots: list[str]
    torn_tails: list[TornTail]
    action: str
    action_text: str
    damages: list[DamagedError]
    segments: list[SegmentInfo] = field(repr=False)


@dataclass(frozen=True)
class ArchiveInfo(Report):
    """What is known of an archive without reading its members. Of members with one key the last
    counts.

    Attributes:
        path: Where it is; the address of an object, without a query, is a ``str``.
        format: ``"tar"``, ``"tar.gz"``, ``"tar.zst"``, ``"tar.xz"`` or ``"zip"``.
        sequential: Whether it is compressed as a whole, so that every read goes through all of it.
        complete: Whether it ends as its format wants it; else it may have been cut off.
        members: Members.
        files: Regular files among them.
        directories: Directories.
        symlinks: Symbolic links.
        hard_links: Hard links.
        other: Pipes, devices, and what only the program knows that made the archive.
        sparse: Files of which not every byte is stored.
        replaced: Members whose place was taken by later ones.
        body_bytes: Bytes of members, hard links not counted.
        stored_bytes: Bytes that these take in the archive.
        file_bytes: Bytes of the archive.
    """

    path: Union[Path, str]
    format: str
    sequential: bool
    complete: bool
    members: int
    files: int
    directories: int
    symlinks: int
    hard_links: int
    other: int
    sparse: int
    replaced: int
    body_bytes: int
    stored_bytes: int
    file_bytes: int


@dataclass(frozen=True)
class CheckReport(Report):
    """What a check found.

    Attributes:
        records: Records that are whole, dead ones included.
        live_records: Of these, live.
        body_bytes: Bytes of values that were verified.
        damages: All damage, as exceptions.
        notes: What is no damage but worth knowing.
        accepted: Whether the pack was incomplete and was called complete because of this check.
        complete: Whether the pack is complete, as it is after this check.
    """

    records: int
    live_records: int
    body_bytes: int
    damages: list[DamagedError]
    notes: list[str]
    accepted: bool
    complete: bool

    @property
    def ok(self) -> bool:
        """Whether there is no damage."""
        return not self.damages


@dataclass(frozen=True)
class Quarantined(Report):
    """Bytes of a pack that are no whole record, or a hard link of a file that is lost, and where
    a copy of them is.

    Attributes:
        segment: The segment that they are from.
        offset: Where in it.
        size: How many they are.
        path: The file that holds the copy.
    """

    segment: int
    offset: int
    size: int
    path: Path


@dataclass(frozen=True)
class RepairReport(Report):
    """What a repair saved.

    Attributes:
        path: The new pack.
        records: Records in it.
        bytes: Bytes of them.
        damages: All damage that was found, as exceptions.
        quarantined: What could not be read, and hard links of files that are lost.
        notes: What the new pack may have that the old one had not, or the other way round, and why.
        complete: Whether the new pack is complete, as the old one was.
    """

    path: Path
    records: int
    bytes: int
    damages: list[DamagedError]
    quarantined: list[Quarantined]
    notes: list[str]
    complete: bool


@dataclass(frozen=True)
class CompactReport(Report):
    """What a compaction did, or with ``dry_run`` would do.

    Attributes:
        steps: Steps that came to their end.
        records: Records that were written once more; ``None`` with ``dry_run``.
        bytes: Bytes of them.
        dead_records: Versions that went.
        before_bytes: Bytes of the files that were replaced.
        after_bytes: Bytes of the files that replace them.
        left_out: Damage because of which segments were left as they are.
        too_large: Segments that were left as they are, because each needs more room than a step may
            take.
        dry_run: Whether nothing was done.
        seconds_estimated: With ``dry_run``: how long it would take; ``None`` where there is nothing
            to do.
    """

    steps: int
    records: Optional[int]
    bytes: int
    dead_records: int
    before_bytes: int
    after_bytes: int
    left_out: list[DamagedError]
    too_large: int
    dry_run: bool = False
    seconds_estimated: Optional[float] = None


@dataclass(frozen=True)
class DeleteReport(Report):
    """What a deletion of many records did, or with ``dry_run`` would do.

    Attributes:
        dry_run: Whether nothing was done.
        deleted: Records that were deleted.
        missing: Keys of the list that no record has.
        freed_bytes: Bytes of their frames: compaction gives the room back.
        keys: With ``dry_run``: the keys of the records.
        damages: Damage of records that may be meant, or that hides such records, as exceptions:
            they stay.
        directories: Of the first hundred keys of the list, without a slash at their end, those of
            directories of which something stays: ``prefix="a/"`` deletes what is in ``a``.
    """

    dry_run: bool
    deleted: int
    missing: list[Union[str, int]]
    freed_bytes: int
    keys: list[Union[str, int]]
    damages: list[Exception]
    directories: list[Union[str, int]]


@dataclass(frozen=True)
class Failure(Report):
    """What could not be packed, unpacked or read, and why."""

    key: Union[str, int]
    error: Exception


@dataclass(frozen=True)
class StitchMember(Report):
    """A member of a stitched file.

    Attributes:
        key: Its path.
        kind: ``"file"``, ``"directory"``, ``"symlink"`` or ``"hard_link"``.
        offset: Where its bytes begin; of one that has none, the byte after its header.
        size: How many bytes it has.
    """

    key: str
    kind: str
    offset: int
    size: int


@dataclass(frozen=True)
class LoadReport(Report):
    """What was read of an archive.

    Attributes:
        members: Members that were read, directories and links included.
        bytes: Bytes of them.
        complete: Whether the archive ends as its format wants it; else it may have been cut off.
        failures: Members that are damaged, or cannot be read.
    """

    members: int
    bytes: int
    complete: bool
    failures: list[Failure]

    @property
    def ok(self) -> bool:
        """Whether every member was read, and the archive is complete."""
        return self.complete and not self.failures


@dataclass(frozen=True)
class MoveReport(Report):
    """What was removed from trees, because the pack holds the same.

    Attributes:
        files: Names of regular files.
        symlinks: Symbolic links.
        directories: Directories that were empty then.
        bytes: Bytes of files that were compared with their records; of a file with several names
            once.
    """

    files: int
    symlinks: int
    directories: int
    bytes: int


@dataclass(frozen=True)
class PackTreeReport(Report):
    """What packing did, or with ``dry_run`` would do.

    Attributes:
        files: Regular files that were added.
        directories: Directories that were added.
        symlinks: Symbolic links that were added.
        hard_links: Hard links that were added.
        replaced: Of all these, how many took the place of an older record.
        unchanged: What was there already.
        deleted: Records that were deleted, because what they were packed from is gone.
        bytes: Bytes of what was added.
        without_xattrs: How many entries were added without all of their extended attributes.
        lost_xattrs: Which these lack, by key: they could not be read, or are too long for a record.
        special: Pipes, sockets and devices, which are left out.
        gone: With ``dry_run`` and ``delete``: the keys of what is gone, in order.
        held: With ``delete``: the keys of what is gone and stays, as it holds the content of
            another name of its file.
        uncertain: With ``delete``: records that seem to be gone, and stay because something beside
            them failed.
        moved: With ``move``: what was removed. Why something stays is in ``failures``.
        complete: Whether nothing is missing from the pack; never with ``dry_run``.
        failures: What could not be packed, or removed.
        damages: Damage of the pack that was found, as exceptions. What was packed is in it
            nevertheless.
    """

    files: int
    directories: int
    symlinks: int
    hard_links: int
    replaced: int
    unchanged: int
    deleted: int
    bytes: int
    without_xattrs: int
    lost_xattrs: dict[str, str]
    special: list[str]
    gone: list[str]
    held: list[str]
    uncertain: int
    moved: Union[MoveReport, None]
    complete: bool
    failures: list[Failure]
    damages: list[DamagedError]


@dataclass(frozen=True)
class CopyItem(Report):
    """What became of a path in one destination.

    Attributes:
        destination: Which destination, by its position.
        key: The path, relative to it.
        size: Its length in bytes, where it is a file.
        action: ``"copy"``; ``"hard_link"`` to another file of the same source; ``"link"`` to a file
            of an earlier copy; ``"correct"``: it was there, and got another mode, owner or time;
            ``"skip"``: it is there already; ``"keep"``: another is there, and stays; ``"delete"``.
        why: ``"new"``, ``"kind"``, ``"length"``, ``"time"``, ``"content"``, ``"older"``,
            ``"asked"``, ``"metadata"``, ``"same"``, ``"extra"``: what was there, or what of it
            differed.
        digests: Of its bytes, in hexadecimal by the names of ``hashes``, if they were read.
    """

    destination: int
    key: str
    size: int
    action: str
    why: str
    digests: dict[str, str]


@dataclass(frozen=True)
class CopyDestination(Report):
    """What became of one destination.

    Attributes:
        path: The directory.
        made: The directories that were made to have it, itself the last of them.
        files: Regular files written.
        bytes: Bytes of them, holes included.
        cloned: Of these files, those that share the blocks of their source.
        copied_by_server: Of these files, those that their server copied.
        directories: Directories that were made, or got another mode or owner.
        symlinks: Symbolic links made.
        hard_links: Hard links made.
        linked: Files that became hard links of an earlier copy.
        specials: Pipes and devices made.
        unchanged: Files and links that were there already.
        corrected: Of these, those that got another mode, owner or time.
        backups: What was replaced or deleted, and stays under another name.
        kept: What was there already with other content, and stayed as it was.
        deleted: What was deleted, because the sources do not have it.
        leftovers: What a run that was killed had just replaced: it stays.
        resumed_bytes: Bytes of files that an earlier run left unfinished: they were verified, and
            not written again.
        unfinished: Files that are not whole, and that the next run continues.
        not_mirrored: Why a mirror looked for nothing that it could delete, where that is so.
        lists: Lists of checksums that were written.
        proofs: How many files have a proof beside them.
        unlisted: How many files are in none of them, because they were there already and were not
            read.
        unset_xattrs: How many files, directories and links lack extended attributes that could not
            be set.
        foreign_xattrs: How many lack some of another system, which are none of these.
        direct_bytes: Bytes of large files that went past the page cache.
        cached_bytes: Bytes of large files that went through it.
        read_back_files: Files that were read again, and are as they were copied.
        read_back_bytes: Bytes that were read for that.
        past_cache: Whether all of these came past the page cache, from the medium; ``None`` where
            nothing was read again.
        stopped: Why nothing more was written, where the destination was given up.
        failures: What could not be written, or is not as it was copied.
    """

    path: Path
    made: list[Path]
    files: int
    bytes: int
    cloned: int
    copied_by_server: int
    directories: int
    symlinks: int
    hard_links: int
    linked: int
    specials: int
    unchanged: int
    corrected: int
    backups: int
    kept: list[str]
    deleted: list[str]
    leftovers: list[str]
    resumed_bytes: int
    unfinished: list[str]
    not_mirrored: Optional[str]
    lists: list[str]
    proofs: int
    unlisted: int
    unset_xattrs: int
    foreign_xattrs: int
    direct_bytes: int
    cached_bytes: int
    read_back_files: int
    read_back_bytes: int
    past_cache: Optional[bool]
    stopped: Optional[str]
    failures: list[Failure]


@dataclass(frozen=True)
class CopyReport(Report):
    """What copying did, or with ``dry_run`` would do.

    Attributes:
        destinations: Each destination, in the order in which they were given.
        entries: Files, directories and links that were selected.
        read_files: Files that were read.
        read_bytes: Bytes that were read, once for all destinations.
        special: Pipes, sockets and devices, which were left out.
        undone: How much of what was asked for is not done: failures, what was kept with other
            content or lacks extended attributes, what was left out, destinations given up.
        dry_run: Whether nothing was done.
        failures: What could not be read.
        damages: Damage of packs that was found, as exceptions: files may be missing.
    """

    destinations: list[CopyDestination]
    entries: int
    read_files: int
    read_bytes: int
    special: list[str]
    undone: int
    dry_run: bool
    failures: list[Failure]
    damages: list[DamagedError]

    @property
    def ok(self) -> bool:
        """Whether all that was asked for is done, and no damage was found."""
        return self.undone == 0 and not self.damages


@dataclass(frozen=True)
class VerifyItem(Report):
    """What was found of a path.

    Attributes:
        tree: Which tree, by its position.
        key: The path in it.
        outcome: ``"matches"``, ``"mismatches"``, ``"missing"``, ``"extra"``, ``"unreadable"``, or
            ``"new"``: no list has it, and lists are made.
        kind: What it is, or should be where it is missing: ``"file"``, ``"symbolic link"``.
        size: Its length in bytes, where it is a file that was read and matches or is new.
        digests: Of its bytes, in hexadecimal by the names of hash functions, if they were read.
    """

    tree: int
    key: str
    outcome: str
    kind: str
    size: int
    digests: dict[str, str]


@dataclass(frozen=True)
class Mismatch(Report):
    """A path that is not as it should be.

    Attributes:
        key: The path.
        difference: ``"digest"``, ``"length"``, ``"content"``, ``"kind"``, ``"target"`` of a link,
            or ``"device"``.
        hash: The hash function, where digests differ.
        expected: What should be there, as text, where there is one: a digest, a length, a kind.
        found: What is there instead.
        offset: The first byte that differs from the tree that it was compared with.
        like_other: Whether the bytes were those of the tree that it was compared with, so that its
            list is wrong, or a read was.
        bad: Where its bad megabytes are, the first byte and the one after the last, where its list
            has a proof of it.
    """

    key: str
    difference: str
    hash: Optional[str]
    expected: Optional[str]
    found: Optional[str]
    offset: Optional[int]
    like_other: bool
    bad: list[tuple[int, int]]


@dataclass(frozen=True)
class Unreadable(Report):
    """A path that could not be read.

    Attributes:
        key: The path.
        offset: Where in the file, if that is known.
        error: Why.
        bad: Where its bad megabytes are, as for a `Mismatch`.
    """

    key: str
    offset: Optional[int]
    error: str
    bad: list[tuple[int, int]]


@dataclass(frozen=True)
class VerifiedTree(Report):
    """What was found of a tree. Every path counts once.

    Attributes:
        path: The tree.
        matching: Files that are as they should be; compared with another tree, links as well.
        matching_bytes: Bytes of them.
        directories: Directories that both trees have.
        new: Files that no list has, where lists are made.
        mismatching: What is there, and is not as it should be.
        missing: What should be there, and is not.
        extra: What is there, and nothing says that it should be.
        unreadable: What could not be read.
        read_bytes: Bytes that were read and hashed.
        direct_bytes: Bytes that were read past the page cache.
        cached_bytes: Bytes that were read through it.
        past_cache: Whether all bytes came from below the page cache; ``None`` where none were read,
            or it is not known, as of what an archive has compressed.
    """

    path: Path
    matching: int
    matching_bytes: int
    directories: int
    new: int
    mismatching: list[Mismatch]
    missing: list[str]
    extra: list[str]
    unreadable: list[Unreadable]
    read_bytes: int
    direct_bytes: int
    cached_bytes: int
    past_cache: Optional[bool]


@dataclass(frozen=True)
class ReadList(Report):
    """A list of checksums that was read.

    Attributes:
        tree: For which tree, by its position.
        path: The list.
        date_ns: When it was made, in nanoseconds since 1970: by its name, or its file.
        lines: Lines that were taken.
        bad_lines: Lines that could not be used, and whatever else is wrong with it.
        problems: The first thousand of these: the number of the line, or ``None``, and why.
        dos: Whether its paths were taken as those of Windows.
        future: Whether its date is still to come.
    """

    tree: int
    path: Path
    date_ns: int
    lines: int
    bad_lines: int
    problems: list[tuple[Optional[int], str]]
    dos: bool
    future: bool


@dataclass(frozen=True)
class MadeList(Report):
    """A list of checksums that was made.

    Attributes:
        tree: Of which tree, by its position.
        path: The list.
        hash: The hash function; ``None`` for an ASC MHL, which may have several.
        files: Files in it.
    """

    tree: int
    path: Path
    hash: Optional[str]
    files: int


@dataclass(frozen=True)
class VerifyReport(Report):
    """What verifying found.

    Attributes:
        trees: Each tree, in the order in which they were given.
        lists: The lists that were read.
        made: The lists that were made.
        removed: Lists that were made earlier, and removed because the new ones replace them.
        wrong: How much is not as it should be: paths, lines of lists, and all failures. Extras
            count unless ``allow_extra`` was given.
        failures: Without a path: trees of several that could not be opened or have nothing to
            verify with, lists of several that could not be opened, lists that could not be made. By
            the path of a file: its proof, which is damaged or could not be made.
        damages: Damage of packs that was met, as exceptions.
    """

    trees: list[VerifiedTree]
    lists: list[ReadList]
    made: list[MadeList]
    removed: list[Path]
    wrong: int
    failures: list[Failure]
    damages: list[DamagedError]

    @property
    def ok(self) -> bool:
        """Whether everything is as it should be."""
        return self.wrong == 0 and not self.damages


@dataclass(frozen=True)
class UnpackReport(Report):
    """What unpacking did.

    Attributes:
        files: Regular files written.
        directories: Directories made.
        symlinks: Symbolic links made.
        hard_links: Hard links made.
        bytes: Bytes of files written.
        unchanged: What was there already, with the same content.
        kept: What was there already with other content, and stayed as it was; directories that more
            may enter than was recorded.
        too_open: Which of these are such directories: ``overwrite="always"`` sets their modes.
        unset_xattrs: How many files, directories and links lack extended attributes that could not
            be set.
        foreign_xattrs: How many lack some of another system (``com.apple.quarantine``), which are
            none of these.
        complete: Whether what built the pack came to its end, or the archive ends as one does.
        failures: What could not be unpacked, damaged records included.
        damages: Damage that was found when the pack was opened, as exceptions: files may be
            missing.
    """

    files: int
    directories: int
    symlinks: int
    hard_links: int
    bytes: int
    unchanged: int
    kept: list[str]
    too_open: list[str]
    unset_xattrs: int
    foreign_xattrs: int
    complete: bool
    failures: list[Failure]
    damages: list[DamagedError]


@dataclass(frozen=True)
class RangeReport(Report):
    """What verifying a part of a file found.

    Attributes:
        path: The file.
        listed_in: The directory whose list has it.
        read_start: The first byte that was read: of the megabyte in which the part begins.
        read_end: The byte after the last one that was read.
        bad: Where what was read is not what the list says: the first byte of each range, and the
            one after its last.
        read_error: Why the first of these that cannot be read cannot, or ``None``.
        other_size: The length by the list, where the file has another, which is not ok then;
            else ``None``.
        older_list: Whether a newer list has the file without BLAKE3: it may have been changed
            since.
        ok: Whether all that was read is what the list says, and the file has its length.
    """

    path: Path
    listed_in: Path
    read_start: int
    read_end: int
    bad: list[tuple[int, int]]
    read_error: Optional[str]
    other_size: Optional[int]
    older_list: bool
    ok: bool


@dataclass(frozen=True)
class RepairedCopy(Report):
    """What was repaired of a destination.

    Attributes:
        path: The directory.
        matching: Files that were as their lists say.
        mended: Files of which blocks of 1 MiB were written in place: how many.
        cut: Files with bytes at the end that the list does not know: how many were cut off.
        replaced: Files that were replaced as a whole, or made.
        read_bytes: Bytes that were read of the good copy.
        failures: What is not as its list says, still.
    """

    path: Path
    matching: int
    mended: dict[str, int]
    cut: dict[str, int]
    replaced: list[str]
    read_bytes: int
    failures: list[Failure]


@dataclass(frozen=True)
class RepairedCopies(Report):
    """What was repaired.

    Attributes:
        destinations: Each destination, in the order in which they were given.
        damages: Damage of packs that was met, as exceptions.
    """

    destinations: list[RepairedCopy]
    damages: list[DamagedError]

    @property
    def ok(self) -> bool:
        """Whether everything that lists say is there now."""
        return not any(one.failures for one in self.destinations) and not self.damages
