"""`stook.open` and what it gives."""

from __future__ import annotations

import io
import os
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stook
from servers import Servers
from stook import File, LocalFile, SparseFile

DATA = b"".join(b"line %d\n" % number for number in range(100_000))


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    directory = tmp_path_factory.mktemp("served")
    (directory / "bucket").mkdir()
    (directory / "bucket" / "lines.txt").write_bytes(DATA)
    with Servers(directory) as servers:
        yield servers


@pytest.fixture(params=["s3", "http", "local", "cached"])
def file(servers: Servers, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[File]:
    path = servers.directory / "bucket" / "lines.txt"
    opened: dict[str, Callable[[], File]] = {
        "s3": lambda: stook.open("s3://bucket/lines.txt", settings=servers.settings),
        "http": lambda: stook.open(servers.web + "/ok/bucket/lines.txt"),
        "local": lambda: stook.open(path),
        "cached": lambda: stook.open(str(path), "rb", cache=tmp_path / "cache"),
    }
    with opened[request.param]() as file:
        yield file


def test_it_is_read_as_files_are(file: File) -> None:
    assert isinstance(file, io.BufferedIOBase)
    assert (file.readable(), file.seekable(), file.writable(), file.isatty()) == (True, True, False, False)
    assert (file.size, file.mode, file.name.endswith("lines.txt")) == (len(DATA), "rb", True)
    assert file.read(4) == b"line" and file.tell() == 4
    assert file.readline() == b" 0\n"
    assert file.readlines(20) == [b"line 1\n", b"line 2\n", b"line 3\n"]
    assert file.peek(3)[:3] == b"lin" and file.tell() == 28
    assert file.seek(-7, os.SEEK_END) == len(DATA) - 7 and file.read() == DATA[-7:]
    assert file.read() == file.read(5) == b"" == file.readline()
    assert file.seek(10) == 10 and file.seek(-3, os.SEEK_CUR) == 7
    out = bytearray(5)
    assert file.readinto(out) == 5 and bytes(out) == b"line "
    assert file.readinto1(out) == 5 and file.tell() == 17
    assert file.read1(3) == DATA[17:20] and len(file.read1()) > 100
    assert file.read_at(7, 6) == b"line 1"
    assert file.seek(len(DATA) + 50) == len(DATA) + 50 and file.read(1) == b""
    file.seek(0)
    assert file.read(None) == DATA
    file.prefetch([(0, 10)])
    assert file.statistics().reads > 5
    assert next(iter(stook.open(file.name))) == b"line 0\n" if isinstance(file.base, LocalFile) else True
    assert "of 1088890 bytes" in repr(file)


def test_lines_are_those_of_the_standard_library(file: File) -> None:
    assert list(io.TextIOWrapper(file, "utf-8"))[-3:] == ["line 99997\n", "line 99998\n", "line 99999\n"]


def test_everything_refuses_once_it_is_closed(file: File) -> None:
    file.close()
    file.close()
    assert file.closed and "closed" in repr(file) and file.base.closed
    calls: list[Callable[[], object]] = [
        file.read,
        file.read1,
        file.tell,
        file.readable,
        file.seekable,
        file.writable,
        file.peek,
        file.statistics,
        lambda: file.seek(0),
        lambda: file.readinto(bytearray(1)),
        lambda: file.read_at(0, 1),
        lambda: file.prefetch([]),
        lambda: pickle.dumps(file),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="closed"):
            call()
    with pytest.raises(ValueError, match="closed"):
        file.readline()


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda f: f.seek(-1), stook.InvalidError, "before the beginning"),
        (lambda f: f.seek(0, 9), stook.InvalidError, "whence is 0, 1 or 2, not 9"),
        (lambda f: f.read("x"), TypeError, "not supported between"),
        (lambda f: f.readinto(b"x"), (TypeError, BufferError), "writable|written"),
        (lambda f: f.read_at(-1, 2), stook.InvalidError, "0 or more|from 0 on"),
        (lambda f: f.prefetch([(2, 1)]), stook.InvalidError, r"\(2, 1\)"),
        (lambda f: f.prefetch([(0, 1 << 40)]), stook.OutOfBoundsError, "past the end"),
        (lambda f: f.write(b"x"), io.UnsupportedOperation, "write"),
    ],
)
def test_bad_arguments(file: File, call: Callable[[Any], object], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call(file)


def test_what_cannot_be_opened(servers: Servers, tmp_path: Path) -> None:
    with pytest.raises(stook.InvalidError, match="nothing can be written"):
        stook.open(tmp_path, "wb")
    with pytest.raises(FileNotFoundError):
        stook.open(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError):
        stook.open(servers.web + "/ok/bucket/nothing")
    with pytest.raises(stook.AddressError):
        stook.open("ftp://host/x")
    with pytest.raises(stook.AddressError):
        stook.open("file://host/x")
    with pytest.raises(TypeError, match="unknown"):
        stook.open(tmp_path / "x", unknown=1)  # type: ignore[call-arg]
    ways: list[dict[str, Any]] = [{}, {"memory_bytes": 1 << 20}]
    for options in ways:
        with pytest.raises(IsADirectoryError) as raised:
            stook.open(tmp_path, **options)
        assert os.fspath(raised.value.filename) == str(tmp_path)
    with pytest.raises(IsADirectoryError):
        SparseFile(f"file://{tmp_path}")


def test_an_address_of_a_file_means_the_same_with_and_without_a_cache(tmp_path: Path) -> None:
    (tmp_path / "a#b?c d").write_bytes(b"bytes")
    ways: list[dict[str, Any]] = [{}, {"memory_bytes": 1 << 20}]
    for options in ways:
        with stook.open(f"file://{tmp_path}/a#b?c%20d", **options) as file:
            assert file.read() == b"bytes"
        with pytest.raises(stook.AddressError, match="two hexadecimal digits"):
            stook.open("file:///a%2", **options)


def test_paths_of_all_kinds(servers: Servers) -> None:
    path = servers.directory / "bucket" / "lines.txt"
    for address in (path, str(path), os.fsencode(path), f"file://{path}"):
        with stook.open(address) as file:
            assert isinstance(file.base, LocalFile)
            assert file.read(6) == b"line 0"
    with stook.open(path, memory_bytes=1 << 20) as file:
        assert isinstance(file.base, SparseFile)


def test_records_of_packs(tmp_path: Path) -> None:
    with stook.Pack(tmp_path / "data.stook", "x") as pack:
        pack["folder/lines"] = DATA
        pack[7] = b"seven"
    with stook.open(f"{tmp_path}/data.stook//folder/lines") as file:
        assert file.readline() == b"line 0\n" and file.size == len(DATA)
        assert pickle.loads(pickle.dumps(file)).readline() == b"line 1\n"
    with stook.open("data.stook//7") as file:
        assert file.read() == b"seven"
    with pytest.raises(FileNotFoundError, match="no such record"):
        stook.open("data.stook//nothing")


def test_directories_and_links_in_packs(tmp_path: Path) -> None:
    with stook.Pack(tmp_path / "data.stook", "x") as pack:
        pack.put("2018", b"", attributes={"kind": "directory"})
        pack.put("2018/empty", b"")
        pack.put("latest", b"2018/empty", attributes={"kind": "symlink"})
    with pytest.raises(IsADirectoryError) as raised:
        stook.open(f"{tmp_path}/data.stook//2018")
    assert raised.value.filename == f"{tmp_path}/data.stook//2018"
    with stook.open(f"{tmp_path}/data.stook//2018/empty") as file:
        assert file.read() == b""
    with stook.open(f"{tmp_path}/data.stook//latest") as file:
        assert file.read() == b"2018/empty", "what `stook get` gives"


def test_local_files_by_range(servers: Servers) -> None:
    file = LocalFile(servers.directory / "bucket" / "lines.txt")
    assert file.read_many([(0, 4), (7, 11)]) == [b"line", b"line"]
    assert file.read(len(DATA) - 2, 10) == b"9\n" and file.read(1 << 40, 5) == b""
    numbers: Any = np.zeros(4, np.uint32)
    assert file.readinto(0, numbers) == 16 and numbers.tobytes() == DATA[:16]
    assert (file.statistics().reads, file.statistics().requests) == (5, 0)
    assert pickle.loads(pickle.dumps(file)).read(0, 4) == b"line"
    with pytest.raises(stook.OutOfBoundsError):
        file.read_many([(0, len(DATA) + 1)])
    file.close()
    for call in (lambda: file.read(0, 1), lambda: file.readinto(0, bytearray(1)), lambda: file.read_many([])):
        with pytest.raises(stook.ClosedError, match="closed"):
            call()


def test_a_read_of_a_local_file_ends_on_that_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").write_bytes(b"mine")
    (tmp_path / "other").write_bytes(b"other")
    file, others, pread = LocalFile(tmp_path / "mine"), [], os.pread
    before = len(os.listdir("/dev/fd"))

    def close_first(descriptor: int, length: int, position: int) -> bytes:
        # As another thread may, right before the system is asked.
        file.close()
        others.append((tmp_path / "other").open("rb"))
        return pread(descriptor, length, position)

    monkeypatch.setattr(os, "pread", close_first)
    assert file.read(0, 4) == b"mine"
    with pytest.raises(stook.ClosedError):
        file.read(0, 4)
    assert len(others) == 1 and len(os.listdir("/dev/fd")) == before, "what was closed is so once it was read"
    others[0].close()


def test_a_local_file_ends_where_it_ended_when_it_was_opened(tmp_path: Path) -> None:
    path = tmp_path / "growing"
    path.write_bytes(b"12345")
    with stook.open(path) as file:
        with path.open("ab") as more:
            more.write(b"6789")
        out = bytearray(8)
        assert file.readinto(out) == 5 and out == b"12345\0\0\0"
        assert file.readinto(out) == 0 and file.read() == b""


def test_memory_with_a_dimension_of_nothing_is_read_into(file: File) -> None:
    for nothing in (np.zeros((0, 3)), np.zeros((2, 0), np.uint8), bytearray()):
        assert file.readinto(nothing) == 0 == file.tell()  # type: ignore[arg-type, unused-ignore]


def test_pickles_keep_the_position(file: File) -> None:
    file.seek(7)
    assert pickle.loads(pickle.dumps(file)).read(6) == b"line 1"


def test_threads_share_one_position_and_read_at_none(file: File) -> None:
    got: list[bytes] = []
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(200):
                got.append(file.read(7))
                assert file.read_at(0, 7) == b"line 0\n"
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert sorted(got) == sorted(DATA[at : at + 7] for at in range(0, 8 * 200 * 7, 7)), "every byte once"


Step = st.one_of(
    st.tuples(st.just("read"), st.integers(-1, 300)),
    st.tuples(st.just("read1"), st.integers(0, 300)),
    st.tuples(st.just("readinto"), st.integers(0, 300)),
    st.tuples(st.just("readline"), st.integers(-1, 20)),
    st.tuples(st.just("seek"), st.integers(0, 6000), st.just(0)),
    st.tuples(st.just("seek"), st.integers(-50, 50), st.just(1)),
    st.tuples(st.just("seek"), st.integers(-5000, 50), st.just(2)),
)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(Step, max_size=30))
def test_it_does_what_bytesio_does(steps: list[tuple[Any, ...]]) -> None:
    data = DATA[:5000]
    file, model = File(SparseFile.from_fetch(lambda start, end: data[start:end], len(data))), io.BytesIO(data)
    for name, *arguments in steps:
        if name == "readinto":
            ours, theirs = bytearray(arguments[0]), bytearray(arguments[0])
            assert file.readinto(ours) == model.readinto(theirs) and ours == theirs
        elif name == "seek" and arguments[1] and {1: model.tell(), 2: len(data)}[arguments[1]] + arguments[0] < 0:
            # BytesIO stops at the beginning; files, and this one, refuse.
            continue
        else:
            assert getattr(file, name)(*arguments) == getattr(model, name)(*arguments)
        assert file.tell() == model.tell()


def test_a_record_is_a_file_of_its_pack(tmp_path: Path) -> None:
    with stook.Pack(tmp_path / "data.stook", "x") as pack:
        pack["lines"] = DATA
        file = pack.open("lines")
        pack["lines"] = b"another"
        assert pack.open("lines").read() == b"another"
        with pytest.raises(KeyError):
            pack.open("nothing")
    # The pack is closed and the record replaced: the file shows what it was opened over.
    base = file.base
    assert isinstance(base, stook.RecordFile)
    assert (base.key, base.size, base.name.endswith("data.stook//lines")) == ("lines", len(DATA), True)
    for start in (0, 1, 65_535, 65_536, 65_537, len(DATA) - 5):
        assert file.seek(start) == start and file.read(70_000) == DATA[start : start + 70_000]
    out = bytearray(10)
    assert file.seek(-4, os.SEEK_END) and file.readinto(out) == 4 and out[:4] == DATA[-4:]
    assert base.read_many([(0, 4), (500_000, 500_004), (7, 7)]) == [b"line", DATA[500_000:500_004], b""]
    called: list[tuple[int, int]] = []
    file.prefetch([(0, len(DATA))], progress=lambda done, total: called.append((done, total)))
    assert called[-1] == (len(DATA), len(DATA))
    with pytest.raises(stook.OutOfBoundsError):
        file.prefetch([(0, len(DATA) + 1)])
    # Another process finds the newest state.
    assert pickle.loads(pickle.dumps(base)).read(0, 4) == b"anot"
    file.close()
    assert base.closed
    with pytest.raises(ValueError, match="closed"):
        base.read(0, 1)


def test_what_an_address_names_is_open_as_long_as_its_file(tmp_path: Path) -> None:
    with stook.Pack(tmp_path / "data.stook", "x") as pack:
        pack["lines"] = DATA
        with stook.RecordFile(pack, "lines") as record:
            assert record.read(0, 4) == b"line"
        with pytest.raises(KeyError):
            stook.RecordFile(pack, "nothing")
    with stook.open(f"{tmp_path}/data.stook//lines") as file:
        base = file.base
        assert isinstance(base, stook.RecordFile)
        assert file.read_at(700, 7) == DATA[700:707]
    assert base.closed
    with stook.open(f"{tmp_path}/data.stook//lines", memory_bytes=1 << 20) as file:
        assert isinstance(file.base, SparseFile) and file.read_at(700, 7) == DATA[700:707]


# What is not indexed yet is looked at, and warned of, when the pack is opened.
@pytest.mark.filterwarnings("ignore::stook.DamageWarning")
def test_damage_of_a_record_costs_the_reads_that_touch_it(tmp_path: Path) -> None:
    with stook.Pack(tmp_path / "data.stook", "x") as pack:
        pack["lines"] = DATA
    (segment,) = (tmp_path / "data.stook").glob("segment-*")
    content = bytearray(segment.read_bytes())
    content[content.index(DATA) + 300_000] ^= 1
    segment.write_bytes(content)
    with stook.Pack(tmp_path / "data.stook") as pack, pack.open("lines") as file:
        chunk = 300_000 // 65_536 * 65_536
        assert file.read_at(0, chunk) == DATA[:chunk]
        assert file.read_at(chunk + 65_536, 1 << 30) == DATA[chunk + 65_536 :]
        with pytest.raises(stook.DamagedError) as raised:
            file.read_at(chunk, 1)
        assert (raised.value.key, raised.value.file, raised.value.offset > chunk) == ("lines", str(segment), True)
