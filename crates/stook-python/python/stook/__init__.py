"""Data that lives in files, read and laid out at the speed of the storage under it.

``Pack`` keeps millions of small values in a few large files. ``pack_tree`` and ``unpack`` move trees of files in and out.
"""

from __future__ import annotations

import warnings as _warnings
from collections.abc import Mapping as _Mapping

from ._errors import (
    AddressError,
    ClosedError,
    DamagedError,
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
    RemoteError,
    RemoteNotFoundError,
    RemotePermissionError,
    ShortReadError,
    SourceChangedError,
    StoppedError,
    UnsupportedError,
)
from ._measure import BenchResult, Cell, Figures, MeasurementError, StudyResult, bench, study
from ._stook import DEBUG as _DEBUG
from ._stook import VERSION as __version__
from ._stook import Batch, Buffer, Items, Keys, Pack, Record, Scan, Split, pack_tree, unpack
from ._types import (
    CheckReport,
    CompactReport,
    Failure,
    PackInfo,
    PackTreeReport,
    SegmentInfo,
    UnpackReport,
)

from ._typing import Access, Attribute, Durability, Key, Mode, OnDamage, ScanOrder

_Mapping.register(Pack)

if _DEBUG:
    _warnings.warn(
        "stook is a debug build: many times slower than a release; build it with `maturin build --release`",
        RuntimeWarning,
        stacklevel=2,
    )

__all__ = [
    "Access",
    "AddressError",
    "Attribute",
    "Batch",
    "BenchResult",
    "Buffer",
    "Cell",
    "CheckReport",
    "ClosedError",
    "CompactReport",
    "DamagedError",
    "DiffersError",
    "Durability",
    "Error",
    "ExistsError",
    "Failure",
    "Figures",
    "ForkedError",
    "InvalidError",
    "Items",
    "Key",
    "Keys",
    "LimitError",
    "LockedError",
    "MeasurementError",
    "Mode",
    "NoSuchStateError",
    "NotAPackError",
    "NotHeldError",
    "OnDamage",
    "OutOfBoundsError",
    "Pack",
    "PackInfo",
    "PackTreeReport",
    "Record",
    "RemoteError",
    "RemoteNotFoundError",
    "RemotePermissionError",
    "Scan",
    "ScanOrder",
    "SegmentInfo",
    "ShortReadError",
    "SourceChangedError",
    "Split",
    "StoppedError",
    "StudyResult",
    "UnpackReport",
    "UnsupportedError",
    "__version__",
    "bench",
    "pack_tree",
    "study",
    "unpack",
]
