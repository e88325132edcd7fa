"""Data that lives in files, read and laid out at the speed of the storage under it.

``Pack`` keeps millions of small values in a few large files, ``Archive`` reads tar and zip archives
where they lie. ``pack_tree`` and ``unpack`` move trees of files in and out, ``loader`` gives
shuffled batches of a pack for training (``stook.torch`` has data sets of PyTorch; ``Stream`` is
under both), ``stook.ray`` and ``stook.dask`` read packs as tables. ``copy`` copies trees to several
places at once, and ``verify`` reads them back. ``stitch`` makes one file of many without
writing it, such as a tar of a tree; ``mount`` and ``serve`` show any of these to other programs.
``open`` reads a few percent of a huge or remote file in few requests, as a file that other
libraries take; ``SparseFile`` does the same by range, ``SparseBuffer`` and ``SparseStore`` hold
bytes with gaps in memory.
"""

import warnings as _warnings
from collections.abc import Mapping as _Mapping, MutableMapping as _MutableMapping

from ._errors import (
    AddressError, ClosedError, DamagedError, DamageWarning, DecodeError, DecodeWarning, DiffersError, Error, ExistsError,
    ForkedError, InvalidError, LimitError, LockedError, NoSuchStateError, NotAPackError,
    NotHeldError, OutOfBoundsError, RecoveryWarning, RemoteError, RemoteNotFoundError,
    RemotePermissionError, ShortReadError, SourceChangedError, StoppedError, UnsupportedError,
)
from . import stitch
from ._file import File, LocalFile, open
from ._loader import Loader, loader
from ._measure import BenchResult, Cell, Figures, MeasurementError, StudyResult, bench, study
from ._present import Mount, MountStatus, PresentError, Server, mount, serve
from ._sparse import DiskStatistics, Extent, Identity, SparseCounters, SparseStatistics
from ._stook import DEBUG as _DEBUG, VERSION as _VERSION
from ._stook import (
    Archive, Batch, Buffer, DiskCache, Follow, Items, Keys, Ordinals, Pack, Pin, Record, RecordFile, Scan,
    SparseBuffer, SparseFile, SparseStore, Split, Stat, Stream, StreamRecords, check, copy, pack_tree, repair, repair_copy,
    unpack, verify, verify_range,
)
from ._types import (
    ArchiveInfo, CheckReport, CompactReport, CopyDestination, CopyItem, CopyReport, DeleteReport,
    Failure, LoadReport, MadeList, Mismatch, MoveReport, PackInfo, PackTreeReport, Quarantined,
    RangeReport, ReadList, RepairedCopies, RepairedCopy, RepairReport, SegmentInfo, StitchMember, TornTail, UnpackReport, Unreadable, VerifiedTree,
    VerifyItem, VerifyReport,
)

from ._typing import (
    Access, Attribute, CopyDurability, Durability, HashName, Key, Kinds, MhlHashName, Mode, OnDamage,
    Overwrite, ScanOrder, StudyName, Workload,
)
from ._views import ItemsView, KeysView, ValuesView
from ._virtual import Shards, VirtualFile

__all__ = [
    "Access", "AddressError", "Archive", "ArchiveInfo", "Attribute", "Batch", "bench",
    "BenchResult", "Buffer", "Cell", "check", "CheckReport", "ClosedError", "CompactReport",
    "copy", "CopyDestination", "CopyDurability", "CopyItem", "CopyReport",
    "DamagedError", "DamageWarning", "DecodeError", "DecodeWarning", "DeleteReport", "DiffersError", "DiskCache", "DiskStatistics",
    "Durability", "Error", "ExistsError", "Extent", "Failure", "Figures", "File", "Follow",
    "ForkedError", "HashName", "Identity", "InvalidError", "Items", "ItemsView", "Key", "Keys", "KeysView", "Kinds",
    "LimitError", "loader", "Loader", "LoadReport", "LocalFile", "LockedError", "MadeList", "MeasurementError",
    "MhlHashName",
    "Mismatch", "Mode", "mount", "Mount", "MountStatus", "MoveReport",
    "NoSuchStateError", "NotAPackError", "NotHeldError", "OnDamage", "open", "Ordinals", "OutOfBoundsError",
    "Overwrite", "Pack", "pack_tree", "PackInfo", "PackTreeReport", "Pin", "PresentError", "Quarantined", "RangeReport", "ReadList",
    "Record",
    "RecordFile", "RecoveryWarning", "RemoteError", "RemoteNotFoundError", "RemotePermissionError",
    "repair", "repair_copy", "RepairedCopies", "RepairedCopy", "RepairReport", "Scan", "ScanOrder", "SegmentInfo", "serve", "Server", "Shards", "ShortReadError",
    "SourceChangedError", "SparseBuffer", "SparseCounters", "SparseFile", "SparseStatistics",
    "SparseStore", "Split", "Stat", "stitch", "StitchMember", "StoppedError", "Stream", "StreamRecords", "study",
    "StudyName", "StudyResult", "TornTail", "unpack", "UnpackReport", "Unreadable", "UnsupportedError", "ValuesView",
    "VerifiedTree", "verify",
    "verify_range", "VerifyItem", "VerifyReport", "VirtualFile", "Workload",
]

__version__ = _VERSION

_MutableMapping.register(Pack)
_Mapping.register(SparseStore)

# What is public is called by the names by which it is imported, in messages and pickles, too.
for _name in __all__:
    if str(getattr(globals()[_name], "__module__", "")).startswith(("stook._", "_stook")):
        globals()[_name].__module__ = __name__
del _name

if _DEBUG:
    _warnings.warn(
        "stook is a debug build: many times slower than a release; build it with `maturin build --release`",
        RuntimeWarning,
        stacklevel=2,
    )
