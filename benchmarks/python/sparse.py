"""Sparse files from Python beside svfsc and the caches of fsspec.

Run it with `python benchmarks/python/sparse.py --out DIR`.

Everything is done by this process, in turn. The work with svfsc is that of its published study; the
caches of fsspec replay a trace of reads, and what counts is how often and how much they ask.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path
from typing import Any, Callable

import svfsc
from fsspec.caching import BackgroundBlockCache, BlockCache, BytesCache, FirstChunkCache, ReadAheadCache

import stook
from harness import in_turn, rows, table, versions, write
from stook.compat import svfsc as compat
from stook.fsspec import StookCache

MIB = 1 << 20
ROUNDS = 7
NEED_BLOCKS, NEED_STRIDE, NEED_LEN = 238_310, 800, 256
TRACE = Path(__file__).parents[2] / "crates/stook/tests/sparse/file/traces/cmu-1.csv"


def ours() -> Any:
    return stook.SparseBuffer()


def theirs() -> Any:
    return svfsc.cSVF("study")


def as_theirs() -> Any:
    return compat.cSVF("study")


def read(make: Callable[[], Any], size: int) -> float:
    file = make()
    file.write(0, bytes(MIB))
    began = time.perf_counter()
    for at in range(0, MIB, size):
        file.read(at, size)
    return time.perf_counter() - began


def write_blocks(make: Callable[[], Any], size: int, gap: int) -> float:
    file, block, stride = make(), bytes(number % 256 for number in range(size)), size + gap
    began = time.perf_counter()
    for number in range(MIB // size):
        file.write(number * stride, block)
    return time.perf_counter() - began


def need(make: Callable[[], Any], size: int) -> float:
    file, block = make(), bytes(NEED_LEN)
    for number in range(NEED_BLOCKS):
        file.write(number * NEED_STRIDE, block)
    began = time.perf_counter()
    for at in range(0, NEED_BLOCKS * NEED_STRIDE, size):
        file.need(at, size)
    return time.perf_counter() - began


def beside_svfsc() -> list[dict[str, Any]]:
    work: list[tuple[str, int, Callable[[Callable[[], Any]], float]]] = []
    for size in (1, 8, 64, 512, 4096, 65_536):
        work.append((f"read 1 MiB in blocks of {size} B", MIB // size, lambda make, size=size: read(make, size)))
        for gap, touch in ((1, "do not touch"), (0, "touch")):
            title = f"write 1 MiB in blocks of {size} B that {touch}"
            work.append((title, MIB // size, lambda make, size=size, gap=gap: write_blocks(make, size, gap)))
    for size in (32, 512, 16_384):
        calls = NEED_BLOCKS * NEED_STRIDE // size
        work.append((f"ask what is needed, {size} B at a time", calls, lambda make, size=size: need(make, size)))
    reported = []
    for title, calls, run in work:
        rounds = ROUNDS if calls < 2_000_000 else 3
        systems = {"stook": ours, "svfsc": theirs, "stook.compat.svfsc": as_theirs}
        results = in_turn({name: lambda make=make: run(make) for name, make in systems.items()}, rounds)
        reported.append({"work": title, "calls": calls, "systems": rows(results, "stook")})
        table(title, "calls/s", reported[-1]["systems"], calls)
    return reported


def trace() -> tuple[int, list[tuple[int, int]]]:
    with TRACE.open() as lines:
        size = int(next(lines).rpartition(" ")[2])
        reads = [(int(at), int(length)) for at, length in csv.reader(line for line in lines if not line.startswith("#"))]
    return size, reads


def beside_fsspec() -> list[dict[str, Any]]:
    """Requests and bytes for a trace; nothing waits, so seconds are what the cache itself takes."""
    size, reads = trace()
    reported = []
    data = bytes(32 * MIB)
    for kind in (StookCache, ReadAheadCache, BytesCache, BlockCache, BackgroundBlockCache, FirstChunkCache):
        asked: list[int] = []

        def fetch(start: int, end: int) -> bytes:
            asked.append(end - start)
            return data[: end - start] if end - start <= len(data) else bytes(end - start)

        for block in (64 << 10, 5 * MIB) if kind is not StookCache else (5 * MIB,):
            asked.clear()
            cache = kind(block, fetch, size)
            began = time.perf_counter()
            for at, length in reads:
                cache._fetch(at, at + length)
            seconds = time.perf_counter() - began
            reported.append(
                {
                    "cache": kind.name,
                    "block_size": block,
                    "requests": len(asked),
                    "fetched_bytes": sum(asked),
                    "seconds": seconds,
                }
            )
            print(f"  {kind.name:12} blocks of {block:9,} {len(asked):7,} requests {sum(asked):14,} bytes {seconds:7.2f} s")
    best = stook.SparseBuffer().need_many([(at, at + length) for at, length in reads], max_gap=64 << 10)
    reported.append({"cache": "optimum", "requests": len(best), "fetched_bytes": sum(end - start for start, end in best)})
    print(f"  optimum: {reported[-1]['requests']} requests, {reported[-1]['fetched_bytes']:,} bytes")
    return reported


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    document = {"versions": versions("fsspec"), "fsspec": beside_fsspec(), "svfsc": beside_svfsc()}
    write("sparse", out, document)


if __name__ == "__main__":
    main()
