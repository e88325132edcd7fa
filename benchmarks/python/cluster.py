"""Reading a pack by Ray, beside Ray's own reader of the loose files.

Run it with `python benchmarks/python/cluster.py --work DIR --out DIR`, where Ray is installed. One
Ray runs on this machine for all rounds; the same files are read by both, caches dropped before
each, in turn.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

import numpy
import ray
import ray.data

import stook.ray
from harness import drop_caches, in_turn, need_root, rows, table, timed, write

OURS, THEIRS = "stook.ray.read_pack", "read_binary_files"


def build(work: Path, count: int, length: int) -> None:
    """Files of random bytes, a thousand in a directory, and a pack of them."""
    source = numpy.random.default_rng(1)
    for start in range(0, count, 1000):
        directory = work / "files" / f"{start // 1000:04}"
        directory.mkdir(parents=True)
        for number in range(start, min(count, start + 1000)):
            (directory / f"{number:06}").write_bytes(source.bytes(length))
    stook.pack_tree(work / "files", work / "pack.stook")


def total(dataset: ray.data.Dataset, column: str) -> int:
    """The bytes of all values."""
    return sum(sum(len(value) for value in batch[column]) for batch in dataset.iter_batches(batch_size=1024))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--count", type=int, default=50_000)
    parser.add_argument("--length", type=int, default=20_000, help="bytes of a file")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    need_root()
    work = arguments.work / "cluster"
    work.mkdir(parents=True)
    want = arguments.count * arguments.length

    def checked(found: int) -> None:
        if found != want:
            sys.exit(f"{found} bytes were read, not {want}")

    try:
        build(work, arguments.count, arguments.length)
        ray.init(include_dashboard=False, log_to_driver=False)
        ray.data.DataContext.get_current().enable_progress_bars = False
        systems = {
            OURS: lambda: timed(lambda: checked(total(stook.ray.read_pack(work / "pack.stook"), "value"))),
            THEIRS: lambda: timed(lambda: checked(total(ray.data.read_binary_files(str(work / "files")), "bytes"))),
        }
        # Processes start with the first task of each.
        total(stook.ray.read_pack(work / "pack.stook").limit(10), "value")
        reported = rows(in_turn(systems, arguments.rounds, drop_caches), OURS)
        ray.shutdown()
    finally:
        shutil.rmtree(work)
    table(f"{arguments.count} files of {arguments.length} bytes, cold", "records/s", reported, arguments.count, OURS)
    versions = {"python": sys.version.split()[0], "stook": stook.__version__, "ray": ray.__version__}
    write("cluster", arguments.out, {"versions": versions, "count": arguments.count, "length": arguments.length, "rows": reported})


if __name__ == "__main__":
    main()
