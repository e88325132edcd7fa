"""What can go wrong. Each exception is one of the standard library, too."""

from typing import Optional, Union


class Error(Exception):
    """The base of all exceptions of this package.

    What the operating system refuses is not among them: that is a plain ``OSError``
    (``FileNotFoundError``, ``PermissionError``, ...) with number and path.
    """


class DamagedError(Error, OSError):
    """Bytes are not what was written. None of them were returned.

    Attributes:
        file: The file that was hit; ``None`` for bytes in memory.
        offset: Where in the file, in bytes.
        key: The key of the record, where it can still be reported.
        what: What was found and what was expected.
    """

    file: Optional[str] = None
    offset: int = 0
    key: Union[str, int, None] = None
    what: str = ""


class DecodeError(Error):
    """The decoder of a loader raised; its ``__cause__`` is what.

    Attributes:
        key: The key of the record.
    """

    key: Union[str, int, None] = None


class DamageWarning(UserWarning):
    """A pack is damaged: records may be missing, or of an earlier state.

    Warned of when such a pack is opened. `Pack.damages` lists what was found, `Pack.check` looks
    for all. Also warned of when something that is mounted or served could not be read, for whatever
    reason: at the latest when it is closed; `Mount.failures` and `Server.failures` list it.
    ``warnings.simplefilter("error", stook.DamageWarning)`` makes an exception of it.
    """


class DecodeWarning(UserWarning):
    """With ``on_error="skip"`` a loader passed over records that could not be decoded.

    Warned of once, at the end of an epoch.
    """


class RecoveryWarning(UserWarning):
    """Something was found and mended when a pack was opened to be written.

    An unfinished end of a writer that died was cut off, a file that no generation names was set
    aside, a writer that was killed had to be waited for, or the clock is earlier than the last
    record. What was acknowledged is there.
    """


class NotAPackError(Error, OSError):
    """There is no pack at this place."""


class ExistsError(Error, FileExistsError):
    """There is something at this place, or of this name, already."""


class UnsupportedError(Error, ValueError):
    """Written by a newer version, or by something else."""


class LimitError(Error, ValueError):
    """Something is larger than the format allows."""


class InvalidError(Error, ValueError):
    """A value that makes no sense; the message says what was expected."""


class ClosedError(Error, ValueError):
    """Something that was closed is used."""


class NoSuchStateError(Error, LookupError):
    """A state of a pack that cannot be opened any more, or never was."""


class ForkedError(Error, RuntimeError):
    """A writer is used in a process that was forked from the one that opened it."""


class StoppedError(Error, OSError):
    """An earlier write failed; the pack must be opened again."""


class LockedError(Error, BlockingIOError):
    """Somebody else is writing; the message says who."""


class SourceChangedError(Error, OSError):
    """A source is no longer what it was when it was opened. Old and new bytes are never mixed."""


class ShortReadError(Error, EOFError, OSError):
    """A file ended before the bytes that it promised."""


class OutOfBoundsError(Error, ValueError):
    """A range reaches past the end."""


class RemoteError(Error, OSError):
    """A server did not give what was asked for, after all tries."""


class RemoteNotFoundError(RemoteError, FileNotFoundError):
    """A server has no such object."""


class RemotePermissionError(RemoteError, PermissionError):
    """A server refuses access."""


class AddressError(Error, ValueError):
    """An address that cannot be opened."""


class NotHeldError(Error, LookupError):
    """Bytes of a sparse buffer that are not held.

    Attributes:
        gap: The first range that is missing, as ``(start, end)``.
    """

    gap: tuple[int, int] = (0, 0)


class DiffersError(Error, ValueError):
    """Bytes that are written over others differ from them. Nothing was changed.

    Attributes:
        offset: The position of the first byte that differs.
        held: The byte that is held there.
    """

    offset: int = 0
    held: int = 0
