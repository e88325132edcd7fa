# The types of the operations of the native half. The documentation is copied from it by
# `scripts/python stubs`.
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import PosixPath
from typing import Final, Union

from ._stook_sparse import DiskCache
from ._types import (
    CheckReport, CopyItem, CopyReport, PackTreeReport, RangeReport, RepairedCopies, RepairReport,
    UnpackReport, VerifyItem, VerifyReport,
)
from ._typing import Access, Attributes, CopyDurability, HashName, MhlHashName, Overwrite, Path, Progress

VERSION: Final[str]
DEBUG: Final[bool]
SETTLING_MAX: Final[int]

def pack_tree(
    sources: Union[Path, Sequence[Path], Sequence[PosixPath], Sequence[str]],
    pack: Path,
    *,
    group: Union[str, None] = None,
    group_by: Union[str, None] = None,
    delete: bool = False,
    max_delete: Union[int, None] = None,
    force: bool = False,
    move: bool = False,
    checksum: bool = False,
    xattrs: bool = True,
    include: Union[str, Sequence[str], None] = None,
    exclude: Union[str, Sequence[str], Callable[[str], object], None] = None,
    select: Union[Callable[[str], object], None] = None,
    attributes: Union[Callable[[str], Union[Attributes, None]], None] = None,
    as_file: bool = False,
    dry_run: bool = False,
    segment_bytes: Union[int, None] = None,
    threads: Union[int, None] = None,
    progress: Union[Callable[[int, int], object], bool, None] = None,
) -> PackTreeReport:
    """Packs trees of files, or what is in archives; run again, adds only what is new or changed.

    Keeps paths, modes, times, links, empty directories, extended attributes (access control lists
    among them) and, as root, owners. Links are never followed.

    Args:
        sources: A directory, or several in a list: then keys begin with the name of each. Or
            archives (tar, tar.gz, tar.zst, tar.xz, zip), by path or address (``https://…``,
            ``s3://…``), whose members become records as if they had been unpacked; not both
            together.
        pack: The pack: made if it is not there.
        group: The group to put everything into; else the default group.
        group_by: Instead, spreads over groups: ``"top"`` by the first directory, ``"hash:N"`` over
            N groups. Not for archives.
        delete: Whether records of files that are gone from the tree are deleted; with ``group`` or
            ``group_by``, in that group only. None is if that would be more than half of the files
            of one of its roots, or if files were moved into the pack.
        max_delete: With ``delete``: how many records may be deleted anyway.
        force: With ``delete``: however many records are deleted. Files also replace others
            that were moved into the pack from elsewhere, and may be the only copies.
        move: Whether what was packed is removed, when the pack was read back and holds the same;
            directories when they are empty. Not for archives, nor with ``delete``.
        checksum: Whether the bytes of every file are compared, whatever its times say. What is
            damaged in the pack is packed again.
        xattrs: Whether extended attributes are kept, access control lists among them. Which are
            not, because they cannot be read or are too long, is in ``lost_xattrs``.
        include: A pattern, or several: only what one of them matches is packed. As on the command
            line: ``"*.jpg"`` is a name anywhere, ``"/top"`` and ``"a/**"`` are paths, ``"tmp/"`` is
            a directory with all below it.
        exclude: A pattern, or several, of what is left out, directories with all that is in them.
            Or a callable, called with the path of everything that is found, relative to its root;
            what it says ``True`` to is left out.
        select: Called with the same paths, where they are included and not excluded; what it says
            ``False`` to is not packed. Directories are entered anyway: ``lambda path:
            path.endswith(".jpg")`` finds pictures anywhere.
        attributes: Called with the path of everything that is packed; gives a dict of values that
            go with the record, by name, as for ``Pack.put``, or ``None``. What is unchanged keeps
            what it has.
        as_file: Whether a source that is an archive, or a pack, is packed as what it is, one file
            or several.
        dry_run: Whether nothing is done: the report says what would be.
        segment_bytes: Segments of a new pack are sealed when they are this long; 4 GiB unless
            given.
        threads: Threads that walk and read; 128 unless given, or measured of the device.
        progress: Called now and then with the entries and bytes so far; with ``move``, those that
            are verified and removed are added. ``True`` shows a bar with tqdm.

    Returns:
        A `PackTreeReport`. What could not be read is in its ``failures``; the rest is packed.

    Raises:
        OSError: A source cannot be opened, or the pack cannot be written.
        stook.InvalidError: More records would have been deleted than may be, or the sources cannot
            be those that the pack was made from: nothing is packed then. Or nothing was selected,
            or a source is a pack, or there is too little room.
        stook.DamagedError: An archive is damaged where its members are listed.

    A pack that was made for this is removed again when ``select``, ``exclude``, ``attributes`` or
    ``progress`` raises, or nothing is selected.

    Examples:
        >>> import pathlib, stook
        >>> pathlib.Path("photos").mkdir()
        >>> size = pathlib.Path("photos/cat.jpg").write_bytes(b"...")
        >>> stook.pack_tree("photos", "photos.stook").files
        1
        >>> stook.Pack("photos.stook")["cat.jpg"]
        b'...'
    """
def unpack(
    pack: Path,
    target: Union[Path, None] = None,
    *,
    overwrite: Overwrite = "never",
    group: Union[str, list[str], None] = None,
    prefix: Union[str, bytes, None] = None,
    include: Union[str, Sequence[str], None] = None,
    exclude: Union[str, Sequence[str], Callable[[str], object], None] = None,
    select: Union[Callable[[str], object], None] = None,
    threads: Union[int, None] = None,
    xattrs: bool = True,
    force: bool = False,
    with_owner: bool = True,
    tar: Union[Path, None] = None,
    at: Union[datetime, str, float, int, None] = None,
    cache: Union[Path, DiskCache, None] = None,
    whole_file: bool = False,
    settings: Union[dict[str, str], None] = None,
    headers: Union[dict[str, str], None] = None,
    progress: Progress = None,
) -> UnpackReport:
    """Unpacks a pack, or a tar or zip archive, into a directory: every file is whole or absent, and
    nothing leads out of it.

    Args:
        pack: The pack, or the archive, which may be at an address: ``https://…/x.zip``,
            ``s3://bucket/x.tar``.
        target: The directory: made if it is not there.
        overwrite: Which files that are there are replaced: ``"never"``, those that are ``"older"``,
            those whose content is ``"different"``, or ``"always"`` all. What stays with other
            content is in ``kept``.
        group: Only this group of a pack, or these.
        prefix: Only paths that begin so.
        include: A pattern, or several: only paths that one of them matches, as
            ``stook unpack --include`` has them.
        exclude: A pattern, or several, of what is left out, directories with all that is in them.
            Or a callable, called with paths and those of directories above them: what it says
            ``True`` to is left out in the same way.
        select: Called with each path that is left; what it says ``False`` to is left out.
        threads: Threads that write small files; 8 unless given.
        xattrs: Whether extended attributes are set, or written to the tar, access control lists
            among them. How many files lack some, because the file system does not take them, is in
            ``unset_xattrs``. Those that grant rights are set only where root restores owners.
        force: Write what fits, even where there is less room than all of it needs. Of a tar:
            replace a file that is there even where something is missing in the new one.
        with_owner: Whether owners are restored; only root can.
        tar: Instead of ``target``: a pack is written as this tar, the same bytes for the same pack.
            A file that is there is replaced only by a tar of all that was asked for; else it stays,
            and is in ``kept``. ``overwrite``, ``threads`` and ``with_owner`` are for a target.
        at: The state of a pack at this time rather than the newest, as for `Pack`.
        cache: Of an archive that is an object: a directory in which what was fetched is kept for
            the next time, or a :class:`DiskCache`.
        whole_file: Whether an object whose server cannot send parts is read as a whole.
        settings: Settings of the object store by their names in the environment
            (``AWS_REGION``), which they override.
        headers: Further headers of requests to ``http://`` and ``https://`` addresses.
        progress: Called now and then with the records and bytes so far, on another thread. ``True``
            shows a bar with tqdm.

    Returns:
        An `UnpackReport`. What could not be unpacked is in its ``failures``.

    Raises:
        OSError: The target cannot be made, or reading the pack fails.
        stook.NotAPackError: What is at ``pack`` is neither a pack nor an archive.
        stook.RemoteError: An archive that is an object cannot be fetched.
        stook.InvalidError: Nothing matches what was asked for; a directory that was made for it
            is removed again. Or what is asked of an archive only packs have: groups, ``tar``,
            ``at``.
        stook.NoSuchStateError: History does not go back so far, or ``at`` is before the first
            record.

    Warns:
        stook.DamageWarning: Damage was found that is no failure of one path: ``damages`` lists it.

    Examples:
        >>> import stook
        >>> with stook.Pack("data.stook", "a") as pack:
        ...     pack.update({"a/1.jpg": b"x", "a/2.txt": b"yy"})
        >>> stook.unpack("data.stook", "out", include=["*.jpg"]).files
        1
    """
def copy(
    sources: Union[Path, Sequence[Path], Sequence[PosixPath], Sequence[str]],
    destination: Path,
    *,
    to: Union[Path, Sequence[Path], Sequence[PosixPath], Sequence[str], None] = None,
    overwrite: Overwrite = "never",
    checksum: bool = False,
    durability: CopyDurability = "batch",
    backup: Union[str, None] = None,
    mirror: bool = False,
    max_delete: Union[int, None] = None,
    link_dest: Union[Path, None] = None,
    include: Union[str, Sequence[str], None] = None,
    exclude: Union[str, Sequence[str], None] = None,
    files: Union[Path, Iterable[Path], Iterable[PosixPath], Iterable[str], None] = None,
    one_file_system: bool = False,
    specials: bool = False,
    xattrs: bool = True,
    with_owner: bool = True,
    hashes: Union[HashName, Sequence[HashName], None] = None,
    lists: Union[HashName, Sequence[HashName], None] = None,
    mhl: Union[MhlHashName, Sequence[MhlHashName], None] = None,
    proofs: bool = False,
    block_bytes: Union[int, None] = None,
    depth: Union[int, None] = None,
    jobs: Union[int, None] = None,
    access: Access = "auto",
    bytes_per_s: Union[int, None] = None,
    force: bool = False,
    read_back: bool = False,
    dry_run: bool = False,
    as_file: bool = False,
    at: Union[datetime, str, int, float, None] = None,
    cache: Union[Path, DiskCache, None] = None,
    whole_file: bool = False,
    settings: Union[dict[str, str], None] = None,
    headers: Union[dict[str, str], None] = None,
    items: Union[Callable[[CopyItem], object], None] = None,
    progress: Union[Callable[[int, int, int], object], bool, None] = None,
) -> CopyReport:
    """Copies files and trees to one directory or several; each file is read once, and whole or absent
    under its name, whatever happens.

    Run again, it skips what is there with the same length and time. One bad file, and a
    destination that is full or fails, stop only themselves.

    Args:
        sources: What is copied, or several in a list. What is in a directory goes into the
            destinations, and so does what is in a pack, or in an archive with two slashes after it
            (``"x.tar//"``, ``"s3://bucket/x.tar//photos"``); files, objects by their address, and
            each of several sources go there by name.
        destination: The directory to copy to: made if it is not there.
        to: One more directory, or several.
        overwrite: Which files that are there are replaced: ``"never"``, those that are ``"older"``,
            those whose content is ``"different"``, or ``"always"`` all. What stays with other
            content is in ``kept``.
        checksum: Whether bytes are compared where length and time are the same.
        durability: When files are on the medium: ``"batch"``, many at once, before any of them gets
            its name; ``"file"``, each by itself; ``"none"``, when the system writes them back.
        backup: What is replaced or deleted stays, under its name with this at the end: ``"~"``.
        mirror: Whether what only a destination has is deleted, once everything is copied. None is
            if that would be more than half of the files that were there.
        max_delete: With ``mirror``: how many files may be deleted anyway.
        link_dest: A directory with an earlier copy: files that it has unchanged become hard links.
        include: A pattern, or several: only paths that one of them matches, as ``stook copy
            --include`` has them.
        exclude: A pattern, or several, of what is left out, directories with all that is in them.
        files: Only these paths, relative to each source, with all that is in them.
        one_file_system: Whether what is mounted in a directory is left out.
        specials: Whether pipes, and by root devices, are made. Otherwise they are in ``special``.
        xattrs: Whether extended attributes are set, access control lists among them.
        with_owner: Whether owners are set; only root can.
        hashes: ``"xxh3"``, ``"xxh128"``, ``"xxh64"``, ``"blake3"``, ``"sha256"``, ``"sha1"``,
            ``"md5"``, ``"c4"``, or several, are computed of each file that is read; ``items`` gets
            them.
        lists: A list of checksums is written beside the copy, as ``sha256sum -c`` reads it, of this
            function, or one of each of several: those of ``hashes``.
        mhl: A list of ASC MHL is written at the end, with hashes of this function or of several:
            ``"xxh128"``, ``"c4"``, ``"md5"``, ``"sha1"``, ``"xxh3"``, ``"xxh64"``.
        proofs: Whether the proofs of files of more than 1 MiB are written beside a list of BLAKE3,
            which is written, too: with them `verify` names the megabytes of a file that are bad,
            and `repair_copy` reads only these.
        block_bytes: Length of one read or write of a large file: a multiple of 4 KiB.
        depth: Reads and writes of a large file in flight.
        jobs: Small files that are copied at once.
        access: Whether bytes go past the page cache: ``"direct"``, ``"cached"``, or ``"auto"``,
            those of large files that are not in it.
        bytes_per_s: Bytes a second that are read, at most: 4096 or more.
        force: Write what fits, even where there is less room than all of it needs; with ``mirror``,
            delete whatever is extra.
        read_back: Whether what was written is read again from the medium, and compared, before a
            mirror deletes anything. Files that were there already are not read: `verify` does that.
        dry_run: Whether nothing is done: ``items`` is called with what would be.
        as_file: Whether packs are copied as the files that they are.
        at: The state of a pack at this time rather than the newest, as for `Pack`.
        cache: Of archives and objects on servers: a directory in which what was fetched is kept for
            the next time, or a :class:`DiskCache`.
        whole_file: Whether an object whose server cannot send parts is read as a whole.
        settings: Settings of the object store by their names in the environment (``AWS_REGION``),
            which they override.
        headers: Further headers of requests to ``http://`` and ``https://`` addresses.
        items: Called with a `CopyItem` for each path and destination, on another thread; a file
            that was copied has its name by then. What it raises ends the copy.
        progress: Called now and then with the files and bytes so far and all bytes (0 until they
            are counted), on another thread. ``True`` shows a bar with tqdm.

    Returns:
        A `CopyReport`. What could not be copied is in its ``failures``, and in those of each of its
        ``destinations``.

    Raises:
        OSError: A source cannot be opened, a destination cannot be made, or has too little room.
        stook.RemoteError: A source on a server cannot be fetched.
        stook.InvalidError: Nothing matches what was asked for. Or what is refused before anything
            is made: a destination in what is copied, a file onto itself, two sources of one name.

    Warns:
        stook.DamageWarning: A pack or an archive among the sources is damaged.

    Examples:
        >>> import pathlib, stook
        >>> pathlib.Path("card").mkdir()
        >>> size = pathlib.Path("card/take").write_bytes(b"pictures")
        >>> report = stook.copy("card", "disk", to=["spare"])
        >>> report.ok, report.read_files, [one.files for one in report.destinations]
        (True, 1, [1, 1])
    """
def check(pack: Path, *, accept: bool = False, progress: Progress = None) -> CheckReport:
    """Checks what is left of a pack, also where it cannot be opened: by an older manifest, or by its
    segments alone.

    Where a `Pack` is open, `Pack.check` checks the state that it shows.

    Args:
        pack: The pack.
        accept: Whether a pack that is incomplete, and has no damage, is called complete as it is:
            for one whose sources are gone. Then nothing else may write to it meanwhile.
        progress: Called now and then with the bytes gone through and all there are, on another
            thread. ``True`` shows a bar with tqdm.

    Returns:
        A `CheckReport`. Damage is not an exception here; it is what the report is for.

    Raises:
        FileNotFoundError: There is nothing at ``pack``.
        stook.NotAPackError: What is at ``pack`` is no pack.

    Examples:
        >>> import stook
        >>> with stook.Pack("data.stook", "a") as pack:
        ...     pack["one"] = b"first"
        >>> stook.check("data.stook").ok
        True
    """
def repair(pack: Path, new: Path, *, progress: Progress = None) -> RepairReport:
    """Writes all that is whole and counts in a pack into a new one, in the order of the keys. The pack
    stays as it is.

    What cannot be read is copied into a directory ``<new>.quarantine``, with a report of where it
    was. Hard links of files that are lost go there, too, and are not in the new pack: each is
    reported as damage.

    Args:
        pack: The pack.
        new: The new pack. Nothing may be there.
        progress: Called now and then with the bytes gone through and all there are, on another
            thread. ``True`` shows a bar with tqdm. What it raises ends the repair, and nothing is
            left of it.

    Returns:
        A `RepairReport`.

    Raises:
        FileNotFoundError: There is nothing at ``pack``.
        stook.NotAPackError: What is at ``pack`` is no pack.
        stook.ExistsError: Something is at ``new``, or has the name of its quarantine.

    Examples:
        >>> import stook
        >>> with stook.Pack("data.stook", "a") as pack:
        ...     pack["one"] = b"first"
        >>> stook.repair("data.stook", "saved.stook").records
        1
    """
def verify(
    trees: Union[Path, Sequence[Path], Sequence[PosixPath], Sequence[str], None] = None,
    *,
    lists: Union[Path, Sequence[Path], Sequence[PosixPath], Sequence[str], None] = None,
    against: Union[Path, None] = None,
    make_lists: Union[HashName, Sequence[HashName], None] = None,
    mhl: Union[MhlHashName, Sequence[MhlHashName], None] = None,
    proofs: bool = False,
    accept: Union[Path, Sequence[Path], Sequence[PosixPath], Sequence[str], None] = None,
    cached: bool = False,
    allow_extra: bool = False,
    jobs: Union[int, None] = None,
    as_file: bool = False,
    at: Union[datetime, str, int, float, None] = None,
    cache: Union[Path, DiskCache, None] = None,
    whole_file: bool = False,
    settings: Union[dict[str, str], None] = None,
    headers: Union[dict[str, str], None] = None,
    items: Union[Callable[[VerifyItem], object], None] = None,
    progress: Union[Callable[[int, int, int], object], bool, None] = None,
) -> VerifyReport:
    """Verifies trees: whether their files have the bytes that lists of checksums, or another tree, say
    that they should have.

    Files are read past the page cache, so that the medium is verified and not the memory.

    Args:
        trees: A tree, or several in a list: directories, files, packs, archives with two slashes
            (``"x.tar//"``), objects by their address. ``None``: the directories that the lists are
            in.
        lists: A list of checksums, or several, for each tree. ``None``: the lists at the top of
            each tree (``SHA256SUMS``, ``*.sha256``, ``*.b3``, ``ascmhl/`` and others).
        against: A tree that each of the trees should be like. Kinds and targets of links are
            compared as well; modes, owners and times never are.
        make_lists: ``"sha256"`` or another hash function, or several: a list of each is written
            into each tree, of what is as it should be and of what no list has.
        mhl: The same as the next generation of an ASC MHL with this hash function, or several:
            ``"xxh128"``, ``"c4"``, ``"md5"``, ``"sha1"``, ``"xxh3"``, ``"xxh64"``.
        proofs: Whether the proofs of files of more than 1 MiB are written beside a list of BLAKE3,
            which is made then. With them the bad megabytes of a damaged file are in ``bad``.
        accept: A path in the only tree, or several, that were changed or deleted on purpose; of a
            directory all that is in it. The lists that are made have them as they are and, if
            nothing is wrong, replace those that were made here earlier (``removed``).
        cached: Whether files are read through the page cache.
        allow_extra: Whether what nothing says should be there is left out of ``wrong``.
        jobs: Threads that read and hash the files of one tree.
        as_file: Whether packs are verified as the files that they are.
        at: The state of packs at this time rather than the newest, as for `Pack`.
        cache: Of archives and objects on servers: a directory in which what was fetched is kept for
            the next time, or a :class:`DiskCache`.
        whole_file: Whether an object whose server cannot send parts is read as a whole.
        settings: Settings of the object store by their names in the environment (``AWS_REGION``),
            which they override.
        headers: Further headers of requests to ``http://`` and ``https://`` addresses.
        items: Called with a `VerifyItem` for each path, on another thread. What it raises ends the
            verification.
        progress: Called now and then with the files and bytes so far and all bytes (0 until they
            are counted), on another thread. ``True`` shows a bar with tqdm.

    Returns:
        A `VerifyReport`. What is wrong is in its ``trees``, and in its ``lists``.

    Raises:
        OSError: No tree or no list can be opened. One of several that cannot be is in ``failures``.
        stook.RemoteError: A tree on a server cannot be fetched.
        stook.InvalidError: There is nothing to verify with; a tree and a file are to be compared; a
            list is to be made where none can be.

    Warns:
        stook.DamageWarning: A pack or an archive among the trees is damaged.

    Examples:
        >>> import pathlib, stook
        >>> pathlib.Path("disk").mkdir()
        >>> size = pathlib.Path("disk/take").write_bytes(b"pictures")
        >>> made = stook.verify("disk", make_lists="sha256").made
        >>> report = stook.verify("disk")
        >>> report.ok, report.trees[0].matching, len(made)
        (True, 1, 1)
    """

def verify_range(
    path: Path, start: int = 0, end: Union[int, None] = None, *, cached: bool = False
) -> RangeReport:
    """Verifies a part of a file by the proof beside its list: the megabytes in which the part lies are
    read, and some hundred bytes of the proof, whatever the length of the file.

    The list is that of the directory of the file, or of one above it, with BLAKE3 and proofs:
    ``stook.verify(tree, proofs=True)`` and ``stook.copy(..., proofs=True)`` write them.

    Args:
        path: The file.
        start: From which byte on.
        end: Up to which byte, which is not part of it; to the end of the file where it is not said.
        cached: Whether the file is read through the page cache.

    Returns:
        A `RangeReport`: what was read, and which megabytes of it are bad.

    Raises:
        OSError: The file or the list cannot be read; the proof is damaged.
        stook.InvalidError: No list has the file with BLAKE3, or there is no proof of it.
        stook.OutOfBoundsError: The part reaches past the end of the file.

    Examples:
        >>> import pathlib, stook
        >>> pathlib.Path("disk").mkdir()
        >>> size = pathlib.Path("disk/film").write_bytes(bytes(5_000_000))
        >>> report = stook.verify("disk", proofs=True)
        >>> part = stook.verify_range("disk/film", 1_500_000, 1_600_000)
        >>> part.ok, part.read_start, part.read_end
        (True, 1048576, 2097152)
    """

def repair_copy(
    good: Path,
    destination: Path,
    *,
    to: Union[Path, Sequence[Path], Sequence[PosixPath], Sequence[str], None] = None,
    force: bool = False,
    dry_run: bool = False,
    as_file: bool = False,
    at: Union[datetime, str, int, float, None] = None,
    cache: Union[Path, DiskCache, None] = None,
    whole_file: bool = False,
    settings: Union[dict[str, str], None] = None,
    headers: Union[dict[str, str], None] = None,
    progress: Union[Callable[[int, int, int], object], bool, None] = None,
) -> RepairedCopies:
    """Repairs copies from a good one: what their own lists say and they do not have is copied.

    Of a file with a proof only the megabytes that are bad are read of the good copy, proven, and
    written where they belong. A file without one, and one that is gone, is replaced as a whole, if
    the good copy has the bytes that the list says. Files that no list has are not looked at.

    Args:
        good: The good copy: a directory, a pack, an archive with two slashes (``"x.tar//"``), a
            file, an object by its address.
        destination: The directory to repair, which has lists of its own.
        to: A further directory, or several in a list.
        force: Write the megabytes that the good copy has of a file, even if it lacks others.
        dry_run: Whether nothing is written: the report says what would be.
        as_file: Whether a pack is taken for the files that it is.
        at: The state of a pack at this time rather than the newest, as for `Pack`.
        cache: Of an archive or object on a server: a directory in which what was fetched is kept
            for the next time, or a :class:`DiskCache`.
        whole_file: Whether an object whose server cannot send parts is read as a whole.
        settings: Settings of the object store by their names in the environment (``AWS_REGION``),
            which they override.
        headers: Further headers of requests to ``http://`` and ``https://`` addresses.
        progress: Called now and then with the bytes so far and all bytes (0 until they are known)
            of what is being done, on another thread. ``True`` shows a bar with tqdm.

    Returns:
        A `RepairedCopies`. What could not be repaired is in ``failures`` of each of its
        ``destinations``.

    Raises:
        OSError: The good copy, a destination or a list cannot be opened.
        stook.RemoteError: The good copy is on a server and cannot be fetched.
        stook.InvalidError: A destination has no list of checksums.

    Warns:
        stook.DamageWarning: The good copy is a pack or an archive, and damaged.

    Examples:
        >>> import pathlib, stook
        >>> pathlib.Path("card").mkdir()
        >>> size = pathlib.Path("card/film").write_bytes(bytes(5_000_000))
        >>> report = stook.copy("card", "disk", proofs=True)
        >>> size = pathlib.Path("disk/film").write_bytes(bytes(4_999_999) + b"?")
        >>> (disk,) = stook.repair_copy("card", "disk").destinations
        >>> disk.mended, disk.read_bytes, stook.verify("disk").ok
        ({'film': 1}, 805696, True)
    """
