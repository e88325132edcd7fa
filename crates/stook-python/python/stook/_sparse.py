"""Reports about sparse files."""

from dataclasses import dataclass
from typing import Optional

from ._html import Report


@dataclass(frozen=True)
class Extent(Report):
    """Bytes that are held without a gap."""

    #: The first position.
    start: int
    #: The position after the last.
    end: int
    #: In how many segments they are held.
    segments: int
    #: The latest touch of any of them: the count at the time.
    last_touch: int


@dataclass(frozen=True)
class SparseCounters(Report):
    """What was done to a sparse buffer since it was made; kept in its serialised form.

    Times are nanoseconds since 1970, by a clock that moves a few hundred times a second. Operations
    on less than 1 KiB note it every 16th time only, so a time may be that of an operation up to 15
    before.
    """

    #: Reads that succeeded.
    reads: int
    #: Bytes that they gave.
    read_bytes: int
    #: Writes that succeeded.
    writes: int
    #: Bytes that they were given, whether they were held already or not.
    written_bytes: int
    #: Segments that were erased, wholly or in part.
    erased_segments: int
    #: Bytes that were erased.
    erased_bytes: int
    #: Segments that were evicted, wholly or in part.
    evicted_segments: int
    #: Bytes that were evicted.
    evicted_bytes: int
    #: Time of the last read.
    last_read_ns: Optional[int]
    #: Time of the last write.
    last_write_ns: Optional[int]


@dataclass(frozen=True)
class SparseStatistics(Report):
    """What was asked of a sparse file, and what it fetched."""

    #: Reads.
    reads: int = 0
    #: Reads for which everything was there.
    hits: int = 0
    #: Reads that had to wait: for the disk, or for a request, their own or another's.
    misses: int = 0
    #: Bytes of all reads, bytes that were read twice counted twice.
    asked_bytes: int = 0
    #: Requests, as they were planned; those that were tried again count once, and opening does not
    #: count. Of what was read as a whole when it was opened (``whole_file=True``), the requests for
    #: that, every try counted; reads make no more.
    requests: int = 0
    #: Bytes of all requests.
    fetched_bytes: int = 0
    #: Bytes that were read from the cache on disk and verified, instead of being fetched again.
    from_disk_bytes: int = 0
    #: Bytes that were evicted from memory.
    evicted_bytes: int = 0
    #: Failures of the cache on disk, of this file and of all others in it: operations that were
    #: refused, ranges that were damaged. No read fails for it.
    disk_failures: int = 0
    #: What was refused first.
    disk_failure: Optional[str] = None
    #: Why the cache on disk keeps less than what is fetched: nothing proves that the source will be
    #: the same the next time, or the budget is too small. ``None`` where neither is so.
    disk_remark: Optional[str] = None
    #: Half of the requests took at most this long, nanoseconds; ``None`` while there was none.
    latency_p50_ns: Optional[int] = None
    #: 99% of the requests took at most this long, nanoseconds.
    latency_p99_ns: Optional[int] = None
    #: The longest request, nanoseconds.
    latency_max_ns: Optional[int] = None

    @property
    def amplification(self) -> Optional[float]:
        """Bytes fetched for each byte asked for; ``None`` while nothing was."""
        return self.fetched_bytes / self.asked_bytes if self.asked_bytes else None


@dataclass(frozen=True)
class DiskStatistics(Report):
    """What was done with a cache on disk, in this process."""

    #: Bytes that were read and verified.
    read_bytes: int
    #: Bytes that were written.
    written_bytes: int
    #: Bytes of the disk that were given back, to keep the budget.
    evicted_bytes: int
    #: Bytes that were to be kept, and had no place in the budget.
    unkept_bytes: int
    #: Ranges and records of an index that were not what their checksums say; they are fetched
    #: again.
    damaged_ranges: int
    #: Entries that were thrown away: of another state of their source, of another version, or
    #: damaged.
    discarded_entries: int
    #: Operations that failed: a full disk, a directory that may only be read. Reads continue
    #: without the disk.
    failures: int
    #: What the first of them was.
    first_failure: Optional[str]


@dataclass(frozen=True)
class Identity(Report):
    """What distinguishes one state of a file or an object from another, as far as it is known."""

    #: Its length, in bytes.
    size: int
    #: What a server calls this state, quotes and a ``W/`` included.
    etag: Optional[str] = None
    #: The version of an object, on servers that keep several.
    version: Optional[str] = None
    #: When it was modified, nanoseconds since 1970.
    modified_ns: Optional[int] = None
    #: When the inode was changed, nanoseconds since 1970.
    changed_ns: Optional[int] = None
    #: The number of the inode.
    inode: Optional[int] = None
    #: The number of the device.
    device: Optional[int] = None
