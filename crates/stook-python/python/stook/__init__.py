"""Data that lives in files, read and laid out at the speed of the storage under it.

``Pack`` keeps millions of small values in a few large files, ``Archive`` reads tar and zip archives where they lie.
``pack_tree`` and ``unpack`` move trees of files in and out.
``open`` reads a few percent of a huge or remote file in few requests, as a file that other libraries take; ``SparseFile``
does the same by range, ``SparseBuffer`` and ``SparseStore`` hold bytes with gaps in memory.
"""

from __future__ import annotations

import warnings as _warnings
from collections.abc import Mapping as _Mapping

from ._errors import (
    AddressError,
    ClosedError,
    DamagedError,
    DamageWarning,
    DiffersError,
    Error,
    ExistsError,
    ForkedError,
    InvalidError,
    LimitError,
    LockedError,
    NoSuchStateError,
    NotAPackError,
    NotHeldError,
    OutOfBoundsError,
    RecoveryWarning,
    RemoteError,
    RemoteNotFoundError,
    RemotePermissionError,
    ShortReadError,
    SourceChangedError,
    StoppedError,
    UnsupportedError,
)
from ._file import File, LocalFile, open
from ._measure import BenchResult, Cell, Figures, MeasurementError, StudyResult, bench, study
from ._sparse import DiskStatistics, Extent, Identity, SparseCounters, SparseStatistics
from ._stook import DEBUG as _DEBUG
from ._stook import VERSION as __version__
from ._stook import (
    Archive,
    Batch,
    Buffer,
    DiskCache,
    Follow,
    Items,
    Keys,
    Pack,
    Pin,
    Record,
    Scan,
    SparseBuffer,
    SparseFile,
    SparseStore,
    Split,
    Stat,
    check,
    pack_tree,
    repair,
    unpack,
)
from ._types import (
    ArchiveInfo,
    CheckReport,
    CompactReport,
    Failure,
    LoadReport,
    MoveReport,
    PackInfo,
    PackTreeReport,
    Quarantined,
    RepairReport,
    SegmentInfo,
    UnpackReport,
)

from ._typing import (
    Access,
    Attribute,
    Durability,
    Key,
    Kinds,
    Mode,
    OnDamage,
    Overwrite,
    ScanOrder,
    StudyName,
    Workload,
)

_Mapping.register(Pack)
_Mapping.register(SparseStore)

if _DEBUG:
    _warnings.warn(
        "stook is a debug build: many times slower than a release; build it with `maturin build --release`",
        RuntimeWarning,
        stacklevel=2,
    )

__all__ = [
    "Access",
    "AddressError",
    "Archive",
    "ArchiveInfo",
    "Attribute",
    "Batch",
    "BenchResult",
    "Buffer",
    "Cell",
    "CheckReport",
    "ClosedError",
    "CompactReport",
    "DamageWarning",
    "DamagedError",
    "DiffersError",
    "DiskCache",
    "DiskStatistics",
    "Durability",
    "Error",
    "ExistsError",
    "Extent",
    "Failure",
    "Figures",
    "File",
    "Follow",
    "ForkedError",
    "Identity",
    "InvalidError",
    "Items",
    "Key",
    "Keys",
    "Kinds",
    "LimitError",
    "LoadReport",
    "LocalFile",
    "LockedError",
    "MeasurementError",
    "Mode",
    "MoveReport",
    "NoSuchStateError",
    "NotAPackError",
    "NotHeldError",
    "OnDamage",
    "OutOfBoundsError",
    "Overwrite",
    "Pack",
    "PackInfo",
    "PackTreeReport",
    "Pin",
    "Quarantined",
    "Record",
    "RecoveryWarning",
    "RemoteError",
    "RemoteNotFoundError",
    "RemotePermissionError",
    "RepairReport",
    "Scan",
    "ScanOrder",
    "SegmentInfo",
    "ShortReadError",
    "SourceChangedError",
    "SparseBuffer",
    "SparseCounters",
    "SparseFile",
    "SparseStatistics",
    "SparseStore",
    "Split",
    "Stat",
    "StoppedError",
    "StudyName",
    "StudyResult",
    "UnpackReport",
    "UnsupportedError",
    "Workload",
    "__version__",
    "bench",
    "check",
    "open",
    "pack_tree",
    "repair",
    "study",
    "unpack",
]
