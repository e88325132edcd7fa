"""Packs in several threads and processes: forks, workers, a writer elsewhere, signals, leaks."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest

import stook
from memory_use import resident_bytes


@pytest.fixture
def numbers() -> Path:
    path = Path("numbers.stook").absolute()
    with stook.Pack(path, "x") as pack:
        pack.update((number, number.to_bytes(8, "little") * 16) for number in range(5000))
    return path


def total(pack: stook.Pack, split: stook.Split) -> int:
    return sum(int.from_bytes(record.value[:8], "little") for record in pack.scan(split=split))


def value_of(pack: stook.Pack, key: int) -> bytes:
    return pack[key]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_packs_and_splits_go_to_workers(numbers: Path, method: str) -> None:
    context = multiprocessing.get_context(method)
    with stook.Pack(numbers) as pack:
        # What the parent used before, the child may use, too.
        assert pack[17] == (17).to_bytes(8, "little") * 16
        splits = pack.splits(3)
        with ProcessPoolExecutor(2, mp_context=context) as workers:
            totals = workers.map(total, [pack] * len(splits), splits)
            assert sum(totals) == sum(range(5000))
            assert list(workers.map(value_of, [pack] * 3, [1, 2, 3])) == [pack[key] for key in (1, 2, 3)]


def test_a_forked_child_reads_on_and_may_not_write(numbers: Path) -> None:
    with stook.Pack(numbers, "r+") as pack:
        pack[1] = b"changed"
        pack.sync()
        reader = stook.Pack(numbers)
        assert reader[1] == b"changed"
        child = os.fork()
        if child == 0:
            code = 1
            try:
                assert reader[1] == b"changed"
                assert len(reader.get_many(range(5000))) == 5000
                try:
                    pack[2] = b"from the child"
                except stook.ForkedError:
                    # Closing must neither write nor let go of the lock.
                    pack.close()
                    code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        with pytest.raises(stook.LockedError):
            stook.Pack(numbers, "r+")
        pack[2] = b"from the parent"
        reader.close()
    with stook.Pack(numbers) as pack:
        assert pack[2] == b"from the parent"


WRITER = """
import sys, stook
with stook.Pack(sys.argv[1], "a", durability="put") as pack:
    for number in range(200):
        with pack.batch() as batch:
            batch.put("left", str(number).encode())
            batch.put("right", str(number).encode())
        print(number, flush=True)
    sys.stdin.read()
"""


def test_a_writer_in_another_process_is_seen_in_whole_batches() -> None:
    command = [sys.executable, "-W", "ignore", "-c", WRITER, "shared.stook"]
    writer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None and writer.stdin is not None
    writer.stdout.readline()
    with pytest.raises(stook.LockedError, match=str(writer.pid)):
        stook.Pack("shared.stook", "r+")
    seen = 0
    with stook.Pack("shared.stook") as pack:
        while seen < 199:
            pack.refresh()
            left, right = pack.get_many(["left", "right"])
            assert left == right and left is not None and int(left) >= seen
            seen = int(left)
    writer.communicate()
    assert writer.returncode == 0


def test_what_was_acknowledged_survives_kill_9() -> None:
    command = [sys.executable, "-W", "ignore", "-c", WRITER, "killed.stook"]
    writer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    for _ in range(20):
        last = int(writer.stdout.readline())
    writer.kill()
    writer.communicate()
    with stook.Pack("killed.stook", "r+") as pack:
        assert int(pack["left"]) >= last and pack["left"] == pack["right"]
        assert pack.check().ok


def test_eight_threads_over_one_pack(numbers: Path) -> None:
    with stook.Pack(numbers) as pack:

        def work(seed: int) -> int:
            for turn in range(20):
                keys = [(seed * 7919 + turn * 104729 + step) % 5000 for step in range(50)]
                assert pack.get_many(keys) == [key.to_bytes(8, "little") * 16 for key in keys]
                assert pack[keys[0]] == keys[0].to_bytes(8, "little") * 16
            return sum(1 for _ in pack.scan())

        with ThreadPoolExecutor(8) as threads:
            assert list(threads.map(work, range(8))) == [5000] * 8


def test_eight_threads_share_one_scan(numbers: Path) -> None:
    with stook.Pack(numbers) as pack:
        scan = pack.scan()
        with ThreadPoolExecutor(8) as threads:
            parts = threads.map(lambda _: [record.key for record in scan], range(8))
            assert sorted(key for part in parts for key in part if isinstance(key, int)) == list(range(5000))


@pytest.mark.parametrize("durability", ["sync", "put"])
def test_eight_threads_write_and_see_what_they_wrote(durability: stook.Durability) -> None:
    with stook.Pack("p.stook", "x", durability=durability) as pack:

        def work(thread: int) -> list[int]:
            taken = []
            for number in range(30):
                pack[f"{thread}/{number}"] = b"%d" % number
                assert pack[f"{thread}/{number}"] == b"%d" % number
                if number % 3 == 0:
                    del pack[f"{thread}/{number}"]
                    assert f"{thread}/{number}" not in pack
                taken.append(pack.append(b"x"))
            return taken

        with ThreadPoolExecutor(8) as threads:
            ids = [number for part in threads.map(work, range(8)) for number in part]
        assert sorted(ids) == list(range(240))
        assert len(pack) == 8 * 20 + 240


INTERRUPTED = """
import itertools, signal, sys, stook
# Who starts tests in the background has them ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)
path, action = sys.argv[1:]
pack = stook.Pack(path, "r" if action in ("get_many", "scan", "keys", "check") else "r+")
print("ready", flush=True)
try:
    while True:
        if action == "get_many":
            pack.get_many(range(5000))
        elif action == "scan":
            for record in pack.scan():
                pass
        elif action == "keys":
            for _ in range(1000):
                list(pack)
        elif action == "check":
            pack.check()
        elif action == "update":
            pack.update((number % 100, b"x") for number in itertools.count())
        elif action == "batch":
            with pack.batch() as batch:
                for number in range(200_000):
                    batch.put(number % 100, b"x")
        elif action == "compact":
            pack[1] = b"x"
            pack.compact()
        else:
            pack["long"] = bytes(32 << 20)
except KeyboardInterrupt:
    pack.close()
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize("action", ["get_many", "scan", "keys", "check", "update", "batch", "compact", "put"])
def test_ctrl_c_ends_what_goes_on_and_on(numbers: Path, action: str) -> None:
    command = [sys.executable, "-W", "ignore", "-c", INTERRUPTED, str(numbers), action]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "ready\n"
    time.sleep(0.2)
    child.send_signal(signal.SIGINT)
    try:
        out, _ = child.communicate(timeout=60)
    finally:
        child.kill()
    assert (child.returncode, out) == (0, "interrupted\n")
    with stook.Pack(numbers) as pack:
        assert pack.check().ok


def test_other_threads_run_while_one_reads(numbers: Path) -> None:
    turns = 0
    done = threading.Event()

    def count() -> None:
        nonlocal turns
        while not done.is_set():
            turns += 1
            time.sleep(0)

    thread = threading.Thread(target=count)
    thread.start()
    with stook.Pack(numbers) as pack:
        for _ in range(20):
            pack.check()
    done.set()
    thread.join()
    assert turns > 20


def test_nothing_leaks_over_a_million_gets(numbers: Path) -> None:
    with stook.Pack(numbers, map=True) as pack:
        key = 2**70 % 4999

        def work(rounds: int) -> None:
            keys = list(range(1000))
            for _ in range(rounds):
                pack.get_many(keys)
                for record in pack.records(keys[:20]):
                    assert record is not None and record.value.nbytes == 128 and record.attributes == {}

        work(10)
        gc.collect()
        references = sys.getrefcount(key)
        tracemalloc.start()
        before, resident = tracemalloc.take_snapshot(), resident_bytes()
        work(1000)
        for _ in range(20_000):
            pack.get(key)
            key in pack
        gc.collect()
        grown = tracemalloc.take_snapshot().compare_to(before, "lineno")
        tracemalloc.stop()
        assert sys.getrefcount(key) == references
        assert sum(statistic.size_diff for statistic in grown) < 1 << 20
        assert resident_bytes() - resident < 32 << 20


def test_nothing_leaks_over_puts_deletions_and_batches() -> None:
    value, attributes = b"v" * 100, {"label": "x"}
    with stook.Pack("p.stook", "x") as pack:

        def work(rounds: int) -> None:
            for number in range(rounds):
                key = f"key {number % 100}"
                pack.put(key, value, attributes=attributes)
                pack[bytearray(b"b").decode() + str(number % 7)] = bytearray(value)
                del pack[key]
                if number % 100 == 0:
                    with pack.batch() as batch:
                        batch.put(key, value)
                        batch.delete(key)

        work(20_000)
        gc.collect()
        references, resident = sys.getrefcount(value), resident_bytes()
        work(20_000)
        gc.collect()
        assert sys.getrefcount(value) == references
        assert resident_bytes() - resident < 48 << 20


def test_nothing_leaks_over_scans_and_packs(numbers: Path) -> None:
    def work(rounds: int) -> None:
        for _ in range(rounds):
            with stook.Pack(numbers) as pack:
                for record in pack.scan():
                    record.value, record.key
                list(pack.keys())

    work(5)
    gc.collect()
    resident, descriptors = resident_bytes(), len(os.listdir("/proc/self/fd"))
    work(60)
    gc.collect()
    assert resident_bytes() - resident < 32 << 20
    assert len(os.listdir("/proc/self/fd")) <= descriptors + 5
