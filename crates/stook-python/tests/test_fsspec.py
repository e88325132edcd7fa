"""`stook.fsspec`: packs as a file system, other file systems through the cache, and the cache type.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pandas as pd
import pytest
from addressed import Addressed
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

import stook
from stook._stook import who_asks
from stook.fsspec import StookCache, StookCacheFileSystem, StookFileSystem

DATA = np.random.default_rng(2).bytes(2_000_000)


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    path = tmp_path / "data.stook"
    table = io.BytesIO()
    pd.DataFrame({"a": range(10), "b": list("abcdefghij")}).to_parquet(table)
    with stook.Pack(path, "x") as pack:
        pack["top"] = b"top bytes"
        pack["dir/one"] = b"1"
        pack["dir/two"] = b"22"
        pack["dir/deep/three"] = b"333"
        pack["table.parquet"] = table.getvalue()
        pack[17] = b"an id"
    return path


def test_open_by_address(pack: Path) -> None:
    with fsspec.open(f"stook://{pack}//top") as file:
        assert file.read() == b"top bytes"
    with fsspec.open(f"stook://{pack}//dir/two", "rt") as file:
        assert file.read() == "22"
    with fsspec.open(f"stook://{pack}//17") as file:
        assert file.read() == b"an id"
    frame = pd.read_parquet(f"stook://{pack}//table.parquet", columns=["b"])
    assert list(frame["b"]) == list("abcdefghij")
    frame = pd.read_parquet("stook://data.stook//table.parquet")
    assert list(frame.columns) == ["a", "b"], "where the pack is named from the working directory"


def test_it_is_a_file_system(pack: Path) -> None:
    fs = fsspec.filesystem("stook")
    assert isinstance(fs, StookFileSystem)
    assert fs.ls(f"{pack}", detail=False) == [f"{pack}//{name}" for name in ("17", "dir", "table.parquet", "top")]
    assert fs.ls(f"stook://{pack}//dir/", detail=False) == [f"{pack}//dir/{name}" for name in ("deep", "one", "two")]
    kinds = {entry["name"].rpartition("/")[2]: entry["type"] for entry in fs.ls(f"{pack}//dir")}
    assert kinds == {"deep": "directory", "one": "file", "two": "file"}
    assert fs.ls(f"{pack}//top") == [{"name": f"{pack}//top", "size": 9, "type": "file"}]
    assert fs.info(f"{pack}//dir/two") == {"name": f"{pack}//dir/two", "size": 2, "type": "file"}
    assert fs.info(f"{pack}//dir")["type"] == "directory" == fs.info(str(pack))["type"]
    assert fs.find(f"{pack}//dir") == [f"{pack}//dir/{name}" for name in ("deep/three", "one", "two")]
    assert fs.find(f"{pack}//dir", maxdepth=1) == [f"{pack}//dir/one", f"{pack}//dir/two"]
    assert set(fs.find(str(pack), detail=True)) == {
        f"{pack}//{key}" for key in ("17", "dir/deep/three", "dir/one", "dir/two", "table.parquet", "top")
    }
    assert fs.glob(f"{pack}//dir/t*") == [f"{pack}//dir/two"]
    assert fs.exists(f"{pack}//top") and not fs.exists(f"{pack}//nothing")
    assert fs.isdir(f"{pack}//dir") and fs.isfile(f"{pack}//top") and not fs.isdir(f"{pack}//top")
    assert fs.cat(f"{pack}//top") == b"top bytes" == fs.cat_file(f"{pack}//top")
    assert fs.cat_file(f"{pack}//top", 4, -1) == b"byte"
    both = fs.cat([f"{pack}//dir/one", f"{pack}//17"])
    assert both == {f"{pack}//dir/one": b"1", f"{pack}//17": b"an id"}
    assert fs.cat(f"{pack}//dir", recursive=True) == {
        f"{pack}//dir/deep/three": b"333",
        f"{pack}//dir/one": b"1",
        f"{pack}//dir/two": b"22",
    }
    assert fs.cat_ranges([f"{pack}//top", f"{pack}//top"], [0, 4], [3, 9]) == [b"top", b"bytes"]
    assert [names for _, _, names in fs.walk(f"{pack}//dir")] == [["one", "two"], ["three"]]
    assert fs.unstrip_protocol(f"{pack}//top") == f"stook://{pack}//top"
    assert pickle.loads(pickle.dumps(fs)).cat(f"{pack}//top") == b"top bytes"


@pytest.mark.parametrize("name", ["mapped.stook", "mapped"])
def test_a_mapper_has_the_values_of_a_pack_whatever_the_pack_is_called(tmp_path: Path, name: str) -> None:
    with stook.Pack(name, "x") as made:
        made["top"] = b"top bytes"
        made["dir/one"] = b"1"
    for address in (f"stook://{name}", f"stook://{tmp_path}/{name}", f"stook://{tmp_path}/{name}//"):
        mapper = fsspec.get_mapper(address)
        assert dict(mapper) == {"top": b"top bytes", "dir/one": b"1"}, address
        assert "top" in mapper and "none" not in mapper
    assert dict(fsspec.get_mapper(f"stook://{name}//dir")) == {"one": b"1"}


def test_what_is_not_there_or_cannot_be_done(pack: Path, tmp_path: Path) -> None:
    fs = StookFileSystem(skip_instance_cache=True)
    for call in (
        lambda: fs.cat(f"{pack}//nothing"),
        lambda: fs.open(f"{pack}//nothing"),
        lambda: fs.info(f"{pack}//nothing"),
        lambda: fs.ls(f"{pack}//nothing"),
        lambda: fs.cat([f"{pack}//top", f"{pack}//nothing"]),
    ):
        with pytest.raises(FileNotFoundError, match="nothing"):
            call()
    assert set(fs.cat([f"{pack}//top", f"{pack}//nothing"], on_error="omit")) == {f"{pack}//top"}
    with pytest.raises(FileNotFoundError):
        fs.cat(f"{tmp_path}/none.stook//x")
    with pytest.raises(stook.InvalidError, match="written with stook.Pack"):
        fs.open(f"{pack}//new", "wb")
    with pytest.raises(NotImplementedError):
        fs.modified(f"{pack}//top")


WRITES: dict[str, tuple[Any, ...]] = {
    "mkdir": ("{pack}//d",),
    "makedir": ("{pack}//d",),
    "makedirs": ("{pack}//d",),
    "mkdirs": ("{pack}//d",),
    "rmdir": ("{pack}//d",),
    "rm": ("{pack}//top",),
    "rm_file": ("{pack}//top",),
    "delete": ("{pack}//top",),
    "cp_file": ("{pack}//top", "{pack}//new"),
    "copy": ("{pack}//top", "{pack}//new"),
    "cp": ("{pack}//top", "{pack}//new"),
    "mv": ("{pack}//top", "{pack}//new"),
    "move": ("{pack}//top", "{pack}//new"),
    "rename": ("{pack}//top", "{pack}//new"),
    "touch": ("{pack}//new",),
    "pipe": ("{pack}//new", b"x"),
    "pipe_file": ("{pack}//new", b"x"),
    "write_bytes": ("{pack}//new", b"x"),
    "write_text": ("{pack}//new", "x"),
    "put": ("file", "{pack}//new"),
    "put_file": ("file", "{pack}//new"),
    "upload": ("file", "{pack}//new"),
}


@pytest.mark.parametrize("name", WRITES)
def test_no_method_seems_to_have_written_to_a_pack(pack: Path, name: str) -> None:
    Path("file").write_bytes(b"x")
    fs = StookFileSystem(skip_instance_cache=True)
    arguments = [one.format(pack=pack) if isinstance(one, str) else one for one in WRITES[name]]
    with pytest.raises(stook.InvalidError, match="packs are read here; they are written with stook.Pack"):
        getattr(fs, name)(*arguments)


def test_an_opened_record_says_of_itself_what_files_of_fsspec_do(pack: Path) -> None:
    fs = StookFileSystem(skip_instance_cache=True)
    content = fs.cat(f"{pack}//top")
    with fs.open(f"{pack}//top") as file:
        assert (file.size, file.path, file.mode, file.fs) == (len(content), f"{pack}//top", "rb", fs)
        assert file.details == file.info() == fs.info(f"{pack}//top")
        assert file.full_name == f"stook://{pack}//top" and file.name == file.path
        assert file.read() == content
    # What dask reads its pieces with.
    assert fs.read_block(f"{pack}//top", 0, None) == content
    assert fs.read_block(f"{pack}//top", 1, 3) == content[1:4]


# What is not indexed yet is looked at, and warned of, when the pack is opened.
@pytest.mark.filterwarnings("ignore::stook.DamageWarning")
def test_ranges_of_a_record_read_no_damage_that_they_do_not_touch(tmp_path: Path) -> None:
    path = tmp_path / "data.stook"
    with stook.Pack(path, "x") as made:
        made["data"] = DATA
        made["empty"] = b""
    (segment,) = path.glob("segment-*")
    content = bytearray(segment.read_bytes())
    content[content.index(DATA) + 1_000_000] ^= 1
    segment.write_bytes(content)
    fs = StookFileSystem(skip_instance_cache=True)
    ranges: list[tuple[Any, Any]] = [(0, 10), (None, 900_000), (1_100_000, None), (-7, None), (-7, -3), (5, 5), (9, 2)]
    for start, end in ranges:
        assert fs.cat_file(f"{path}//data", start, end) == DATA[start:end]
    assert fs.cat_file(f"{path}//data", 1_999_990, 3_000_000) == DATA[-10:]
    assert fs.cat_ranges([f"{path}//data"] * 2, [0, 1_500_000], [3, 1_500_003]) == [DATA[:3], DATA[1_500_000:1_500_003]]
    assert fs.cat_file(f"{path}//empty", 0, 5) == b"" == fs.cat_file(f"{path}//empty")
    with fs.open(f"{path}//data") as file:
        assert file.read(5) == DATA[:5] and file.seek(-5, 2) and file.read() == DATA[-5:]
        again = pickle.loads(pickle.dumps(file))
        assert (again.tell(), again.seek(3), again.read(4)) == (len(DATA), 3, DATA[3:7])
        assert again.path == f"{path}//data" and isinstance(again.fs, StookFileSystem)
        # What was open stays open.
        fs.invalidate_cache()
        assert file.seek(7) and file.read(3) == DATA[7:10]
        assert file.statistics().asked_bytes == 13
        with pytest.raises(stook.DamagedError):
            file.seek(0)
            file.read()
    with pytest.raises(ValueError, match="closed"):
        file.read(1)
    for bounds in ((None, None), (999_000, 1_001_000)):
        with pytest.raises(stook.DamagedError):
            fs.cat_file(f"{path}//data", *bounds)


#: The system counts what system calls read, not what io_uring does.
COUNTED = """
import sys
from pathlib import Path
from stook.fsspec import StookFileSystem

def count(read):
    counted = lambda: int(Path("/proc/self/io").read_text().split()[1])
    before = counted()
    read()
    return counted() - before

def head_and_tail():
    with fs.open(path + "//long") as file:
        assert file.read(4) == b"head" and file.seek(-4, 2) and file.read() == b"tail"

fs, path = StookFileSystem(), sys.argv[1]
assert fs.cat_file(path + "//short") == b"short"
print(
    count(head_and_tail),
    count(lambda: fs.cat_file(path + "//long", 16 << 20, (16 << 20) + 10)),
    count(lambda: fs.head(path + "//long", 10)),
    count(lambda: fs.cat_file(path + "//long")),
)
"""


def test_no_more_is_read_of_a_record_than_is_asked_for(tmp_path: Path) -> None:
    length = 32 << 20
    with stook.Pack(tmp_path / "data.stook", "x") as made:
        made["short"] = b"short"
        made["long"] = b"head" + bytes(length - 8) + b"tail"
    command = [sys.executable, "-c", COUNTED, str(tmp_path / "data.stook")]
    done = subprocess.run(command, env={**os.environ, "STOOK_ENGINE": "threads"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *parts, whole = map(int, done.stdout.split())
    assert whole >= length, "what is read is counted"
    assert len(parts) == 3 and all(0 < part < 3 << 20 for part in parts), parts


def test_options_that_packs_do_not_have_are_refused(pack: Path) -> None:
    wrong: list[dict[str, Any]] = [{"grp": "x"}, {"group": "nope"}, {"stook": {"grp": 1}}]
    for options in wrong:
        name = next(iter(options.get("stook", options)))
        with pytest.raises(TypeError, match=f"argument '{name}': this is not among the options; those of packs are map"):
            fsspec.open(f"stook://{pack}//top", **options)
    fs = fsspec.filesystem("stook", skip_instance_cache=True, use_listings_cache=False, map=False, at=None)
    with pytest.raises(TypeError, match="argument 'buffering': this is not among the options of open"):
        fs.open(f"{pack}//top", buffering=5)
    with fs.open(f"{pack}//top", block_size=5, cache_type="none", size=9) as file:
        assert file.read() == b"top bytes"
    with fsspec.open(f"simplecache::stook://{pack}//top", stook={"access": "cached"}) as file:
        assert file.read() == b"top bytes"


def test_a_pack_is_shown_as_it_was_until_the_cache_is_emptied(pack: Path) -> None:
    fs = StookFileSystem(skip_instance_cache=True)
    assert fs.cat(f"{pack}//top") == b"top bytes"
    with stook.Pack(pack, "a") as writer:
        writer["top"] = b"newer"
    assert fs.cat(f"{pack}//top") == b"top bytes"
    fs.invalidate_cache()
    assert fs.cat(f"{pack}//top") == b"newer"


class Counting(LocalFileSystem):  # type: ignore[misc]
    """Counts what is asked of it."""

    protocol = "counting"
    asked: list[tuple[int, int]] = []

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        return super()._strip_protocol(str(path).removeprefix("counting://"))

    def cat_file(self, path: str, start: Any = None, end: Any = None, **options: Any) -> bytes:
        """Counts."""
        self.asked.append((start, end))
        data: bytes = super().cat_file(path, start=start, end=end, **options)
        return data

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        """With what follows the content, as object stores have it."""
        reported: dict[str, Any] = super().info(path, **options)
        if reported["type"] == "file":
            reported["sha256"] = hashlib.sha256(Path(reported["name"]).read_bytes()).hexdigest()
        return reported


@pytest.fixture
def counting(tmp_path: Path) -> Counting:
    (tmp_path / "data.bin").write_bytes(DATA)
    Counting.asked = []
    fsspec.register_implementation("counting", Counting, clobber=True)
    return Counting(skip_instance_cache=True)


def test_another_file_system_through_the_cache(counting: Counting, tmp_path: Path) -> None:
    address = f"stookcache::counting://{tmp_path}/data.bin"
    directory = str(tmp_path / "cache")
    for _ in range(2):
        with fsspec.open(address, stookcache={"cache": directory}) as file:
            for position in range(1_000_000, 1_010_000, 10):
                file.seek(position)
                assert file.read(10) == DATA[position : position + 10]
    assert len(Counting.asked) <= 2, "the second time it came from the directory"
    with fsspec.open(address, "rt", encoding="latin-1", newline="") as text:
        assert text.read(5) == DATA[:5].decode("latin-1")
    fs = StookCacheFileSystem(fs=counting)
    path = f"{tmp_path}/data.bin"
    assert fs.cat_file(path, 10, 20) == DATA[10:20] and fs.cat(path) == DATA
    assert fs.info(path)["size"] == len(DATA) and fs.exists(path) and path in fs.ls(str(tmp_path), detail=False)
    assert pickle.loads(pickle.dumps(fs)).cat_file(path, 0, 3) == DATA[:3]
    with fs.open(path) as opened:
        assert pickle.loads(pickle.dumps(opened)).read(3) == DATA[:3]
    with pytest.raises(stook.InvalidError, match="say what is to be cached"):
        StookCacheFileSystem()
    with pytest.raises(FileNotFoundError):
        fs.open(f"{tmp_path}/nothing")


class Scripted(MemoryFileSystem):  # type: ignore[misc]
    """Files of which it reports what a test says, and nothing else."""

    protocol: Any = "scripted"
    store: dict[str, Any] = {}
    pseudo_dirs = [""]
    about: dict[str, Any] = {}
    asked: list[tuple[Any, Any]] = []

    def info(self, path: str, **_options: Any) -> dict[str, Any]:
        """The length, and that."""
        reported = super().info(path)
        return {"name": reported["name"], "size": reported["size"], "type": reported["type"], **self.about}

    def cat_file(self, path: str, start: Any = None, end: Any = None, **options: Any) -> bytes:
        """Counts."""
        self.asked.append((start, end))
        data: bytes = super().cat_file(path, start=start, end=end, **options)
        return data


class ScriptedPages(Scripted):
    """The same, as a web server."""

    protocol = ("http", "https")


LENGTH = 100_000
OLD, NEW = DATA[:LENGTH], DATA[LENGTH : 2 * LENGTH]
MODIFIED = "Wed, 21 Oct 2015 07:28:00 GMT"
STRONG, WEAK, OF_TIME = f'"{"ab01" * 8}"', 'W/"abcd"', '"56273f40-186a0"'


@pytest.fixture
def reported() -> Iterator[type[Scripted]]:
    yield Scripted
    Scripted.store.clear()
    Scripted.about = {}
    Scripted.asked.clear()


def _through(kind: type[Scripted], about: dict[str, Any], directory: Path, **options: Any) -> StookCacheFileSystem:
    Scripted.about = about
    Scripted.asked.clear()
    other = kind(skip_instance_cache=True, **options)
    return StookCacheFileSystem(fs=other, cache=str(directory), skip_instance_cache=True)


@pytest.mark.parametrize(
    ("kind", "about", "is_kept"),
    [
        (Scripted, {}, False),
        (Scripted, {"mtime": 5.0}, False),
        (Scripted, {"ETag": WEAK}, False),
        (Scripted, {"ETag": WEAK, "mtime": 5.0}, False),
        (Scripted, {"ETag": OF_TIME}, True),
        (ScriptedPages, {"ETag": OF_TIME}, False),
        (ScriptedPages, {"Last-Modified": "Wed, 21 Oct 2015 07:28:00 GMT"}, False),
        (ScriptedPages, {"Last-Modified": MODIFIED, "Date": "Wed, 21 Oct 2015 07:28:09 GMT"}, False),
        (ScriptedPages, {"ETag": STRONG}, True),
        (Scripted, {"Content-MD5": "abc"}, True),
    ],
)
def test_only_what_follows_the_content_is_kept(
    reported: type[Scripted], tmp_path: Path, kind: type[Scripted], about: dict[str, Any], is_kept: bool
) -> None:
    reported().pipe_file("/file", OLD)
    fs = _through(kind, about, tmp_path / "cache")
    assert fs.cat_file("/file", 0, LENGTH) == OLD
    # Without a sign of it another state takes its place, where there could be one.
    content = OLD if is_kept else NEW
    reported().pipe_file("/file", content)
    fs = _through(kind, about, tmp_path / "cache")
    assert fs.cat_file("/file", 0, LENGTH) == content
    assert (len(reported.asked) == 0) == is_kept


def test_a_file_that_changes_while_it_is_read_is_never_mixed(reported: type[Scripted], tmp_path: Path) -> None:
    states: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"ETag": STRONG}, {"ETag": STRONG.upper()}),
        ({"mtime": 5.0}, {"mtime": 6.0}),
        ({"ETag": WEAK, "mtime": 5.0}, {"ETag": WEAK, "mtime": 6.0}),
    ]
    for first, then in states:
        reported().pipe_file("/file", OLD)
        fs = _through(Scripted, first, tmp_path / "cache")
        with fs.open("/file") as file:
            file.base.prefetch([(0, 10)])
            assert file.read(10) == OLD[:10]
            reported().pipe_file("/file", NEW)
            Scripted.about = then
            file.seek(LENGTH - 10)
            with pytest.raises(stook.SourceChangedError, match="changed while it was read"):
                file.base.prefetch([(LENGTH - 10, LENGTH)])
        assert fs.cat_file("/file", 0, LENGTH) == NEW
    # Where nothing would show it, all of it is of one state.
    reported().pipe_file("/file", OLD)
    with _through(Scripted, {}, tmp_path / "cache").open("/file") as file:
        reported().pipe_file("/file", NEW)
        assert file.read() == OLD


def test_who_asks_and_what_for_decide_whose_bytes_are_kept(reported: type[Scripted], tmp_path: Path) -> None:
    about = {"ETag": STRONG}
    reported().pipe_file("/file?id=A", OLD)
    reported().pipe_file("/file?id=B", NEW)
    for path, content in [("/file?id=A", OLD), ("/file?id=B", NEW)] * 2:
        assert _through(Scripted, about, tmp_path / "cache").cat_file(path, 0, LENGTH) == content
    for user, content in [("alice", OLD), ("bob", NEW)] * 2:
        reported().pipe_file("/mine", content)
        fs = _through(Scripted, about, tmp_path / "cache", user=user, password="word-that-is-secret")
        assert fs.cat_file("/mine", 0, LENGTH) == content
    for entry in (tmp_path / "cache").iterdir():
        held = entry.read_bytes()
        assert not any(secret in held for secret in (b"alice", b"word-that", b"id=A"))


@pytest.mark.parametrize(
    ("about", "is_shared"),
    [
        ({"ETag": STRONG}, True),
        ({"mtime": 5.0}, True),
        ({"Last-Modified": "Wed, 21 Oct 2015 07:28:00 GMT"}, True),
        ({"ETag": WEAK}, False),
        ({}, False),
    ],
)
def test_ranges_one_by_one_are_read_through_one_cache(
    reported: type[Scripted], about: dict[str, Any], is_shared: bool
) -> None:
    def opened() -> StookCacheFileSystem:
        Scripted.about = about
        Scripted.asked.clear()
        return StookCacheFileSystem(fs=Scripted(skip_instance_cache=True), skip_instance_cache=True)

    reported().pipe_file("/file", OLD)
    fs = opened()
    ranges = [(start, start + 2000) for start in range(0, LENGTH, 2000)]
    assert b"".join(fs.cat_file("/file", *one) for one in ranges) == OLD
    assert (len(reported.asked) <= 2) == is_shared, "where another state would show"
    # Whatever is known, those that are asked for together are read together.
    fs = opened()
    together = fs.cat_ranges(["/file"] * len(ranges), [first for first, _ in ranges], [end for _, end in ranges])
    assert (b"".join(together), len(reported.asked)) == (OLD, 1)
    # The next state is read anew.
    reported().pipe_file("/file", NEW)
    reported.about = {**about, "mtime": 6.0, "sha256": "new"}
    assert fs.cat_file("/file", 0, 100) == NEW[:100]


def test_a_file_that_changed_a_moment_ago_is_looked_at_again(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(OLD)
    fs = StookCacheFileSystem(fs=LocalFileSystem(), skip_instance_cache=True)
    for content in (OLD, NEW) * 10:
        # As long as before, and within the same tick of the clock.
        path.write_bytes(content)
        assert fs.cat_file(str(path), 0, LENGTH) == content


def test_some_of_many_ranges_may_fail(reported: type[Scripted], tmp_path: Path) -> None:
    reported().pipe_file("/file", OLD)
    fs = _through(Scripted, {"ETag": STRONG}, tmp_path / "cache")
    got = fs.cat_ranges(["/file", "/none", "/file"], [0, 0, -5], [3, 3, None])
    assert (got[0], type(got[1]), got[2]) == (OLD[:3], FileNotFoundError, OLD[-5:])
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges(["/none"], 0, 3, on_error="raise")
    with pytest.raises(stook.InvalidError, match="1 paths have 2 starts"):
        fs.cat_ranges(["/file"], [0, 1], [3])
    with pytest.raises(stook.InvalidError, match="max_gap in sparse_options"):
        fs.cat_ranges(["/file"], [0], [3], max_gap=5)


def test_unknown_options_are_refused(reported: type[Scripted], tmp_path: Path) -> None:
    reported().pipe_file("/file", OLD)
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("cach", {"cach": str(tmp_path)}),
        ("memory_bytes", {"memory_bytes": 5}),
        ("max_gab", {"sparse_options": {"max_gab": 5}}),
    ]
    for name, options in wrong:
        with pytest.raises(TypeError, match=f"argument '{name}': this is not among"):
            StookCacheFileSystem(fs=reported(), skip_instance_cache=True, **options)
    with pytest.raises(TypeError, match="argument 'cach'"):
        fsspec.open(f"stookcache::file://{tmp_path}/x", stookcache={"cach": str(tmp_path)})
    fs = StookCacheFileSystem(fs=reported(), skip_instance_cache=True, use_listings_cache=False)
    with pytest.raises(TypeError, match="argument 'buffering'"):
        fs.open("/file", buffering=5)
    with pytest.raises(TypeError, match="strat"):
        fs.cat_file("/file", **{"strat": 5})
    with fs.open("/file", block_size=5) as file:
        assert file.read(3) == OLD[:3]


class Answered(Exception):
    """An error that is made of more than a text."""

    def __init__(self, status: int, url: str) -> None:
        super().__init__(status, url)

    def __str__(self) -> str:
        return f"{self.args[0]}, url=URL('{self.args[1]}')"


class Failing(Addressed, Scripted):
    """Names whole addresses in its errors, as web servers are read."""

    protocol = "failing"
    error: Any = None

    def info(self, path: str, **_options: Any) -> dict[str, Any]:
        """What is reported, where that is not to fail."""
        if "no-info" in path:
            raise self.error(path)
        return {"name": path, "size": None if "no-size" in path else 5, "type": "file", "ETag": STRONG}

    def cat_file(self, path: str, start: Any = None, end: Any = None, **_options: Any) -> bytes:
        """Fails."""
        raise self.error(path)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (FileNotFoundError, FileNotFoundError),
        (lambda url: PermissionError(13, f"not for you: {url}", url), PermissionError),
        (lambda url: Answered(403, url), stook.RemoteError),
        (ValueError, ValueError),
    ],
)
def test_signed_addresses_are_not_shown_in_errors(error: Any, kind: type[Exception]) -> None:
    Failing.error = staticmethod(error)
    fsspec.register_implementation("failing", Failing, clobber=True)
    fs = StookCacheFileSystem(fs=Failing(), skip_instance_cache=True)
    for name, reads in [("file", ["cat_file", "open"]), ("no-info", ["cat_file", "open", "info"]), ("no-size", ["open"])]:
        address = f"failing://me:word@host/{name}?X-Amz-Signature=hidden&x=1"
        for read in reads:
            with pytest.raises((kind, stook.InvalidError)) as raised:
                got = getattr(fs, read)(address)
                got.read()
            reported = "".join(traceback.format_exception(kind, raised.value, None)) + repr(raised.value.args)
            assert "hidden" not in reported and "word" not in reported and f"failing://host/{name}?…" in reported
    cache = StookCache(5, lambda start, end: fs.fs.cat_file("https://host/x?signature=hidden"), 10)
    with pytest.raises(kind) as raised:
        cache._fetch(0, 5)
    assert "hidden" not in str(raised.value) and "https://host/x?…" in str(raised.value)


def test_the_cache_type() -> None:
    asked: list[tuple[int, int]] = []

    def fetch(start: int, end: int) -> bytes:
        asked.append((start, end))
        return DATA[start:end]

    assert fsspec.caching.caches["stook"] is StookCache
    cache = StookCache(5 << 20, fetch, len(DATA), allowance=0)
    assert cache._fetch(100, 200) == DATA[100:200] and cache._fetch(100, 150) == DATA[100:150]
    assert cache._fetch(None, 3) == DATA[:3] and cache._fetch(len(DATA) - 3, None) == DATA[-3:]
    assert cache._fetch(len(DATA), len(DATA) + 5) == b""
    assert "stook: " in cache._log_stats() and cache.hit_count >= 1 and cache.total_requested_bytes < 300_000
    cache.close()


def test_files_of_other_systems_use_the_cache_type(tmp_path: Path) -> None:
    from fsspec.implementations.memory import MemoryFileSystem
    from fsspec.spec import AbstractBufferedFile

    class Buffered(AbstractBufferedFile):  # type: ignore[misc]
        def _fetch_range(self, start: int, end: int) -> bytes:
            return DATA[start:end]

    file = Buffered(MemoryFileSystem(), "/x", size=len(DATA), cache_type="stook", cache_options={"max_gap": 0})
    file.seek(-5, 2)
    assert file.read() == DATA[-5:]
    file.seek(1000)
    assert file.read(10) == DATA[1000:1010]


def test_a_file_of_which_only_the_time_of_its_making_is_known_is_read_as_a_whole() -> None:
    memory = MemoryFileSystem()
    fs = StookCacheFileSystem(fs=memory, skip_instance_cache=True)
    memory.pipe_file("/made", OLD)
    try:
        assert fs.cat_file("/made", 0, LENGTH) == OLD
        with memory.open("/made", "r+b") as file:
            file.write(NEW)
        assert fs.cat_file("/made", 0, LENGTH) == NEW
        with fs.open("/made") as opened:
            assert opened.read(10) == NEW[:10]
            with memory.open("/made", "r+b") as file:
                file.write(OLD)
            opened.seek(LENGTH - 10)
            assert opened.read() == NEW[-10:], "no mix of two states"
    finally:
        memory.rm("/made")


@pytest.mark.parametrize(
    ("date", "is_proven"),
    [(None, False), ("Wed, 21 Oct 2015 07:27:59 GMT", False), ("Wed, 21 Oct 2015 07:28:02 GMT", True)],
)
def test_the_times_of_a_web_server_count_by_its_own_clock(
    reported: type[Scripted], tmp_path: Path, date: Any, is_proven: bool
) -> None:
    reported().pipe_file("/file", OLD)
    about = {"ETag": OF_TIME, "Last-Modified": MODIFIED, "Date": date}
    with _through(ScriptedPages, about, tmp_path / "cache").open("/file") as file:
        file.base.prefetch([(0, 10)])
        assert file.read(10) == OLD[:10]
    assert ((None, None) in reported.asked) != is_proven, "what proves nothing is read as a whole"


def test_where_it_is_written_who_asks_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    asks = who_asks("fs", [], {})
    for name in ("NETRC", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "AWS_DEFAULT_PROFILE"):
        with monkeypatch.context() as changed:
            changed.setenv(name, "elsewhere")
            assert who_asks("fs", [], {}) != asks, name
    assert who_asks("fs", [], {}) == asks


def test_nothing_is_found_again_where_it_is_not_known_who_asks(reported: type[Scripted], tmp_path: Path) -> None:
    def client() -> None:
        """Is known by its address in memory alone."""

    for content in (OLD, NEW):
        reported().pipe_file("/file", content)
        fs = _through(Scripted, {"ETag": STRONG}, tmp_path / "cache", get_client=client)
        assert fs.cat_file("/file", 0, LENGTH) == content
