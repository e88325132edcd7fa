"""`stook.SparseFile` over servers, local files and functions."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stook
from memory_use import resident_bytes
from servers import Servers
from stook import DiskCache, SparseFile, SparseStore

DATA = np.random.default_rng(1).bytes(3_000_000)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    directory = tmp_path_factory.mktemp("served")
    (directory / "bucket").mkdir()
    (directory / "bucket" / "data.bin").write_bytes(DATA)
    with Servers(directory) as servers:
        yield servers


@pytest.fixture
def file(servers: Servers) -> Iterator[SparseFile]:
    servers.log()
    with SparseFile("s3://bucket/data.bin", settings=servers.settings) as file:
        yield file


def test_reads_give_what_is_there_and_fetch_it_once(servers: Servers, file: SparseFile) -> None:
    assert (file.size, file.name, file.closed) == (len(DATA), "s3://bucket/data.bin", False)
    assert file.identity.size == len(DATA) and file.identity.etag
    assert file.read(1000, 10) == DATA[1000:1010]
    out = bytearray(100)
    assert file.readinto(1010, out) == 100
    assert out == DATA[1010:1110]
    numbers: Any = np.zeros(50_000, np.uint32)
    assert file.readinto(0, numbers) == 200_000
    assert numbers.tobytes() == DATA[:200_000]
    assert file.has(1000, 10) and not file.has(2_000_000, 10)
    assert file.read(len(DATA) - 5, 100) == DATA[-5:]
    assert file.read(len(DATA), 5) == file.read(1 << 60, 5) == file.read(0, 0) == b""
    assert file.readinto(len(DATA) - 5, out) == 5
    reported, (log, _) = file.statistics(), servers.log()
    assert reported.requests == sum(request.is_data for request in log)
    assert reported.fetched_bytes == sum(request.bytes for request in log if request.is_data)
    assert reported.hits + reported.misses == reported.reads == 5
    assert reported.amplification is not None and reported.latency_p50_ns is not None
    assert file.buffer.held_bytes == reported.fetched_bytes
    assert "of 3000000 bytes" in repr(file)


def test_known_ranges_are_fetched_together(servers: Servers, file: SparseFile) -> None:
    ranges = [(2_000_000, 2_000_100), (0, 10), (5, 5), (1_000_000, 1_000_010), (20, 30)]
    assert file.read_many(ranges) == [DATA[start:end] for start, end in ranges]
    log, _ = servers.log()
    fetched = sorted((request.first, request.end) for request in log if request.is_data)
    assert fetched == [(0, 30), (1_000_000, 1_000_010), (2_000_000, 2_000_100)]
    file.prefetch(iter([(500_000, 600_000)]))
    assert file.has(500_000, 100_000)
    with pytest.raises(stook.OutOfBoundsError, match="reaches past the end"):
        file.read_many([(0, len(DATA) + 1)])


def test_awaitable_twins(file: SparseFile) -> None:
    async def work() -> None:
        parts = await asyncio.gather(*(file.aread(number * 1000, 500) for number in range(100)))
        assert parts == [DATA[number * 1000 : number * 1000 + 500] for number in range(100)]
        assert await file.aread(0, 3) == DATA[:3]
        assert await file.aread_many([(0, 3), (7, 9)]) == [DATA[:3], DATA[7:9]]

    asyncio.run(work())


def test_everything_refuses_once_it_is_closed(servers: Servers) -> None:
    file = SparseFile("s3://bucket/data.bin", settings=servers.settings)
    file.close()
    file.close()
    assert file.closed and "closed" in repr(file)
    calls: list[Callable[[], object]] = [
        lambda: file.read(0, 1),
        lambda: file.readinto(0, bytearray(1)),
        lambda: file.read_many([]),
        lambda: file.prefetch([]),
        lambda: file.aread(0, 1),
        lambda: file.aread_many([]),
        lambda: file.has(0, 1),
        lambda: file.statistics(),
        lambda: file.size,
        lambda: file.identity,
        lambda: file.name,
        lambda: file.buffer,
        lambda: file.__enter__(),
        lambda: pickle.dumps(file),
    ]
    for call in calls:
        with pytest.raises(stook.ClosedError, match="this sparse file is closed"):
            call()


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"tries": "many"}, TypeError, "argument 'tries'"),
        ({"deadline": -1}, stook.InvalidError, "argument 'deadline': it is a time in seconds, not -1"),
        ({"requests": 0}, stook.InvalidError, "argument 'requests': it must be 1 or more"),
        ({"settings": ["x"]}, TypeError, "argument 'settings'"),
        ({"unknown": 1}, TypeError, "argument 'unknown'"),
        ({"cache": 5}, TypeError, "object"),
        ({"tries": -1}, stook.InvalidError, "argument 'tries': a number from 0 on .* not -1"),
        ({"requests": -1}, stook.InvalidError, "argument 'requests'"),
        ({"memory_bytes": -1}, stook.InvalidError, "from 0 on"),
        ({"store_name": "x"}, stook.InvalidError, "store="),
        ({"store": SparseStore()}, stook.InvalidError, "store_name"),
        ({"store": SparseStore(), "store_name": "x", "memory_bytes": 5}, stook.InvalidError, "budget of the store"),
    ],
)
def test_bad_options(options: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        SparseFile("anywhere", **options)


def test_numbers_below_0_are_values_that_make_no_sense() -> None:
    file = SparseFile.from_fetch(lambda start, end: bytes(end - start), 1000)
    calls: list[Callable[[], object]] = [
        lambda: file.read(-1, 1),
        lambda: file.read(1, -1),
        lambda: file.readinto(-1, bytearray(1)),
        lambda: file.read_many([(-1, 1)]),
        lambda: file.has(-1, 1),
        lambda: SparseFile.from_fetch(lambda start, end: b"", -1),
        lambda: SparseStore(budget_bytes=-1),
        lambda: stook.SparseBuffer().read(-1, 1),
        lambda: stook.SparseBuffer().need(0, 1, max_len=-1),
    ]
    for call in calls:
        with pytest.raises(stook.InvalidError, match="not -1"):
            call()
    with pytest.raises(TypeError):
        file.read("x", 1)  # type: ignore[arg-type]


def test_what_cannot_be_opened(servers: Servers, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        SparseFile(tmp_path / "nothing")
    assert os.fspath(raised.value.filename) == str(tmp_path / "nothing")
    with pytest.raises(stook.RemoteNotFoundError, match="s3://bucket/nothing"):
        SparseFile("s3://bucket/nothing", settings=servers.settings)
    with pytest.raises(FileNotFoundError):
        SparseFile(servers.web + "/ok/bucket/nothing")
    with pytest.raises(stook.RemotePermissionError):
        SparseFile("s3://bucket/data.bin", settings={**servers.settings, "AWS_SECRET_ACCESS_KEY": "wrong"})
    with pytest.raises(PermissionError):
        SparseFile(servers.web + "/denied/bucket/data.bin")
    with pytest.raises(stook.AddressError, match="`ftp` is not among"):
        SparseFile("ftp://host/x")
    for address in ("HTTP://me:word@127.0.0.1:1/x?sig=hidden", "ftp://me:word@h/x?sig=hidden", "FILE://me:word@h/x?sig=hidden"):
        for read in (stook.open, SparseFile):
            with pytest.raises(stook.Error) as refused:
                read(address, tries=1) if address.startswith("HTTP") else read(address)
            assert "word" not in str(refused.value) and "hidden" not in str(refused.value)
    signed = servers.web.replace("://", "://me:word@") + "/ok/bucket/nothing?sig=hidden"
    makes: list[tuple[type[Exception], Callable[[], object]]] = [
        (stook.AddressError, lambda: stook.Pack(signed)),
        (FileNotFoundError, lambda: stook.unpack(signed, tmp_path / "tree")),
        (FileNotFoundError, lambda: stook.pack_tree(signed, tmp_path / "x.stook")),
    ]
    for kind, make in makes:
        with pytest.raises(kind) as missing:
            make()
        assert "word" not in str(missing.value) and "hidden" not in str(missing.value)
    with pytest.raises(stook.RemoteError, match="only be read as a whole: whole_file=True does that"):
        SparseFile(servers.web + "/no-ranges/bucket/data.bin")
    with pytest.raises(stook.RemoteError, match="gzip"):
        SparseFile(servers.web + "/gzip/bucket/data.bin")
    with pytest.raises(TypeError):
        SparseFile(5)  # type: ignore[arg-type]


def test_servers_that_fail_now_and_then(servers: Servers) -> None:
    for mode in ("flaky", "cut"):
        file = SparseFile(f"{servers.web}/{mode}/bucket/data.bin")
        assert file.read_many([(0, 50_000), (1_000_000, 1_050_000)]) == [DATA[:50_000], DATA[1_000_000:1_050_000]]
    whole = SparseFile(servers.web + "/no-ranges/bucket/data.bin", whole_file=True)
    assert whole.read(2_999_999, 5) == DATA[-1:]
    reported = whole.statistics()
    assert (reported.requests, reported.fetched_bytes) == (1, len(DATA)), "all of it came when it was opened"
    wrong = SparseFile(servers.web + "/wrong-range/bucket/data.bin")
    with pytest.raises(stook.RemoteError, match="s? of http"):
        wrong.read(1000, 10)


def test_a_changed_source_is_reported_and_nothing_old_is_given(servers: Servers) -> None:
    path = servers.directory / "bucket" / "changing.bin"
    path.write_bytes(DATA[:1_000_000])
    file = SparseFile("s3://bucket/changing.bin", settings=servers.settings, allowance=0)
    assert file.read(0, 10) == DATA[:10]
    path.write_bytes(DATA[1_000_000:2_000_000])
    with pytest.raises(stook.SourceChangedError, match="it was .* it is now"):
        file.read(500_000, 10)
    with pytest.raises(stook.SourceChangedError):
        file.read(0, 10)
    again = SparseFile("s3://bucket/changing.bin", settings=servers.settings)
    assert again.read(0, 10) == DATA[1_000_000:1_000_010]


def test_a_directory_keeps_what_was_fetched(servers: Servers, tmp_path: Path) -> None:
    directory = tmp_path / "cache"
    with SparseFile("s3://bucket/data.bin", settings=servers.settings, cache=directory) as file:
        file.read_many([(0, 100_000), (1_000_000, 1_100_000)])
    servers.log()
    cache = DiskCache(directory, budget_bytes=1 << 30)
    assert (cache.directory, cache.budget_bytes) == (directory, 1 << 30)
    with SparseFile("s3://bucket/data.bin", settings=servers.settings, cache=cache) as file:
        assert file.read_many([(0, 100_000), (1_000_000, 1_100_000)]) == [DATA[:100_000], DATA[1_000_000:1_100_000]]
        assert file.statistics().from_disk_bytes >= 200_000
        assert file.statistics().requests == 0
    log, _ = servers.log()
    assert [request.is_data for request in log] == [False], "it was opened, and no data asked for"
    assert cache.statistics().read_bytes >= 200_000
    again = pickle.loads(pickle.dumps(cache))
    assert (again.directory, again.budget_bytes) == (directory, 1 << 30)
    assert "budget_bytes=1073741824" in repr(cache)
    (tmp_path / "not a directory").write_bytes(b"")
    with pytest.raises(OSError, match="not a directory"):
        DiskCache(tmp_path / "not a directory")


def test_memory_has_a_budget(servers: Servers) -> None:
    with SparseFile("s3://bucket/data.bin", settings=servers.settings, memory_bytes=500_000) as file:
        for position in range(0, len(DATA), 100_000):
            assert file.read(position, 100_000) == DATA[position : position + 100_000]
        assert file.buffer.held_bytes <= 500_000
        assert file.statistics().evicted_bytes > 0
    store = SparseStore(budget_bytes=500_000)
    with SparseFile("s3://bucket/data.bin", settings=servers.settings, store=store, store_name="x") as file:
        file.read(0, 100_000)
        assert store["x"] == file.buffer
        with pytest.raises(stook.InvalidError, match="cannot be pickled"):
            pickle.dumps(file)


def test_local_files(tmp_path: Path) -> None:
    path = tmp_path / "data.bin"
    path.write_bytes(DATA)
    for address in (path, str(path), os.fspath(path).encode(), f"file://{path}"):
        with SparseFile(address) as file:
            assert file.read(5, 10) == DATA[5:15]
            assert file.identity.inode == path.stat().st_ino
    link = os.path.relpath(path)
    with SparseFile(link) as file:
        assert os.path.samefile(pickle.loads(pickle.dumps(file)).name, path)


def test_functions_of_python() -> None:
    asked: list[tuple[int, int]] = []
    threads: set[int] = set()
    side_by_side = threading.Event()

    def fetch(start: int, end: int) -> bytes:
        asked.append((start, end))
        threads.add(threading.get_ident())
        if len(asked) > 1:
            side_by_side.set()
        # The first waits for another to be under way.
        assert side_by_side.wait(20)
        return DATA[start:end]

    file = SparseFile.from_fetch(fetch, len(DATA), name="mine")
    positions = [number * 400_000 for number in range(7)]
    assert file.read_many([(at, at + 10) for at in positions]) == [DATA[at : at + 10] for at in positions]
    assert len(asked) == 7 and threading.get_ident() not in threads
    assert (file.name, file.size, file.identity.etag) == ("mine", len(DATA), None)
    views = SparseFile.from_fetch(lambda start, end: memoryview(DATA)[start:end], len(DATA))
    assert views.read(5, 5) == DATA[5:10]


def test_what_a_function_raises_is_raised() -> None:
    class MyError(Exception):
        pass

    def fail(start: int, end: int) -> bytes:
        raise MyError(f"not {start}")

    file = SparseFile.from_fetch(fail, 1000)
    with pytest.raises(MyError, match="not 0"):
        file.read(0, 10)
    short = SparseFile.from_fetch(lambda start, end: b"x", 1000)
    with pytest.raises(stook.ShortReadError, match="ends too early"):
        short.read(0, 10)
    wrong = SparseFile.from_fetch(lambda start, end: "text", 1000)  # type: ignore[arg-type, return-value]
    with pytest.raises(TypeError, match="a bytes-like object is wanted, not str"):
        wrong.read(0, 10)
    with pytest.raises(TypeError, match="argument 'fetch': a function of start and end is wanted"):
        SparseFile.from_fetch(b"x", 5)  # type: ignore[arg-type]


def test_a_function_that_reads_its_own_file_is_reported() -> None:
    """In a process of its own, which can be ended should it wait for itself."""
    with subprocess.Popen([sys.executable, "-c", OWN], stdout=subprocess.PIPE, text=True) as process:
        try:
            out, _ = process.communicate(timeout=20)
        finally:
            process.kill()
    assert (process.returncode, out) == (0, "the same file\nb'other'\nb'12'\n")


OWN = """
import stook
other = stook.SparseFile.from_fetch(lambda start, end: b"other"[start:end], 5)
def fetch(start, end):
    if start == 0:
        return file.read(start, end - start)
    if start == 100:
        return other.read(0, 5) * 2
    return b"12"
file = stook.SparseFile.from_fetch(fetch, 1000, allowance=0, max_window=0)
try:
    file.read(0, 5)
except stook.InvalidError as error:
    print("the same file" if "the same file" in str(error) else error)
print(file.read_many([(100, 110)])[0][:5])
print(file.read_many([(200, 202)])[0])
"""


def test_a_function_and_a_file_that_know_each_other_are_collected() -> None:
    class Reader:
        def __init__(self) -> None:
            self.file = SparseFile.from_fetch(self.fetch, 1000)

        def fetch(self, start: int, end: int) -> bytes:
            return bytes(end - start)

    import weakref

    reader = Reader()
    reader.file.read(0, 10)
    gone = weakref.ref(reader)
    del reader
    gc.collect()
    assert gone() is None


def test_eight_threads_fetch_every_byte_once(servers: Servers) -> None:
    servers.log()
    file = SparseFile("s3://bucket/data.bin", settings=servers.settings)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            chance = np.random.default_rng(number)
            for _ in range(100):
                position, length = int(chance.integers(0, len(DATA))), int(chance.integers(1, 60_000))
                assert file.read(position, length) == DATA[position : position + length]
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    log, _ = servers.log()
    covered = sorted((request.first or 0, request.end or 0) for request in log if request.is_data)
    assert all(before[1] <= after[0] for before, after in zip(covered, covered[1:])), "no byte twice"


def _read_in_worker(file: SparseFile, position: int) -> tuple[bytes, int]:
    return file.read(position, 10), os.getpid()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_read_what_was_pickled(servers: Servers, method: str) -> None:
    file = SparseFile("s3://bucket/data.bin", settings=servers.settings)
    file.read(0, 10)
    with multiprocessing.get_context(method).Pool(2) as pool:
        got = pool.starmap(_read_in_worker, [(file, position) for position in (0, 5, 2_000_000)])
    assert [data for data, _ in got] == [DATA[:10], DATA[5:15], DATA[2_000_000:2_000_010]]
    assert os.getpid() not in {process for _, process in got}


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_reads_on(servers: Servers) -> None:
    file = SparseFile("s3://bucket/data.bin", settings=servers.settings)
    file.read(0, 10)
    # Others fetch while it forks, and are not there in the child.
    fetching = [threading.Thread(target=file.read, args=(at, 1000)) for at in range(500_000, 2_000_000, 100_000)]
    for thread in fetching:
        thread.start()
    process = multiprocessing.get_context("fork").Process(target=_child, args=(file,))
    process.start()
    process.join(20)
    assert process.exitcode == 0
    for thread in fetching:
        thread.join()
    assert file.read(2_500_000, 10) == DATA[2_500_000:2_500_010]


def _child(file: SparseFile) -> None:
    for position in (0, 500_000, 1_900_000):
        assert file.read(position, 10) == DATA[position : position + 10]
    file.close()


INTERRUPTED = """
import signal, sys, warnings
# Who starts tests in the background has them ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)
warnings.simplefilter("ignore")
import stook
file = stook.SparseFile(sys.argv[1], stall=30)
print("ready", flush=True)
try:
    file.read(1000, 10)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_ends_a_read_that_waits(servers: Servers) -> None:
    # The server sends nothing for as long as the read would wait, which is half a minute.
    command = [sys.executable, "-c", INTERRUPTED, servers.web + "/stall/bucket/data.bin"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        try:
            out, _ = process.communicate(timeout=20)
        finally:
            process.kill()
    assert (process.returncode, out) == (0, "interrupted\n")


AWAITED = """
import asyncio, signal, sys, warnings
signal.signal(signal.SIGINT, signal.default_int_handler)
warnings.simplefilter("ignore")
import stook
file = stook.SparseFile(sys.argv[1], stall=30)
async def work():
    reads = [asyncio.ensure_future(file.aread(at, 10)) for at in (1000, 2000)]
    await asyncio.sleep(0.3)
    print("ready", flush=True)
    await asyncio.gather(*reads)
try:
    asyncio.run(work())
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_ends_a_process_that_awaits(servers: Servers) -> None:
    # The threads that wait for the server would do so for half a minute.
    command = [sys.executable, "-c", AWAITED, servers.web + "/stall/bucket/data.bin"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        try:
            out, _ = process.communicate(timeout=20)
        finally:
            process.kill()
    assert (process.returncode, out) == (0, "interrupted\n")


def test_more_is_awaited_than_there_are_threads() -> None:
    from stook import _aio

    pool, open_ = _aio.Pool(), threading.Event()
    waiting = [pool.submit(open_.wait, 20) for _ in range(100)]
    done = pool.submit(lambda: 5)
    open_.set()
    assert all(future.result(20) for future in waiting) and done.result(20) == 5
    assert len({pool.submit(threading.get_ident).result(20) for _ in range(50)}) <= _aio.THREADS
    with pytest.raises(ZeroDivisionError):
        pool.submit(lambda: 1 // 0).result(20)


Ranges = st.lists(st.tuples(st.integers(0, len(DATA) + 100), st.integers(0, 70_000)), max_size=12)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(Ranges, st.sampled_from([None, 100_000]), st.integers(0, 1 << 17))
def test_any_reads_give_what_a_bytearray_gives(
    reads: list[tuple[int, int]], memory_bytes: int | None, allowance: int
) -> None:
    file = SparseFile.from_fetch(
        lambda start, end: DATA[start:end], len(DATA), memory_bytes=memory_bytes, allowance=allowance
    )
    for position, length in reads:
        assert file.read(position, length) == DATA[position : position + length]
        out = bytearray(length)
        count = file.readinto(position, out)
        assert out[:count] == DATA[position : position + length]
    inside = [(start, min(start + length, len(DATA))) for start, length in reads if start <= len(DATA)]
    assert file.read_many(inside) == [DATA[start:end] for start, end in inside]


def test_many_reads_leak_nothing(servers: Servers) -> None:
    file = SparseFile("s3://bucket/data.bin", settings=servers.settings)
    file.prefetch([(0, len(DATA))])
    out = bytearray(16)

    def round_(count: int) -> None:
        for number in range(count):
            position = number * 37 % 2_900_000
            file.read(position, 16)
            file.readinto(position, out)
            if number % 1000 == 0:
                file.read(position, 50_000)
                file.read_many([(position, position + 10)])
                pickle.dumps(file)

    round_(20_000)
    gc.collect()
    resident = resident_bytes()
    round_(480_000)
    gc.collect()
    assert resident_bytes() - resident < 4 << 20
