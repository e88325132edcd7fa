"""Archives: listed, got from and loaded as the command line does it."""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import pickle
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from pathlib import Path
from typing import Any, Callable

import pytest

import stook
from servers import Servers

LONG = bytes(range(256)) * 4000
#: Keys with kind and size, in the order of keys.
MEMBERS = [
    ("", "directory", 0),
    ("a", "file", 5),
    ("deep", "directory", 0),
    ("deep/b", "file", len(LONG)),
    ("deep/further", "hard_link", 5),
    ("link", "symlink", 6),
]
VALUES = {"": b"", "a": b"alpha", "deep": b"", "deep/b": LONG, "deep/further": b"alpha", "link": b"deep/b"}


@pytest.fixture
def tree() -> None:
    """A tree with a hard link and a symbolic link."""
    Path("tree/deep").mkdir(parents=True)
    Path("tree/a").write_bytes(b"alpha")
    Path("tree/deep/b").write_bytes(LONG)
    os.link("tree/a", "tree/deep/further")
    Path("tree/link").symlink_to("deep/b")


def make(name: str) -> str:
    """An archive of the tree."""
    mode: Any = "w:gz" if name.endswith(".gz") else "w"
    with tarfile.open(name, mode) as tar:
        tar.add("tree", ".")
    return name


def command(*arguments: str) -> str:
    """What the command line says, as JSON."""
    run = [sys.executable, "-W", "ignore", "-m", "stook", *arguments, "--json"]
    return subprocess.run(run, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("name", ["t.tar", "t.tar.gz"])
def test_members_are_listed_and_got_as_the_command_line_has_them(tree: None, name: str) -> None:
    with stook.Archive(make(name)) as archive:
        assert list(archive) == list(archive.keys()) == list(VALUES)
        assert len(archive) == len(MEMBERS) and "deep/b" in archive and b"a" in archive
        assert "none" not in archive and 7 not in archive
        for key, kind, size in MEMBERS:
            stat = archive.stat(key)
            assert stat is not None and (stat.key, stat.kind, stat.size) == (key, kind, size)
            assert stat.group is None and stat.time_ns is None and "mode" in stat.attributes
        assert {key: archive[key] for key in VALUES} == VALUES
        assert archive.stat("none") is None and archive.get("none") is None and archive.get(7, 5) == 5
        with pytest.raises(KeyError, match="none"):
            archive["none"]
        lines = [json.loads(line) for line in command("ls", name, "--long").splitlines()]
        assert [(line["key"], line["kind"], line["body_bytes"]) for line in lines] == MEMBERS


@pytest.mark.parametrize("name", ["t.tar", "t.tar.gz"])
def test_many_are_got_in_the_order_of_the_keys(tree: None, name: str) -> None:
    with stook.Archive(make(name)) as archive:
        wanted = ["link", "none", "deep/b", "a", "deep/b", "deep"]
        assert archive.get_many(wanted) == [VALUES.get(key) for key in wanted]
        assert archive.get_many(wanted, b"-")[1] == b"-"
        assert archive.get_many([]) == []
        assert dict(zip(archive, archive.get_many(archive))) == VALUES
        with pytest.raises(TypeError, match="several keys are wanted, not one"):
            archive.get_many("a")


def test_keys_of_a_range_are_those_of_a_pack(tree: None) -> None:
    stook.pack_tree(make("t.tar"), "t.stook")
    ranges: list[dict[str, Any]] = [
        {"prefix": "deep"},
        {"prefix": b"deep/"},
        {"start": "deep"},
        {"end": "deep/b"},
        {"start": "b", "end": "deep/c"},
        {"start": 0},
        {"end": 0},
    ]
    with stook.Archive("t.tar") as archive, stook.Pack("t.stook") as pack:
        for options in ranges:
            assert list(archive.keys(**options)) == list(pack.keys(**options)), options
        with pytest.raises(stook.InvalidError, match="either a prefix"):
            archive.keys(prefix="a", start="b")


def test_more_keys_than_a_batch_come_once_each() -> None:
    names = [f"{number:05}" for number in range(10_000)]
    with zipfile.ZipFile("many.zip", "w") as file:
        for name in names:
            file.writestr(name, name)
    with stook.Archive("many.zip") as archive:
        assert list(archive) == names
        assert list(archive.keys(prefix="0409")) == [name for name in names if name.startswith("0409")]
        assert archive.get_many(names[::1000]) == [name.encode() for name in names[::1000]]


@pytest.mark.parametrize("name", ["t.tar", "t.tar.gz"])
def test_a_load_reads_what_the_command_line_reads(tree: None, name: str) -> None:
    with stook.Archive(make(name)) as archive:
        calls: list[tuple[int, int]] = []
        report = archive.load(progress=lambda done, total: calls.append((done, total)))
        shown = json.loads(command("load", name))
        assert (report.members, report.bytes) == (shown["records"], shown["bytes"])
        assert report.ok and report.complete and report.failures == []
        assert calls[-1][0] == calls[-1][1] == report.bytes
        shown = json.loads(command("info", name))
        info = archive.info()
        assert info.path == Path(name) and info.members == len(MEMBERS) and not info.replaced
        for field in ("format", "sequential", "complete", "members", "files", "directories", "symlinks"):
            assert getattr(info, field) == shown[field]
        for field in ("hard_links", "other", "sparse", "replaced", "body_bytes", "stored_bytes", "file_bytes"):
            assert getattr(info, field) == shown[field]


def test_a_pipe_is_neither_file_nor_readable() -> None:
    with tarfile.open("t.tar", "w") as tar:
        pipe = tarfile.TarInfo("pipe")
        pipe.type = tarfile.FIFOTYPE
        tar.addfile(pipe)
    with stook.Archive("t.tar") as archive:
        stat = archive.stat("pipe")
        assert stat is not None and stat.kind == "other" and archive.info().other == 1
        with pytest.raises(stook.InvalidError, match="pipe is a pipe"):
            archive["pipe"]


def test_damage_is_reported_with_the_key_and_costs_one_member() -> None:
    with zipfile.ZipFile("x.zip", "w") as file:
        file.writestr("a", b"alpha")
        file.writestr("b", b"beta")
    data = Path("x.zip").read_bytes()
    Path("x.zip").write_bytes(data.replace(b"alpha", b"alphb", 1))
    with stook.Archive("x.zip") as archive:
        calls: list[Callable[[], object]] = [lambda: archive["a"], lambda: archive.get_many(["b", "a"])]
        for call in calls:
            with pytest.raises(stook.DamagedError) as caught:
                call()
            assert caught.value.key == "a" and caught.value.file == "x.zip"
        assert archive["b"] == b"beta"
        report = archive.load()
        (failure,) = report.failures
        assert not report.ok and report.members == 1
        assert failure.key == "a" and isinstance(failure.error, stook.DamagedError)


def test_a_compressed_tar_is_believed_only_with_its_checksum(tree: None) -> None:
    data = bytearray(Path(make("t.tar.gz")).read_bytes())
    data[-6] ^= 1
    Path("t.tar.gz").write_bytes(data)
    with pytest.raises(stook.DamagedError):
        stook.Archive("t.tar.gz")["a"]


def test_a_tar_without_an_end_may_have_been_cut_off(tree: None) -> None:
    data = Path(make("t.tar")).read_bytes()
    while data.endswith(bytes(512)):
        data = data[:-512]
    Path("cut.tar").write_bytes(data)
    with pytest.warns(stook.DamageWarning, match="does not end as a tar does"):
        archive = stook.Archive("cut.tar")
    with archive:
        assert not archive.info().complete and not archive.load().ok


def test_what_is_no_archive_is_refused(filled: Path) -> None:
    Path("text").write_bytes(b"text")
    Path("folder").mkdir()
    Path("folder/file").write_bytes(b"")
    wrong: list[tuple[Any, type[Exception], str]] = [
        ("none", FileNotFoundError, "none"),
        ("text", stook.NotAPackError, "it is not a tar, tar.gz, tar.zst, tar.xz or zip"),
        ("folder", stook.NotAPackError, "is not a pack"),
        (filled, stook.InvalidError, "is a pack: stook.Pack reads it"),
        (5, TypeError, "argument 'path': expected str, bytes or os.PathLike object, not int"),
    ]
    for path, error, message in wrong:
        with pytest.raises(error, match=message):
            stook.Archive(path)


def test_a_closed_archive_says_so(tree: None) -> None:
    archive = stook.Archive(make("t.tar"))
    keys = archive.keys()
    assert not archive.closed and repr(archive) == "<stook.Archive t.tar>"
    archive.close()
    archive.close()
    calls: list[Callable[[], object]] = [
        lambda: archive["a"],
        lambda: "a" in archive,
        lambda: len(archive),
        lambda: list(archive),
        lambda: archive.get("a"),
        lambda: archive.get_many(["a"]),
        lambda: archive.keys(),
        lambda: archive.stat("a"),
        lambda: archive.load(),
        lambda: archive.items(),
        lambda: archive.open("a"),
        lambda: archive.info(),
        lambda: pickle.dumps(archive),
        lambda: archive.__enter__(),
    ]
    for call in calls:
        with pytest.raises(stook.ClosedError, match="this archive is closed"):
            call()
    assert archive.closed and repr(archive) == "<stook.Archive t.tar (closed)>"
    assert list(keys) == list(VALUES), "keys outlive it"


def test_archives_are_pickled_and_used_by_threads(tree: None, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = stook.Archive(make("t.tar"))
    pickled = pickle.dumps(archive)
    got: list[bytes] = []
    threads = [threading.Thread(target=lambda: got.append(archive["deep/b"])) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [LONG] * 8
    monkeypatch.chdir("tree")
    assert pickle.loads(pickled)["a"] == b"alpha"


def sparse(length: int, data: bytes) -> str:
    """A tar with a file of this length, of which only bytes at its beginning are stored."""
    member = tarfile.TarInfo("huge")
    table = (b"2\n0\n%d\n%d\n0\n" % (len(data), length)).ljust(512, b"\0")
    member.size = len(table) + len(data)
    member.pax_headers = {
        "GNU.sparse.major": "1",
        "GNU.sparse.minor": "0",
        "GNU.sparse.name": "huge",
        "GNU.sparse.realsize": str(length),
    }
    with tarfile.open("t.tar", "w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(member, io.BytesIO(table + data))
        tar.addfile(tarfile.TarInfo("after"))
    return "t.tar"


def test_a_hole_that_is_longer_than_memory_is_refused_and_read_by_range() -> None:
    # Before: as much memory as it has zeroes was asked for.
    with stook.Archive(sparse(1 << 50, b"begin" * 200)) as archive:
        stat = archive.stat("huge")
        assert stat is not None and stat.size == 1 << 50
        calls: list[Callable[[], object]] = [
            lambda: archive["huge"],
            lambda: archive.get_many(["after", "huge"]),
            lambda: list(archive.items()),
        ]
        for call in calls:
            with pytest.raises(stook.LimitError, match="huge has more than .* of holes.*open it"):
                call()
        with archive.open("huge") as file:
            assert file.size == 1 << 50 and file.read(7) == b"beginbe"
            assert file.read_at(1 << 49, 4) == bytes(4)
            file.seek(-2, os.SEEK_END)
            assert file.read() == bytes(2)


def test_a_hole_that_fits_is_zeroes() -> None:
    with stook.Archive(sparse(1 << 20, b"begin" * 200)) as archive:
        assert archive["huge"] == (b"begin" * 200).ljust(1 << 20, b"\0")


@pytest.mark.parametrize("name", ["t.tar", "t.tar.gz"])
def test_items_are_files_in_the_order_of_the_archive_and_hard_links_have_their_content(tree: None, name: str) -> None:
    with stook.Archive(make(name)) as archive:
        items = archive.items()
        with tarfile.open(name) as tar:
            files = [one.name.lstrip("./") for one in tar if one.isreg()]
        first = next(items)
        found = dict([first, *items])
        assert first[0] == files[0] and found == {key: VALUES[key] for key in ("a", "deep/b", "deep/further")}
        assert list(items) == []
    assert next(items, None) is None, "an iterator that has ended stays so"


def test_items_continue_after_a_damaged_member() -> None:
    with zipfile.ZipFile("x.zip", "w") as file:
        for key in ("c", "a", "b"):
            file.writestr(key, b"body of " + key.encode())
    data = Path("x.zip").read_bytes()
    Path("x.zip").write_bytes(data.replace(b"body of a", b"body of x", 1))
    items = stook.Archive("x.zip").items()
    assert next(items) == ("c", b"body of c")
    with pytest.raises(stook.DamagedError) as caught:
        next(items)
    assert caught.value.key == "a"
    assert list(items) == [("b", b"body of b")]


@pytest.mark.parametrize("name", ["t.tar", "t.tar.gz"])
def test_members_are_opened_as_files(tree: None, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = stook.Archive(make(name))
    with archive.open("deep/b") as file:
        archive.close()
        assert file.size == len(LONG) and file.read_at(1000, 7) == LONG[1000:1007]
        assert file.read() == LONG and file.read() == b""
        with monkeypatch.context() as elsewhere:
            elsewhere.chdir("tree")
            again = pickle.loads(pickle.dumps(file))
        assert again.read_at(5, 5) == LONG[5:10]
    with stook.Archive(name) as archive:
        assert archive.open("deep/further").read() == b"alpha" and archive.open("link").read() == b"deep/b"
        with pytest.raises(KeyError, match="none"):
            archive.open("none")
        with pytest.raises(IsADirectoryError):
            archive.open("deep")


def test_deflated_members_are_opened_and_verified() -> None:
    with zipfile.ZipFile("x.zip", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("long", LONG)
    with stook.Archive("x.zip") as archive:
        assert archive.open("long").read_at(70_000, 3) == LONG[70_000:70_003]
    data = bytearray(Path("x.zip").read_bytes())
    data[200] ^= 0xFF
    Path("x.zip").write_bytes(data)
    with stook.Archive("x.zip") as archive, pytest.raises(stook.DamagedError):
        archive.open("long")


def test_a_get_of_a_local_archive_takes_no_thread(tree: None) -> None:
    # Before: each get from the main thread had a thread made for it.
    with stook.Archive(make("t.tar")) as archive:
        threads: set[int] = set()
        stop = threading.Event()

        def waiting() -> set[int]:
            names = [Path(f"/proc/self/task/{task}/comm") for task in os.listdir("/proc/self/task")]
            return {int(name.parent.name) for name in names if _comm(name) == "stook-wait"}

        def watch() -> None:
            while not stop.is_set():
                threads.update(waiting())

        # That of the opening may still be ending.
        while waiting():
            time.sleep(0.001)
        watching = threading.Thread(target=watch)
        watching.start()
        for _ in range(200):
            assert archive["a"] == b"alpha"
        stop.set()
        watching.join()
        assert threads == set()


def _comm(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def test_what_progress_raises_ends_a_load(tree: None) -> None:
    def refuse(*_: int) -> None:
        raise RuntimeError("enough")

    with stook.Archive(make("t.tar.gz")) as archive:
        with pytest.raises(RuntimeError, match="enough"):
            archive.load(progress=refuse)
        assert archive.load().ok, "it is of use afterwards"


def test_an_archive_on_a_server_is_read_as_the_file_is(tree: None) -> None:
    bucket = Path("served/bucket")
    bucket.mkdir(parents=True)
    Path(make("t.tar")).rename(bucket / "t.tar")
    address = "s3://bucket/t.tar"
    with Servers(Path("served")) as servers:
        for requests in (2, 1):
            with stook.Archive(address, settings=servers.settings, cache="cache") as archive:
                assert {key: archive[key] for key in VALUES} == VALUES
                # Before: what is kept as a path had one slash of the two.
                assert archive.path == archive.info().path == address
                assert repr(archive) == f"<stook.Archive {address}>"
            assert len(servers.log()[0]) == requests, "its first byte, and all of it, since it is short"
        cache = stook.DiskCache("cache", budget_bytes=1 << 30)
        with stook.Archive(address, settings=servers.settings, cache=cache) as archive:
            pickled = pickle.dumps(archive)
        with pickle.loads(pickled) as again:
            assert again.path == address and again["deep/b"] == LONG and again.load().ok
        assert [request.is_data for request in servers.log()[0]] == [False, False], "it was there"
        web = servers.web + "/no-ranges/bucket/t.tar"
        with pytest.raises(stook.RemoteError, match="whole_file=True does that"):
            stook.Archive(web)
        with stook.Archive(web, whole_file=True, headers={"X-Asked-By": "a test"}) as archive:
            assert archive.get_many(["deep/b", "none"]) == [LONG, None]
            with pickle.loads(pickle.dumps(archive)) as again:
                assert again["a"] == b"alpha"


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_reads_on_in_an_archive_on_a_server() -> None:
    bucket = Path("served/bucket")
    bucket.mkdir(parents=True)
    bodies = {str(number): bytes([number]) * 1_000_000 for number in range(8)}
    with zipfile.ZipFile(bucket / "x.zip", "w") as file:
        for name, body in bodies.items():
            file.writestr(name, body)
    with Servers(Path("served")) as servers:
        archive = stook.Archive("s3://bucket/x.zip", settings=servers.settings, cache="cache")
        # Others fetch while it forks, and are not there in the child.
        fetching = [threading.Thread(target=archive.get, args=(name,)) for name in bodies]
        for thread in fetching:
            thread.start()
        process = multiprocessing.get_context("fork").Process(target=_child, args=(archive, bodies))
        process.start()
        process.join(20)
        assert process.exitcode == 0
        for thread in fetching:
            thread.join()
        assert archive.get_many(list(bodies)) == list(bodies.values())


def _child(archive: stook.Archive, bodies: dict[str, bytes]) -> None:
    assert archive.get_many(list(bodies)) == list(bodies.values())
    archive.close()
