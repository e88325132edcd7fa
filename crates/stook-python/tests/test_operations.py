"""What the command line does with packs, from Python: deletions of many records, values from files,
compaction that is only planned, advice; and ranges of members.
"""

from __future__ import annotations

import io
import json
import os
import random
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any, Callable

import pytest

import stook


@pytest.fixture
def pack() -> str:
    """A pack of five records, two of them in a group."""
    with stook.Pack("p.stook", "x") as made:
        made.update({"a/1": b"x", "a/2.tmp": b"yy"})
        made[7] = b"seven"
        made.update({"b/1.tmp": b"zzz", "b/2": b""}, group="second")
    return "p.stook"


def command(*arguments: str) -> Any:
    """What the command line says, as JSON."""
    run = [sys.executable, "-W", "ignore", "-m", "stook", *arguments, "--json"]
    return json.loads(subprocess.run(run, check=True, capture_output=True, text=True).stdout)


@pytest.mark.parametrize(
    ("asked", "deleted"),
    [
        ({"keys": ["a/1", 7]}, ["a/1", 7]),
        ({"prefix": "a/"}, ["a/1", "a/2.tmp"]),
        ({"prefix": b"b/"}, ["b/1.tmp", "b/2"]),
        ({"prefix": "id:"}, [7]),
        ({"glob": "*.tmp"}, ["a/2.tmp", "b/1.tmp"]),
        ({"glob": ["a/*", "id:*"]}, ["a/1", "a/2.tmp", 7]),
        ({"group": "second"}, ["b/1.tmp", "b/2"]),
        ({"glob": "*.tmp", "group": "second"}, ["b/1.tmp"]),
        ({"keys": ["a/1"], "prefix": "b/"}, ["a/1", "b/1.tmp", "b/2"]),
        ({"glob": "**"}, ["a/1", "a/2.tmp", "b/1.tmp", "b/2", 7]),
    ],
)
def test_many_records_are_deleted_as_they_are_asked_for(
    pack: str, asked: dict[str, Any], deleted: list[object]
) -> None:
    with stook.Pack(pack) as reader:
        everything = list(reader)
        planned = reader.delete_many(**asked, dry_run=True)
        assert planned.dry_run and planned.keys == deleted and list(reader) == everything
    with stook.Pack(pack, "r+") as writer:
        report = writer.delete_many(**asked)
        assert list(writer) == [key for key in everything if key not in deleted]
    assert report.deleted == len(deleted) == planned.deleted and not report.dry_run
    assert report.freed_bytes == planned.freed_bytes > 0
    assert (report.keys, report.missing, report.damages) == ([], [], [])


def test_keys_that_are_missing_are_reported_and_the_others_deleted(pack: str) -> None:
    with stook.Pack(pack, "r+") as writer:
        report = writer.delete_many(["a/1", "c", 9])
        assert report.missing == ["c", 9] and report.deleted == 1 and "a/1" not in writer
        # In another group it is missing, too.
        assert writer.delete_many(["a/2.tmp"], group="second").missing == ["a/2.tmp"]
        # Before: nothing said that what is in a directory stays.
        assert writer.delete_many(["a/", "b"]).directories == ["a", "b"]
        assert writer.delete_many([]).deleted == 0 and len(writer) == 4


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({}, "which records"),
        ({"prefix": ""}, "every record"),
        ({"prefix": b""}, "every record"),
        ({"group": ""}, "every record of the default group"),
        ({"group": "third"}, "third"),
        ({"glob": "*.png"}, "nothing matches"),
        ({"keys": ["a/1"], "prefix": "z"}, "nothing matches"),
        ({"glob": []}, "glob is a pattern"),
        ({"glob": "["}, "glob: "),
    ],
)
def test_a_deletion_that_may_be_a_mistake_deletes_nothing(
    pack: str, asked: dict[str, Any], message: str
) -> None:
    with stook.Pack(pack, "r+") as writer:
        for dry_run in (False, True):
            with pytest.raises(stook.InvalidError, match=message):
                writer.delete_many(**asked, dry_run=dry_run)
        assert len(writer) == 5


def test_only_a_writer_deletes_and_a_reader_may_ask(pack: str) -> None:
    with stook.Pack(pack) as reader:
        with pytest.raises(stook.InvalidError, match="open to be read"):
            reader.delete_many(prefix="a/")
        assert reader.delete_many(prefix="a/", dry_run=True).deleted == 2


def test_what_progress_raises_ends_a_deletion_and_nothing_is_deleted(pack: str) -> None:
    def fail(_records: int) -> None:
        raise LookupError("enough")

    with stook.Pack(pack, "r+") as writer:
        with pytest.raises(LookupError, match="enough"):
            writer.delete_many(glob="**", progress=fail)
        assert len(writer) == 5


def test_a_file_is_put_with_its_mode_and_time(pack: str) -> None:
    content = random.Random(1).randbytes(3 << 20)
    Path("file").write_bytes(content)
    os.chmod("file", 0o640)
    os.utime("file", ns=(5, 123_456_789))
    passed: list[int] = []
    with stook.Pack(pack, "r+") as writer:
        sequence = writer.put_file("f", "file", attributes={"label": "x"}, progress=passed.append)
        record = writer.record("f")
        assert record is not None and bytes(record.value) == content and record.sequence == sequence
        attributes = record.attributes
        assert (attributes["mode"], attributes["mtime_ns"], attributes["label"]) == (0o640, 123_456_789, "x")
        assert record.kind == "file" and passed[-1] == len(content)
        # What is given counts, as on the command line.
        writer.put_file("f", Path("file"), attributes={"mtime_ns": 1}, group="second")
        record = writer.record("f")
        assert record is not None and record.attributes["mtime_ns"] == 1 and record.group == "second"


def test_a_stream_is_put_until_it_ends(pack: str) -> None:
    content = bytes(range(256)) * 20_000
    reading, writing = os.pipe()
    with stook.Pack(pack, "r+") as writer:
        writer.put_file("memory", io.BytesIO(content))
        assert writer["memory"] == content
        with os.fdopen(reading, "rb") as pipe:
            os.write(writing, b"through a pipe")
            os.close(writing)
            writer.put_file(8, pipe)
        assert writer[8] == b"through a pipe"
        writer.put_file("null", "/dev/null")
        assert writer["null"] == b"" and writer.append(b"next") == 9


def test_a_stream_that_fails_puts_nothing(pack: str) -> None:
    class Broken(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            raise KeyError("broken")

    class Greedy(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            return bytes(size + 1)

    class Text:
        def read(self, size: int) -> str:
            return "text"

    class Nested:
        def read(self, size: int) -> bytes:
            writer["nested"] = b"1"
            return b""

    with stook.Pack(pack, "r+") as writer:
        cases: list[tuple[Any, type[Exception], str]] = [
            (Broken(), KeyError, "broken"),
            (Greedy(), OSError, "more bytes"),
            (Text(), TypeError, "bytes-like"),
            (Nested(), stook.InvalidError, "wait until it has ended"),
            ("missing", FileNotFoundError, "missing"),
            (".", IsADirectoryError, "directory"),
            ("", stook.InvalidError, "argument 'file'"),
            (5, TypeError, "argument 'file'"),
        ]
        for file, error, message in cases:
            with pytest.raises(error, match=message):
                writer.put_file("f", file)
            assert "f" not in writer
        writer["f"] = b"continues"
    assert stook.check(pack).ok


def test_a_compaction_that_is_only_planned_changes_nothing(pack: str) -> None:
    with stook.Pack(pack, "r+") as writer:
        assert writer.compact(dry_run=True).before_bytes >= 0
        del writer["a/1"]
        planned = writer.compact(dry_run=True)
        assert planned.dry_run and planned.dead_records > 0 and planned.records is None
        assert planned.before_bytes > planned.after_bytes == planned.bytes
        assert planned.seconds_estimated is not None and planned.seconds_estimated > 0
        assert writer.info().dead_records == planned.dead_records
        done = writer.compact(memory=1 << 20)
        assert not done.dry_run and done.seconds_estimated is None and done.records == 2
        assert done.dead_records == planned.dead_records
    with stook.Pack(pack) as reader:
        assert reader.compact(dry_run=True).steps == 0


def test_options_of_a_compaction_are_checked(pack: str) -> None:
    with stook.Pack(pack, "r+") as writer:
        with pytest.raises(stook.InvalidError, match="compaction needs memory"):
            writer.compact(memory=0)
        with pytest.raises(stook.InvalidError, match="argument 'memory'"):
            writer.compact(memory=-1)


def test_info_gives_the_advice_of_the_command_line(pack: str) -> None:
    Path("tree").mkdir()
    Path("tree/a").write_bytes(b"1")
    stook.pack_tree("tree", "t.stook")
    for path, action in ((pack, "none"), ("t.stook", "none")):
        info, shown = stook.Pack(path).info(), command("info", path)
        assert info.action == shown["action"] == action and info.action_text == shown["action_text"]
        assert len(info.roots) == len(shown["roots"])
        assert info.torn_tails == [] == shown["torn_tails"]
    assert stook.Pack("t.stook").info().roots[0].endswith("tree")
    with stook.Pack(pack, "r+") as writer:
        for _ in range(3):
            writer["a/1"] = bytes(1000)
        info = writer.info()
        assert info.action == "compact" and "stook compact" in info.action_text


def test_an_unfinished_end_is_in_info(pack: str) -> None:
    segment = max(Path(pack).glob("segment-*"), key=lambda path: path.stat().st_size)
    with segment.open("ab") as file:
        file.write(bytes(100))
    info = stook.Pack(pack).info()
    shown = command("info", pack)["torn_tails"]
    assert [(torn.segment, torn.offset, torn.size) for torn in info.torn_tails] == [
        (torn["segment_id"], torn["offset_bytes"], torn["len_bytes"]) for torn in shown
    ]


def made(name: str, content: bytes) -> str:
    """An archive of one member."""
    if name.endswith(".zip"):
        with zipfile.ZipFile(name, "w", zipfile.ZIP_DEFLATED if "deflated" in name else zipfile.ZIP_STORED) as zip:
            zip.writestr("m", content)
        return name
    mode: Any = "w:gz" if name.endswith(".gz") else "w"
    with tarfile.open(name, mode) as tar:
        member = tarfile.TarInfo("m")
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    return name


@pytest.mark.parametrize("name", ["t.tar", "t.tar.gz", "stored.zip", "deflated.zip"])
def test_ranges_of_a_member_are_read_however_it_is_stored(name: str) -> None:
    content = random.Random(2).randbytes(100_000) + bytes(50_000)
    ranges = [(5, 10), (10, 10), (99_990, 100_020), (0, 3), (149_999, 150_000), (150_000, 150_000)]
    passed: list[tuple[int, ...]] = []
    with stook.Archive(made(name, content)) as archive:
        assert archive.read_many("m", ranges) == [content[start:end] for start, end in ranges]
        assert archive.read_many("m", [(0, len(content))]) == [content]
        assert archive.read_many("m", []) == []
        archive.read_many("m", ranges, progress=lambda *numbers: passed.append(numbers))
        with pytest.raises(KeyError):
            archive.read_many("n", [(0, 1)])
        with pytest.raises(stook.OutOfBoundsError, match="//m"):
            archive.read_many("m", [(0, 150_001)])
        with pytest.raises(TypeError, match="a range is"):
            archive.read_many("m", [5])  # type: ignore[list-item]


def test_a_long_compressed_member_is_read_by_range() -> None:
    content = bytes(65 << 20)
    with stook.Archive(made("deflated.zip", content + b"the end")) as archive:
        with archive.open("m") as member:
            member.seek(-9, os.SEEK_END)
            assert member.read() == b"\0\0the end"
        assert archive.read_many("m", [(len(content) - 2, len(content) + 7)]) == [b"\0\0the end"]


@pytest.mark.parametrize(
    "open_it",
    [stook.Archive, lambda path: stook.unpack(path, "out"), lambda path: stook.pack_tree(path, f"{path}.stook")],
)
def test_an_archive_that_may_have_been_cut_off_is_a_warning(open_it: Callable[[str], object]) -> None:
    whole = Path(made("t.tar", b"1234")).read_bytes()
    Path("cut.tar").write_bytes(whole[:1024])
    with pytest.warns(stook.DamageWarning, match=r"cut\.tar does not end as a tar does"):
        open_it("cut.tar")
    assert open_it("t.tar") is not None


def test_an_index_that_is_of_no_use_is_a_warning() -> None:
    made("t.tar", b"1234")
    stook.Archive("t.tar").close()
    index = Path("t.tar.stook-index")
    index.write_bytes(index.read_bytes()[:-1])
    with pytest.warns(stook.RecoveryWarning, match="Rebuilt the index"):
        stook.Archive("t.tar")
