"""Packs under threads, callbacks and buffers that are not held still."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Callable

import numpy
import pytest

import stook


def test_a_value_that_changes_while_it_is_put_is_no_damage() -> None:
    value = bytearray(4 << 20)
    done = threading.Event()

    def change() -> None:
        view, number = memoryview(value), 0
        while not done.is_set():
            for at in range(0, len(view), 4099):
                view[at] = number = (number + 1) % 256

    thread = threading.Thread(target=change)
    thread.start()
    try:
        with stook.Pack("p.stook", "x") as pack:
            for key in range(10):
                pack[key] = value
                pack.append(value)
            pack.sync()
            assert pack.check().ok
            assert all(len(record) == len(value) for record in pack.scan())
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize("durability", ["sync", "put"])
def test_no_look_of_another_thread_takes_back_what_was_written(durability: stook.Durability) -> None:
    with stook.Pack("p.stook", "x", durability=durability) as pack:
        done = threading.Event()

        def look() -> None:
            while not done.is_set():
                pack.refresh()
                len(pack)

        def write(thread: int) -> None:
            for number in range(60):
                key = f"{thread}/{number}"
                pack[key] = b"v"
                assert pack.get_many([key]) == [b"v"]
                assert pack[key] == b"v" and key in pack
                assert pack.pop(key) == b"v"
                assert pack.get_many([key]) == [None]
                pack[key] = b"w"

        lookers = [threading.Thread(target=look) for _ in range(3)]
        for thread in lookers:
            thread.start()
        try:
            with ThreadPoolExecutor(3) as writers:
                list(writers.map(write, range(3)))
        finally:
            done.set()
            for thread in lookers:
                thread.join()
        assert len(pack) == 180


def test_only_one_thread_pops_a_record() -> None:
    with stook.Pack("p.stook", "x") as pack, ThreadPoolExecutor(4) as threads:
        for number in range(100):
            pack["k"] = b"v"
            if number % 10 == 0:
                pack.sync()
            popped = list(threads.map(lambda _: pack.pop("k", None), range(4)))
            assert sorted(popped, key=str) == [None, None, None, b"v"] or popped.count(b"v") == 1
        with pytest.raises(TypeError, match="from 1 to 2 positional arguments"):
            pack.pop("k", 1, 2)  # type: ignore[call-overload]


def test_a_callback_that_wants_the_writer_is_refused() -> None:
    with stook.Pack("p.stook", "x") as pack:
        pack.update((number, b"x" * 2000) for number in range(30_000))
        reported: list[Exception] = []

        def use(_: int) -> None:
            # The last number is reported when the writer is free again.
            if reported:
                return
            assert pack[1] == b"x" * 2000
            calls: list[Callable[[], object]] = [
                lambda: pack.put("k", b""),
                lambda: pack.delete(1),
                lambda: pack.pop(1),
                lambda: pack.append(b""),
                lambda: pack.sync(),
                lambda: pack.close(),
            ]
            for call in calls:
                with pytest.raises(stook.InvalidError, match="whose callback this is") as caught:
                    call()
                reported.append(caught.value)

        for number in range(0, 30_000, 2):
            del pack[number]
        # What gets ask is up to date; opening it anew would want the writer, too.
        assert len(pack) == 15_000
        pack.compact(progress=use)
        assert reported and len(pack) == 15_000


def test_a_pack_that_is_closed_while_others_use_it() -> None:
    pack = stook.Pack("p.stook", "x")
    batch = pack.batch()
    batch.put("k", b"")

    def work(thread: int) -> int:
        number = 0
        try:
            while True:
                pack[f"{thread}/{number}"] = b"v"
                pack.get_many([f"{thread}/{number}"])
                number += 1
        except stook.ClosedError:
            return number

    with ThreadPoolExecutor(4) as threads:
        written = [threads.submit(work, thread) for thread in range(4)]
        while not all(f"{thread}/5" in pack for thread in range(4)):
            pass
        pack.close()
        counts = [future.result() for future in written]
    with pytest.raises(stook.ClosedError):
        batch.commit()
    with pytest.raises(stook.ClosedError), pack:
        pass
    with stook.Pack("p.stook") as reader:
        assert all(f"{thread}/{number}" in reader for thread, count in enumerate(counts) for number in range(count))


def test_a_forked_child_is_refused_at_once_though_a_thread_of_the_parent_writes() -> None:
    with stook.Pack("p.stook", "x", durability="put") as pack:
        pack.update((number, b"x") for number in range(10))
        scan, keys = pack.scan(), iter(pack.keys())
        next(scan)
        done = threading.Event()

        def write() -> None:
            while not done.is_set():
                pack["k"] = b"v" * 1000

        thread = threading.Thread(target=write)
        thread.start()
        try:
            for _ in range(5):
                child = os.fork()
                if child == 0:
                    code = 1
                    try:
                        calls: list[Callable[[], object]] = [
                            lambda: pack.put("c", b""),
                            lambda: pack.delete("k"),
                            lambda: pack.append(b""),
                            lambda: pack.pop("k"),
                            lambda: pack.sync(),
                        ]
                        for call in calls:
                            with pytest.raises(stook.ForkedError):
                                call()
                        with pytest.raises(stook.InvalidError, match="begin it again"):
                            next(keys)
                        pack.close()
                        code = 0
                    finally:
                        os._exit(code)
                assert os.waitpid(child, 0)[1] == 0
        finally:
            done.set()
            thread.join()
        assert len(list(scan)) == 9


def test_a_snapshot_is_the_state_that_is_shown() -> None:
    with stook.Pack("p.stook", "x") as writer:
        writer["a"] = b"1"
        writer.sync()
        reader = stook.Pack("p.stook")
        writer["b"] = b"2"
        writer.sync()
        snapshot = reader.snapshot()
        assert list(snapshot) == ["a"] and list(stook.Pack("p.stook")) == ["a", "b"]
        reader.close()
        assert snapshot["a"] == b"1"


def test_odd_numbers_are_taken_or_refused(filled: Path) -> None:
    with stook.Pack(filled) as pack:
        assert pack[numpy.int64(7)] == b"seven"
        assert pack.get_many(numpy.array([7, 8])) == [b"seven", None]
        assert len(pack.splits(2**63)) <= 3
        with pytest.raises(stook.InvalidError, match="a number from 0 on"):
            pack.splits(-1)
        with pytest.raises(stook.InvalidError, match="empty list"):
            pack.scan(group=[])
        with pytest.raises(stook.InvalidError, match="progress is a callable"):
            pack.check(progress=5)  # type: ignore[arg-type]
    for threads in (0, 10**6):
        with pytest.raises(stook.InvalidError, match="1 to 256 threads"):
            stook.unpack(filled, "out", threads=threads)


def test_long_values_come_in_bounded_batches() -> None:
    with stook.Pack("p.stook", "x") as pack:
        pack.update((number, bytes([number]) * (1 << 20)) for number in range(100))
    for map in (False, True):
        with stook.Pack("p.stook", map=map) as pack:
            keys = [number * 37 % 100 for number in range(100)]
            assert all(value == bytes([key]) * (1 << 20) for key, value in zip(keys, pack.get_many(keys)))
            assert [record and record.key for record in pack.records(keys)] == keys
