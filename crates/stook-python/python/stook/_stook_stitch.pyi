# The types of `stook.stitch`. The documentation is copied from it by `scripts/python stubs`.
from collections.abc import Sequence
from datetime import datetime
from pathlib import PosixPath
from typing import Union, final

from ._stook_sparse import DiskCache, SparseFile
from ._types import Failure, StitchMember
from ._typing import Path, Progress, SimpleProgress
from ._virtual import Shards, VirtualFile

def tar(
    trees: Union[Path, Sequence[Path], Sequence[PosixPath], Sequence[str]],
    *,
    deterministic: bool = False,
    target: Union[Path, None] = None,
    at: Union[datetime, str, float, int, None] = None,
    cache: Union[Path, DiskCache, None] = None,
    whole_file: bool = False,
    settings: Union[dict[str, str], None] = None,
    headers: Union[dict[str, str], None] = None,
    progress: SimpleProgress = None,
) -> VirtualFile:
    """A tar of trees, without writing it: a file that is read as if it were there.

    Headers are computed when they are read, and files are opened when their bytes are. Names that
    are long or not ASCII, and sizes from 8 GiB on, are pax records. The names of a file after the
    first are hard links.

    Args:
        trees: A directory, a file, a pack, an archive with two slashes (``"x.tar//"``) or an
            object; or several in a list. What is in the only one is at the top of the archive;
            several are in it under their names, and a file has its name.
        deterministic: Whether times and owners are left out: the same files give the same bytes on
            every machine, those of GNU tar.
        target: Where it will be written: a file that is there is not in it.
        at: The state of packs at this time rather than the newest, as for `Pack`.
        cache: Of archives and objects on servers: a directory in which what was fetched is kept for
            the next time, or a :class:`DiskCache`.
        whole_file: Whether an object whose server cannot send parts is read as a whole.
        settings: Settings of the object store by their names in the environment (``AWS_REGION``),
            which they override.
        headers: Further headers of requests to ``http://`` and ``https://`` addresses.
        progress: Called now and then with the members that were listed so far, on another thread.
            ``True`` shows a bar with tqdm.

    Returns:
        A `VirtualFile`. What could not be listed, and is not in it, is in its ``failures``, and
        pipes, sockets and devices are in its ``left_out``.

    Raises:
        OSError: A tree cannot be opened or listed.
        stook.RemoteError: A tree on a server cannot be fetched.
        stook.InvalidError: Two trees have something with one path; ``target`` is one of the trees.

    Warns:
        stook.DamageWarning: A pack or an archive among the trees is damaged.

    Examples:
        >>> import pathlib, stook, tarfile
        >>> pathlib.Path("cards").mkdir()
        >>> size = pathlib.Path("cards/note").write_bytes(b"a note")
        >>> with stook.stitch.tar("cards") as file, tarfile.open(fileobj=file) as tar:
        ...     tar.getnames(), file.size
        (['note'], 10240)
    """
def zip(
    trees: Union[Path, Sequence[Path], Sequence[PosixPath], Sequence[str]],
    *,
    deterministic: bool = False,
    target: Union[Path, None] = None,
    at: Union[datetime, str, float, int, None] = None,
    cache: Union[Path, DiskCache, None] = None,
    whole_file: bool = False,
    settings: Union[dict[str, str], None] = None,
    headers: Union[dict[str, str], None] = None,
    progress: SimpleProgress = None,
) -> VirtualFile:
    """A zip of trees, without writing it: a file that is read as if it were there.

    Members are stored. The CRC-32 of files are computed where the bytes pass on their way from the
    front; who reads the directory at the end first, as `zipfile` does, has all files read once for
    it. Each name of a file is a file of its own.

    Args:
        trees: As for `tar`.
        deterministic: Whether times are left out: the same files give the same bytes on every
            machine.
        target, at, cache, whole_file, settings, headers, progress: As for `tar`.

    Returns:
        A `VirtualFile`.

    Raises:
        OSError, stook.RemoteError, stook.InvalidError: As for `tar`.

    Examples:
        >>> import pathlib, stook, zipfile
        >>> pathlib.Path("cards").mkdir()
        >>> size = pathlib.Path("cards/note").write_bytes(b"a note")
        >>> with stook.stitch.zip("cards") as file, zipfile.ZipFile(file) as zip:
        ...     zip.namelist(), zip.read("note")
        (['note'], b'a note')
    """
def raw(
    trees: Union[Path, Sequence[Path], Sequence[PosixPath], Sequence[str]],
    *,
    target: Union[Path, None] = None,
    at: Union[datetime, str, float, int, None] = None,
    cache: Union[Path, DiskCache, None] = None,
    whole_file: bool = False,
    settings: Union[dict[str, str], None] = None,
    headers: Union[dict[str, str], None] = None,
    progress: SimpleProgress = None,
) -> VirtualFile:
    """Files one after another, without writing them, as ``cat`` does.

    Args:
        trees: Files in the order in which they are named, and those of directories in the order of
            their paths; else as for `tar`.
        target, at, cache, whole_file, settings, headers, progress: As for `tar`.

    Returns:
        A `VirtualFile`.

    Raises:
        stook.InvalidError: A tree has a link.
        OSError, stook.RemoteError: As for `tar`.

    Examples:
        >>> import pathlib, stook
        >>> sizes = [pathlib.Path(name).write_text(name) for name in ("one", "two")]
        >>> stook.stitch.raw(["one", "two"]).read()
        b'onetwo'
    """
def afs(
    trees: Union[Path, Sequence[Path], Sequence[PosixPath], Sequence[str]],
    *,
    without_names: bool = False,
    target: Union[Path, None] = None,
    at: Union[datetime, str, float, int, None] = None,
    cache: Union[Path, DiskCache, None] = None,
    whole_file: bool = False,
    settings: Union[dict[str, str], None] = None,
    headers: Union[dict[str, str], None] = None,
    progress: SimpleProgress = None,
) -> VirtualFile:
    """An AFS, an archive of games, of the files of trees, without writing it.

    Args:
        trees: As for `tar`. The paths of files are the names of members, of 32 bytes at most.
        without_names: Whether names and times are left out: members have numbers only.
        target, at, cache, whole_file, settings, headers, progress: As for `tar`.

    Returns:
        A `VirtualFile`.

    Raises:
        stook.InvalidError: A tree has a link, or what has no place in an AFS.
        OSError, stook.RemoteError: As for `tar`.
    """
def safetensors(
    trees: Union[Path, Sequence[Path], Sequence[PosixPath], Sequence[str]],
    *,
    target: Union[Path, None] = None,
    at: Union[datetime, str, float, int, None] = None,
    cache: Union[Path, DiskCache, None] = None,
    whole_file: bool = False,
    settings: Union[dict[str, str], None] = None,
    headers: Union[dict[str, str], None] = None,
    progress: SimpleProgress = None,
) -> VirtualFile:
    """Shards of tensors as one file, without writing it.

    Args:
        trees: As for `tar`; every file of them is a shard. Their headers are read now.
        target, at, cache, whole_file, settings, headers, progress: As for `tar`.

    Returns:
        A `VirtualFile`.

    Raises:
        stook.InvalidError: A file is no shard, or damaged; two have one tensor.
        OSError, stook.RemoteError: As for `tar`.
    """
def wds(
    trees: Union[Path, Sequence[Path], Sequence[PosixPath], Sequence[str]],
    *,
    shard_bytes: Union[int, None] = None,
    prefix: str = "",
    deterministic: bool = False,
    target: Union[Path, None] = None,
    at: Union[datetime, str, float, int, None] = None,
    cache: Union[Path, DiskCache, None] = None,
    whole_file: bool = False,
    settings: Union[dict[str, str], None] = None,
    headers: Union[dict[str, str], None] = None,
    progress: SimpleProgress = None,
) -> Shards:
    """Shards of WebDataset, without writing them: tars in which the files of a sample stand together.

    A sample is the files with the same path up to the first dot in their names. Samples are in the
    order of their paths.

    Args:
        trees: As for `tar`.
        shard_bytes: How long a shard is at most, unless it has one sample. ``None``: all samples
            are in one.
        prefix: What the names of shards begin with, before the number.
        deterministic, target, at, cache, whole_file, settings, headers, progress: As for `tar`.

    Returns:
        `Shards`: a sequence of `VirtualFile`, which are called ``000000.tar`` and so on.

    Raises:
        stook.InvalidError: A tree has a link, or there is no file in them.
        OSError, stook.RemoteError: As for `tar`.

    Examples:
        >>> import pathlib, stook
        >>> pathlib.Path("set").mkdir()
        >>> for name in ("a.jpg", "a.txt", "b.jpg", "b.txt"):
        ...     size = pathlib.Path("set", name).write_bytes(bytes(5000))
        >>> shards = stook.stitch.wds("set", shard_bytes=30_000)
        >>> [[member.key for member in shard.members()] for shard in shards]
        [['a.jpg', 'a.txt'], ['b.jpg', 'b.txt']]
    """
def patch(
    archive: Path,
    folders: Union[Path, Sequence[Path], Sequence[PosixPath], Sequence[str]],
    *,
    ignore_case: bool = False,
    target: Union[Path, None] = None,
    at: Union[datetime, str, float, int, None] = None,
    cache: Union[Path, DiskCache, None] = None,
    whole_file: bool = False,
    settings: Union[dict[str, str], None] = None,
    headers: Union[dict[str, str], None] = None,
    progress: SimpleProgress = None,
) -> VirtualFile:
    """A tar, a zip or an AFS with members replaced, added and deleted, without writing it.

    Bytes outside what changes are those of the archive, exactly. A file replaces the member with
    its path below a folder; ``NAME.del`` deletes the member ``NAME``, and what is below it; other
    files are added. In an AFS ``00012_any-name`` is member 12.

    Args:
        archive: The tar, zip or AFS; it stays as it is. It may be an object, or a member of an
            archive (``"x.tar//game.zip"``).
        folders: A folder with what changes, or several, of which a later one counts more:
            directories, packs, archives with two slashes.
        ignore_case: Whether names that differ only in case are one.
        target: Where it will be written, which is no change then.
        at, cache, whole_file, settings, headers, progress: As for `tar`.

    Returns:
        A `VirtualFile`.

    Raises:
        stook.InvalidError: A change cannot be made: nothing has the name that is to be deleted, a
            link, a file where the archive has a directory. Or the archive is compressed as a whole.
        stook.DamagedError: The archive is damaged.
        OSError, stook.RemoteError: As for `tar`.

    Examples:
        >>> import pathlib, stook, zipfile
        >>> with zipfile.ZipFile("game.zip", "w") as file:
        ...     file.writestr("a", b"old")
        ...     file.writestr("b", b"stays")
        >>> pathlib.Path("changes").mkdir()
        >>> size = pathlib.Path("changes/a").write_bytes(b"new")
        >>> with stook.stitch.patch("game.zip", "changes") as file, zipfile.ZipFile(file) as zip:
        ...     zip.read("a"), zip.read("b")
        (b'new', b'stays')
    """
def open_layout(layout: Path, name: Union[str, bytes, None] = None) -> Stitched:
    """Opens a file that a layout describes, as `VirtualFile` does."""

@final
class Stitched:
    """A file that was stitched together: what a `VirtualFile` reads from."""
    @property
    def failures(self) -> list[Failure]:
        """What could not be listed, and what packs and archives should have and have not."""
    @property
    def left_out(self) -> list[str]:
        """The paths of pipes, sockets and devices, which no archive holds."""
    @property
    def layout(self) -> Union[tuple[str, Union[str, None]], None]:
        """The path of the layout that it was opened from, and its name there if one was given."""
    def open(self) -> SparseFile:
        """What reads its bytes."""
    def members(self) -> list[StitchMember]:
        """Its members, as ``stook stitch --list`` shows them: path, kind, offset and size."""
    def write(self, path: Path, *, force: bool = False, progress: Progress = None) -> None:
        """Writes its bytes into a file."""
    def save(self, path: Path, *, force: bool = False, progress: Progress = None) -> None:
        """Writes a layout that describes it."""

@final
class Sharded:
    """Shards that were stitched together: what `Shards` are made of."""
    @property
    def size(self) -> int:
        """How many bytes all have."""
    @property
    def failures(self) -> list[Failure]:
        """What could not be listed, and what packs and archives should have and have not."""
    @property
    def left_out(self) -> list[str]:
        """The paths of pipes, sockets and devices, which no archive holds."""
    @property
    def names(self) -> list[str]:
        """What they are called."""
    def __len__(self) -> int: ...
    def shard(self, number: int) -> Stitched:
        """The shard with a number."""
    def write(self, directory: Path, *, force: bool = False, progress: Progress = None) -> None:
        """Writes them into a directory."""
    def save(self, path: Path, *, force: bool = False, progress: Progress = None) -> None:
        """Writes a layout that describes them."""
