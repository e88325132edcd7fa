"""``stook.VirtualFile`` and ``stook.Shards``: what :mod:`stook.stitch` gives."""

from __future__ import annotations

import io
from collections.abc import Sequence
from operator import index
from typing import TYPE_CHECKING, Any, Union, overload

from stook._errors import InvalidError
from stook._file import File
from stook._types import Failure, StitchMember

if TYPE_CHECKING:
    from typing_extensions import Self

    from stook._stook import Sharded, Stitched
    from stook._typing import Path, Progress


class VirtualFile(File):
    """A file that does not exist: its bytes are those of other files, or computed.

    What the functions of :mod:`stook.stitch` give, or a file that a layout describes. It is read as
    other files are: it is seekable, binary and read-only, and may be used by any number of threads;
    :meth:`read_at` and :meth:`readinto_at` have no position that they share. Files are opened when
    their bytes are read. One that is not what it was when it was laid out raises
    :class:`SourceChangedError`, and old and new bytes are never mixed.

    Up to 64 MiB of what was read are held in memory.
    """

    def __init__(self, layout: Path, name: Union[str, bytes, None] = None) -> None:
        """Opens a file that a layout describes.

        Args:
            layout: Where the layout is, as :meth:`save` or ``stook stitch -o`` wrote it; or, as on
                the command line, two slashes and the name of the file after it.
            name: The name of the file in it; ``None`` where it has only one.

        Raises:
            FileNotFoundError: There is no such layout.
            stook.InvalidError: It is none; or it has no file of this name, or several where none is
                named.
        """
        from stook._stook import open_layout

        self._take(open_layout(layout, name))

    @classmethod
    def _over(cls, stitched: Stitched) -> Self:
        """A file over what was laid out."""
        file = cls.__new__(cls)
        file._take(stitched)
        return file

    def _take(self, stitched: Stitched) -> None:
        super().__init__(stitched.open())
        self._stitched = stitched
        self._layout = stitched.layout

    def members(self) -> list[StitchMember]:
        """What it is made of, in order: path, kind, and where its bytes are. Nothing is read.

        Raises:
            stook.InvalidError: It was opened from a layout, which has no members.
        """
        self._check()
        if self._layout is not None:
            raise InvalidError(f"a layout does not know members: stook.Archive({self.name!r}) lists them")
        return self._stitched.members()

    @property
    def failures(self) -> list[Failure]:
        """What could not be listed, and is not in it; what packs and archives should have and have
        not.
        """
        return self._stitched.failures

    @property
    def left_out(self) -> list[str]:
        """The paths of pipes, sockets and devices, which are not in it."""
        return self._stitched.left_out

    def write(self, path: Path, *, force: bool = False, progress: Progress = None) -> None:  # type: ignore[override]
        """Writes all of it into a file, which appears when it is whole and on the medium.

        Args:
            path: The file. One that is there is replaced only if nothing is missing in the new one.
            force: Write it even where there is not enough room, or where something is missing in it
                and a file is there.
            progress: Called now and then with the bytes so far and all bytes, on another thread.
                What it raises ends it, and no file appears. ``True`` shows a bar with tqdm.

        Raises:
            stook.ExistsError: Something is missing in it, and a file is there, which stays.
            stook.SourceChangedError: A file is not what it was when it was laid out.
            stook.InvalidError: It is made of the file that is there, among others.
            OSError: There is not enough room; something cannot be read or written.
            io.UnsupportedOperation: Bytes are given, as to a file that can be written.
        """
        self._check()
        if isinstance(path, (bytes, bytearray, memoryview)):
            raise io.UnsupportedOperation("it is read-only: write takes the path of the file that it writes, as a str")
        self._stitched.write(path, force=force, progress=progress)

    def save(self, path: Path, *, force: bool = False, progress: Progress = None) -> None:
        """Writes a layout, a short file that stands for it: bytes of files stay where they are.

        Such a layout opens as ``VirtualFile(path)``, in any process; ``stook ls`` and the other
        commands take it as an archive.

        Args:
            path: The layout. It names what lies beside or below it, and nothing else.
            force: Replace a file that is no layout, or where something is missing in the new one.
            progress: As for :meth:`write`.

        Raises:
            stook.InvalidError: What it is made of is no part of files below that directory; or
                there is another file.
            stook.LimitError: It would have more than 128 MiB of bytes that are in no file.
            stook.ExistsError, stook.SourceChangedError, OSError: As for :meth:`write`.
        """
        self._check()
        self._stitched.save(path, force=force, progress=progress)

    def __reduce__(self) -> tuple[Any, ...]:
        self._check()
        if self._layout is None:
            raise InvalidError(
                "a stitched file is given to other processes by its layout: save(path), and open VirtualFile(path) there"
            )
        return VirtualFile, self._layout, {"_position": self._position}

    def __repr__(self) -> str:
        return "<stook.VirtualFile, closed>" if self.closed else f"<stook.VirtualFile {self.name} of {self.size} bytes>"


class Shards(Sequence[VirtualFile]):
    """Shards of a data set, which do not exist: what :func:`stook.stitch.wds` gives.

    A sequence of :class:`VirtualFile`; each is made when it is taken out.
    """

    def __init__(self, sharded: Sharded) -> None:
        """Shards over what was laid out."""
        self._sharded = sharded

    def __len__(self) -> int:
        return len(self._sharded)

    @overload
    def __getitem__(self, number: int) -> VirtualFile: ...
    @overload
    def __getitem__(self, number: slice) -> list[VirtualFile]: ...
    def __getitem__(self, number: Union[int, slice]) -> Union[VirtualFile, list[VirtualFile]]:
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        at = index(number)
        at += len(self) if at < 0 else 0
        if not 0 <= at < len(self):
            raise IndexError(f"there are {len(self)} shards, and none with the number {number}")
        return VirtualFile._over(self._sharded.shard(at))

    @property
    def names(self) -> list[str]:
        """What they are called."""
        return self._sharded.names

    @property
    def size(self) -> int:
        """How many bytes all have."""
        return self._sharded.size

    @property
    def failures(self) -> list[Failure]:
        """What could not be listed, and is in none of them."""
        return self._sharded.failures

    @property
    def left_out(self) -> list[str]:
        """The paths of pipes, sockets and devices, which are in none of them."""
        return self._sharded.left_out

    def write(self, directory: Path, *, force: bool = False, progress: Progress = None) -> None:
        """Writes them into a directory; each appears when it is whole.

        Args:
            directory: The directory: made, or empty.
            force: Write them into a directory that is not empty, too, and replace files with their
                names.
            progress: As for :meth:`VirtualFile.write`. What it raises ends it, and what was written
                is removed unless it replaced something.

        Raises:
            stook.InvalidError: The directory is not empty; they are made of files in it that would
                be replaced.
            stook.SourceChangedError, OSError: As for :meth:`VirtualFile.write`.
        """
        self._sharded.write(directory, force=force, progress=progress)

    def save(self, path: Path, *, force: bool = False, progress: Progress = None) -> None:
        """Writes a layout that describes all of them; ``VirtualFile(path, name)`` opens one.

        The arguments are those of :meth:`VirtualFile.save`.
        """
        self._sharded.save(path, force=force, progress=progress)

    def __repr__(self) -> str:
        return f"<stook.Shards: {len(self)} of {self.size} bytes>"
