"""Packs from Python beside LMDB, SQLite and webdataset.

Run it with `python benchmarks/python/packs.py --work DIR --out DIR`.

Warm: gets by key of a million records of 1 KB, uniformly at random, in memory. Cold: 50,000 records
of 20 KB from end to end.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import shutil
import sqlite3
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any, Iterator

import lmdb
import webdataset

import stook
from harness import drop_caches, in_turn, need_root, rows, table, timed, versions, write

WARM_LEN, WARM_RECORDS = 1000, 1_000_000
COLD_LEN, COLD_RECORDS = 20_000, 50_000
BATCH = 1000


def values(count: int, length: int) -> Iterator[bytes]:
    """Bytes that no file system can make smaller."""
    source = random.Random(5).randbytes(8 << 20)
    for number in range(count):
        at = number * 4099 % (len(source) - length)
        yield source[at : at + length]


def build(work: Path, name: str, count: int, length: int) -> None:
    """The same records in a pack, in LMDB, in SQLite and, for scans, in a tar."""
    pack_path, lmdb_path, sqlite_path = work / f"{name}.stook", work / f"{name}.lmdb", work / f"{name}.sqlite"
    if not pack_path.exists():
        with stook.Pack(pack_path, "x", segment_bytes=4 << 30) as pack:
            pack.update(enumerate(values(count, length)))
            pack.compact()
    if not lmdb_path.exists():
        with lmdb.open(str(lmdb_path), map_size=16 << 30) as environment, environment.begin(write=True) as transaction:
            for number, value in enumerate(values(count, length)):
                transaction.put(number.to_bytes(8, "big"), value, append=True)
    if not sqlite_path.exists():
        with sqlite3.connect(sqlite_path) as database:
            database.execute("CREATE TABLE records (id INTEGER PRIMARY KEY, value BLOB)")
            database.executemany("INSERT INTO records VALUES (?, ?)", enumerate(values(count, length)))
    tar_path = work / f"{name}.tar"
    if length == COLD_LEN and not tar_path.exists():
        with tarfile.open(tar_path, "w") as tar:
            for number, value in enumerate(values(count, length)):
                member = tarfile.TarInfo(f"{number:08}.bin")
                member.size = len(value)
                tar.addfile(member, io.BytesIO(value))


def warm(work: Path, rounds: int) -> dict[str, Any]:
    """Gets of records that are in memory, one thread."""
    keys = random.Random(7).sample(range(WARM_RECORDS), 200_000)
    batches = [keys[start : start + BATCH] for start in range(0, len(keys), BATCH)]
    mapped, read = stook.Pack(work / "warm.stook", map=True), stook.Pack(work / "warm.stook")
    environment = lmdb.open(str(work / "warm.lmdb"), readonly=True, lock=False)
    transaction = environment.begin()
    database = sqlite3.connect(work / "warm.sqlite")

    def many(pack: stook.Pack) -> float:
        def work() -> None:
            for batch in batches:
                pack.get_many(batch)

        return timed(work)

    def single(pack: stook.Pack) -> float:
        def work() -> None:
            for key in keys:
                pack[key]

        return timed(work)

    def lmdb_gets() -> float:
        def work() -> None:
            get = transaction.get
            for key in keys:
                get(key.to_bytes(8, "big"))

        return timed(work)

    def lmdb_many() -> float:
        def work() -> None:
            with transaction.cursor() as cursor:
                for batch in batches:
                    cursor.getmulti([key.to_bytes(8, "big") for key in batch])

        return timed(work)

    def sqlite_gets() -> float:
        def work() -> None:
            cursor = database.cursor()
            for key in keys:
                cursor.execute("SELECT value FROM records WHERE id = ?", (key,)).fetchone()

        return timed(work)

    systems = {
        "stook get_many, mapped": lambda: many(mapped),
        "stook get_many, read": lambda: many(read),
        "stook pack[key], mapped": lambda: single(mapped),
        "stook pack[key], read": lambda: single(read),
        "LMDB get": lmdb_gets,
        "LMDB getmulti": lmdb_many,
        "SQLite SELECT by id": sqlite_gets,
    }
    in_turn(systems, 1)
    reported = rows(in_turn(systems, rounds), "stook get_many, mapped")
    table(f"Warm gets of {WARM_LEN} B, uniform, one thread", "gets/s", reported, len(keys))
    return {"gets": len(keys), "rows": reported}


def rust_scan(pack: Path) -> float:
    """What the command-line tool takes to go through a pack: the same scan without Python."""
    reported = subprocess.run([sys.executable, "-m", "stook", "load", str(pack), "--json"], capture_output=True, check=True)
    return float(json.loads(reported.stdout)["seconds"])


def cold(work: Path, rounds: int) -> dict[str, Any]:
    """All records from end to end, every value looked at."""

    def ours() -> float:
        def scan() -> int:
            with stook.Pack(work / "cold.stook") as pack:
                return sum(record.value.nbytes for record in pack.scan())

        return timed(scan)

    def lmdb_cursor() -> float:
        def scan() -> int:
            with lmdb.open(str(work / "cold.lmdb"), readonly=True, lock=False) as environment:
                with environment.begin() as transaction:
                    return sum(len(value) for _, value in transaction.cursor())

        return timed(scan)

    def sqlite_select() -> float:
        def scan() -> int:
            database = sqlite3.connect(work / "cold.sqlite")
            return sum(len(value) for (value,) in database.execute("SELECT value FROM records"))

        return timed(scan)

    def web() -> float:
        def scan() -> int:
            shards = webdataset.WebDataset(str(work / "cold.tar"), shardshuffle=False)
            return sum(len(sample["bin"]) for sample in shards)

        return timed(scan)

    def tar() -> float:
        def scan() -> int:
            total = 0
            with tarfile.open(work / "cold.tar", "r|") as archive:
                for member in archive:
                    content = archive.extractfile(member)
                    assert content is not None
                    total += len(content.read())
            return total

        return timed(scan)

    systems = {
        "stook scan, Python": ours,
        "stook load, no Python": lambda: rust_scan(work / "cold.stook"),
        "LMDB cursor": lmdb_cursor,
        "SQLite SELECT": sqlite_select,
        "webdataset over a tar": web,
        "tarfile, streaming": tar,
    }
    reported = rows(in_turn(systems, rounds, drop_caches), "stook scan, Python")
    table(f"Cold scan of {COLD_RECORDS} records of {COLD_LEN} B", "MB/s", reported, COLD_RECORDS * COLD_LEN / 1e6)
    return {"bytes": COLD_RECORDS * COLD_LEN, "rows": reported}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True, help="where the records are kept while they are measured")
    parser.add_argument("--out", type=Path, required=True, help="where packs.json goes")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=["warm", "cold"])
    arguments = parser.parse_args()
    need_root()
    arguments.work.mkdir(parents=True, exist_ok=True)
    document: dict[str, Any] = {"versions": versions("lmdb", "sqlite3", "webdataset"), "rounds": arguments.rounds}
    if arguments.only != "cold":
        build(arguments.work, "warm", WARM_RECORDS, WARM_LEN)
        document["warm_get"] = warm(arguments.work, arguments.rounds)
        for kept in arguments.work.glob("warm.*"):
            shutil.rmtree(kept) if kept.is_dir() else kept.unlink()
    if arguments.only != "warm":
        build(arguments.work, "cold", COLD_RECORDS, COLD_LEN)
        document["cold_scan"] = cold(arguments.work, arguments.rounds)
        for kept in arguments.work.glob("cold.*"):
            shutil.rmtree(kept) if kept.is_dir() else kept.unlink()
    write("packs", arguments.out, document)


if __name__ == "__main__":
    main()
