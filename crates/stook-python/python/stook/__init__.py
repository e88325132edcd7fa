"""Data that lives in files, read and laid out at the speed of the storage under it.

``Pack`` keeps millions of small values in a few large files, ``Archive`` reads tar and zip archives
where they lie. ``pack_tree`` and ``unpack`` move trees of files in and out.
``open`` reads a few percent of a huge or remote file in few requests, as a file that other
libraries take; ``SparseFile`` does the same by range, ``SparseBuffer`` and ``SparseStore`` hold
bytes with gaps in memory.
"""

import warnings as _warnings
from collections.abc import Mapping as _Mapping

from ._errors import (
    AddressError as AddressError,
    ClosedError as ClosedError,
    DamagedError as DamagedError,
    DamageWarning as DamageWarning,
    DiffersError as DiffersError,
    Error as Error,
    ExistsError as ExistsError,
    ForkedError as ForkedError,
    InvalidError as InvalidError,
    LimitError as LimitError,
    LockedError as LockedError,
    NoSuchStateError as NoSuchStateError,
    NotAPackError as NotAPackError,
    NotHeldError as NotHeldError,
    OutOfBoundsError as OutOfBoundsError,
    RecoveryWarning as RecoveryWarning,
    RemoteError as RemoteError,
    RemoteNotFoundError as RemoteNotFoundError,
    RemotePermissionError as RemotePermissionError,
    ShortReadError as ShortReadError,
    SourceChangedError as SourceChangedError,
    StoppedError as StoppedError,
    UnsupportedError as UnsupportedError,
)
from ._file import File as File
from ._file import LocalFile as LocalFile
from ._file import open as open
from ._measure import (
    BenchResult as BenchResult,
    Cell as Cell,
    Figures as Figures,
    MeasurementError as MeasurementError,
    StudyResult as StudyResult,
    bench as bench,
    study as study,
)
from ._sparse import (
    DiskStatistics as DiskStatistics,
    Extent as Extent,
    Identity as Identity,
    SparseCounters as SparseCounters,
    SparseStatistics as SparseStatistics,
)
from ._stook import DEBUG as _DEBUG
from ._stook import VERSION as _VERSION
from ._stook import (
    Archive as Archive,
    Batch as Batch,
    Buffer as Buffer,
    DiskCache as DiskCache,
    Follow as Follow,
    Items as Items,
    Keys as Keys,
    Pack as Pack,
    Pin as Pin,
    Record as Record,
    RecordFile as RecordFile,
    Scan as Scan,
    SparseBuffer as SparseBuffer,
    SparseFile as SparseFile,
    SparseStore as SparseStore,
    Split as Split,
    Stat as Stat,
    check as check,
    pack_tree as pack_tree,
    repair as repair,
    unpack as unpack,
)
from ._types import (
    ArchiveInfo as ArchiveInfo,
    CheckReport as CheckReport,
    CompactReport as CompactReport,
    DeleteReport as DeleteReport,
    Failure as Failure,
    LoadReport as LoadReport,
    MoveReport as MoveReport,
    PackInfo as PackInfo,
    PackTreeReport as PackTreeReport,
    Quarantined as Quarantined,
    RepairReport as RepairReport,
    SegmentInfo as SegmentInfo,
    TornTail as TornTail,
    UnpackReport as UnpackReport,
)

from ._typing import (
    Access as Access,
    Attribute as Attribute,
    Durability as Durability,
    Key as Key,
    Kinds as Kinds,
    Mode as Mode,
    OnDamage as OnDamage,
    Overwrite as Overwrite,
    ScanOrder as ScanOrder,
    StudyName as StudyName,
    Workload as Workload,
)

__version__ = _VERSION

_Mapping.register(Pack)
_Mapping.register(SparseStore)

if _DEBUG:
    _warnings.warn(
        "stook is a debug build: many times slower than a release; build it with `maturin build --release`",
        RuntimeWarning,
        stacklevel=2,
    )
