# The types of `Archive`. The documentation is copied from it by `scripts/python stubs`.
from collections.abc import Iterable
from pathlib import PosixPath
from types import TracebackType
from typing import TypeVar, Union, final, overload

from typing_extensions import Self

from ._file import File
from ._stook_items import Items, Keys, Stat
from ._stook_sparse import DiskCache
from ._types import ArchiveInfo, LoadReport
from ._typing import Key, Path, Progress, Ranges, SimpleProgress

_Default = TypeVar("_Default")

@final
class Archive:
    """A tar (plain, gzip, zstd, xz) or zip archive, read where it lies.

    Its keys are the paths of its members, without ``./`` before them and ``/`` after them; of
    members with one key the last counts. The first opening of a tar makes an index beside it
    (``x.tar.stook-index``), and so reads all of a compressed one. Each read of a compressed tar
    (`get`, `get_many`, ``archive[key]``) decompresses all of it: `get_many` takes any number of
    keys, and `pack_tree` makes a pack of it. Any number of threads may use it.

    Args:
        path: The archive, which may be at an address: ``https://…/x.zip``, ``s3://bucket/x.tar``.
            Its type is detected from its content, not its name.
        cache: Of an archive that is an object: a directory in which what was fetched is kept for
            the next time, or a :class:`DiskCache`.
        whole_file: Whether an object whose server cannot send parts is read as a whole.
        settings: Settings of the object store by their names in the environment
            (``AWS_REGION``), which they override.
        headers: Further headers of requests to ``http://`` and ``https://`` addresses.
        progress: Called now and then with the bytes gone through while an index is made, on another
            thread. ``True`` shows a bar with tqdm.

    Raises:
        FileNotFoundError: There is nothing at ``path``.
        stook.NotAPackError: What is at ``path`` is no archive.
        stook.RemoteError: An archive that is an object cannot be fetched.
        stook.InvalidError: It is a pack.
        stook.DamagedError: It is damaged, or was cut off, before its first member; or where the
            members of a zip are listed; or anywhere, if it is compressed as a whole.

    Warns:
        stook.RecoveryWarning: The index beside it was of no use, or cannot be kept.
        stook.DamageWarning: It is damaged after its first members, and only these are read; or it
            does not end as its format wants it, and something may have been cut off.

    Examples:
        >>> import pathlib, stook, zipfile
        >>> with zipfile.ZipFile("photos.zip", "w") as file:
        ...     file.writestr("2024/cat.jpg", b"...")
        >>> with stook.Archive("photos.zip") as archive:
        ...     list(archive), archive["2024/cat.jpg"], archive.stat("2024/cat.jpg").size
        (['2024/cat.jpg'], b'...', 3)
    """
    def __new__(
        cls,
        path: Path,
        *,
        cache: Union[Path, DiskCache, None] = None,
        whole_file: bool = False,
        settings: Union[dict[str, str], None] = None,
        headers: Union[dict[str, str], None] = None,
        progress: SimpleProgress = None,
    ) -> Self: ...
    @property
    def path(self) -> Union[PosixPath, str]:
        """Where the archive is: a path, or the address of an object."""
    @property
    def closed(self) -> bool:
        """Whether it was closed."""
    def __getitem__(self, key: Key, /) -> bytes: ...
    def __contains__(self, key: Key, /) -> bool: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Keys: ...
    @overload
    def get(self, key: Key, *, progress: Progress = None) -> Union[bytes, None]:
        """Gets the bytes of a member: of a hard link those of its file, of a symbolic link its target,
        of a directory none.

        Args:
            key: The key.
            default: What is given when there is no such member.
            progress: Called now and then with the members and bytes so far, on another thread. What
                it raises ends it. ``True`` shows a bar with tqdm.

        Returns:
            The bytes; of a zip and a compressed tar verified.

        Raises:
            stook.DamagedError: They are not what was written.
            stook.InvalidError: The member cannot be read: it is encrypted, or compressed in another
                way.
            stook.LimitError: It has more than 256 MiB of zeroes that are stored nowhere: `open` it.
        """
    @overload
    def get(self, key: Key, default: _Default, *, progress: Progress = None) -> Union[bytes, _Default]: ...
    @overload
    def get_many(self, keys: Iterable[Key], *, progress: Progress = None) -> list[Union[bytes, None]]:
        """Gets many members at once: of a compressed tar in one pass.

        Args:
            keys: The keys, in any order; a key may occur twice.
            default: What is given for keys without a member.
            progress: Called now and then with the members and bytes so far, on another thread. What
                it raises ends it. ``True`` shows a bar with tqdm.

        Returns:
            The bytes in the order of the keys.

        Raises:
            stook.DamagedError: The bytes of a member are not what was written.
            stook.InvalidError: A member cannot be read.
            stook.LimitError: A member has more than 256 MiB of zeroes that are stored nowhere.
        """
    @overload
    def get_many(
        self, keys: Iterable[Key], default: _Default, *, progress: Progress = None
    ) -> list[Union[bytes, _Default]]: ...
    def items(self, *, progress: Progress = None) -> Items[tuple[Union[str, int], bytes]]:
        """Goes through files and their bytes in the order in which they lie in the archive: of a
        compressed tar in one pass. One value at a time is in memory.

        Args:
            progress: Called now and then with the files and bytes so far, and with the last ones at
                the end; what it raises is raised from the iterator. ``True`` shows a bar with tqdm.

        Returns:
            An iterator over pairs of keys and values. Directories and symbolic links are left out.

        Raises:
            stook.DamagedError: A member is not what was written; from the iterator.
            stook.InvalidError: A member cannot be read; from the iterator.
            stook.LimitError: A member has more than 256 MiB of zeroes that are stored nowhere; from
                the iterator.

        Examples:
            >>> import stook, zipfile
            >>> with zipfile.ZipFile("two.zip", "w") as file:
            ...     file.writestr("b", b"1")
            ...     file.writestr("a", b"22")
            >>> list(stook.Archive("two.zip").items())
            [('b', b'1'), ('a', b'22')]
        """
    def read_many(self, key: Key, ranges: Ranges, *, progress: Progress = None) -> list[bytes]:
        """The bytes of many ranges of a member, in their order. Of one that is compressed, of any
        length, what is before them is decompressed, and not held: ranges that ascend take one pass.

        Args:
            key: The key.
            ranges: An iterable of ``(start, end)``.
            progress: As for `get`.

        Raises:
            KeyError: There is no such member.
            IsADirectoryError: It is a directory.
            stook.OutOfBoundsError: A range reaches past the end.
            stook.DamagedError: What was read on the way is not what was written.
            stook.InvalidError: The member cannot be read.

        Examples:
            >>> import stook, zipfile
            >>> with zipfile.ZipFile("digits.zip", "w", zipfile.ZIP_DEFLATED) as file:
            ...     file.writestr("digits", b"0123456789" * 1000)
            >>> with stook.Archive("digits.zip") as archive:
            ...     archive.read_many("digits", [(9_995, 10_000), (0, 3)])
            [b'56789', b'012']
        """
    def open(self, key: Key) -> File:
        """Opens a member as a file, seekable and read-only. Where its bytes lie in the archive as they
        are, only what is asked for is read, and what is stored nowhere of a sparse one is read as
        zeroes; a compressed one of up to 64 MiB is decompressed now, and held. Parts of a stored
        member are not verified: nothing vouches for them but that the archive is what it was.

        Args:
            key: The key.

        Returns:
            A `File`. It can be read after the archive was closed.

        Raises:
            KeyError: There is no such member.
            IsADirectoryError: It is a directory.
            stook.DamagedError: It is not what was written.
            stook.InvalidError: It cannot be read, or is compressed and longer than that:
                `read_many` reads ranges of it.

        Examples:
            >>> import stook, zipfile
            >>> with zipfile.ZipFile("digits.zip", "w") as file:
            ...     file.writestr("digits", b"0123456789")
            >>> with stook.Archive("digits.zip") as archive, archive.open("digits") as file:
            ...     file.read_at(7, 2)
            b'78'
        """
    def keys(
        self, *, prefix: Union[str, bytes, None] = None, start: Union[Key, None] = None, end: Union[Key, None] = None
    ) -> Keys:
        """Goes through keys in order, from the index; no member is read.

        Args:
            prefix: Only keys that begin with this.
            start: Only keys from this one on.
            end: Only keys before this one.

        Returns:
            An iterator over keys.
        """
    def stat(self, key: Key) -> Union[Stat, None]:
        """What is known of a member without reading it: kind, size, and mode, owner and time among its
        attributes.

        Args:
            key: The key.

        Returns:
            A `Stat`, or ``None`` where there is no such member.
        """
    def load(self, *, progress: Progress = None) -> LoadReport:
        """Reads every member to its end and verifies all checksums there are, as ``stook load`` does.

        Args:
            progress: Called now and then with the bytes so far and in all, on another thread.
                ``True`` shows a bar with tqdm.

        Returns:
            A `LoadReport`. A member that is damaged, or cannot be read, is in its ``failures``.

        Raises:
            stook.DamagedError: A compressed tar is damaged: nothing after that place can be read.
        """
    def info(self) -> ArchiveInfo:
        """What is known of the archive without reading members.

        Returns:
            An `ArchiveInfo`.
        """
    def close(self) -> None:
        """Closes the file. Closing twice does nothing."""
    def __enter__(self) -> Self: ...
    def __exit__(self, *exception: Union[type[BaseException], BaseException, TracebackType, None]) -> None: ...
