"""What records of packed trees are: files with their content, directories, links."""

from __future__ import annotations

import os
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Union

import pytest

import stook

LONG = bytes(range(256)) * 40
FIRST: dict[str, stook.Attribute] = {"kind": "file", "names": 2}
LINK: dict[str, stook.Attribute] = {"kind": "hard_link"}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pack of a tree with a hard link, a symbolic link and an empty directory."""
    root = tmp_path_factory.mktemp("content")
    (root / "tree/d/e").mkdir(parents=True)
    (root / "tree/empty").mkdir()
    (root / "tree/a.bin").write_bytes(LONG)
    (root / "tree/d/b.txt").write_bytes(b"bb")
    (root / "tree/d/e/c.txt").write_bytes(b"ccc")
    os.link(root / "tree/a.bin", root / "tree/z.bin")
    (root / "tree/l").symlink_to("d/b.txt")
    assert stook.pack_tree(root / "tree", root / "tree.stook").hard_links == 1
    with stook.Pack(root / "tree.stook", "r+") as pack:
        pack[7] = b"seven"
    return root / "tree.stook"


FILES: dict[Union[str, int], bytes] = {
    "a.bin": LONG,
    "d/b.txt": b"bb",
    "d/e/c.txt": b"ccc",
    "z.bin": LONG,
    7: b"seven",
}
DIRECTORIES = ["", "d", "d/e", "empty"]


@pytest.mark.parametrize("mapped", [False, True])
def test_a_hard_link_has_the_content_of_its_file(tree: Path, mapped: bool) -> None:
    with stook.Pack(tree, map=mapped) as pack:
        assert pack["z.bin"] == LONG == pack.get("z.bin")
        assert pack.get_many(["d/b.txt", "z.bin", "none", "a.bin"]) == [b"bb", LONG, None, LONG]
        record = pack.record("z.bin")
        assert record is not None and bytes(record.value) == LONG and record.key == "z.bin"
        assert record.attributes["kind"] == "hard_link"
        assert [bytes(one.value) for one in pack.records(["z.bin"]) if one] == [LONG]
        # What `stook get` gives: the target, and nothing.
        assert pack.get_many(["l", "d"]) == [b"d/b.txt", b""]


@pytest.mark.parametrize("order", ["disk", "key"])
def test_scans_give_files_unless_kinds_says_otherwise(tree: Path, order: stook.ScanOrder) -> None:
    with stook.Pack(tree) as pack:
        assert {record.key: bytes(record.value) for record in pack.scan(order=order)} == FILES
        assert list(pack.items()) == list(FILES.items()) and list(pack.values()) == list(FILES.values())
        cases: list[tuple[stook.Kinds, list[Union[str, int]]]] = [
            ("directory", [*DIRECTORIES]),
            ("symlink", ["l"]),
            (("symlink", "directory"), [*DIRECTORIES, "l"]),
            ("all", [*DIRECTORIES, "l", *FILES]),
        ]
        for kinds, keys in cases:
            assert {record.key for record in pack.scan(order=order, kinds=kinds)} == set(keys)
            assert set(pack.keys(kinds=kinds)) == set(keys) == {key for key, _ in pack.items(kinds=kinds)}
            assert len(list(pack.values(kinds=kinds))) == len(keys)
        assert list(pack.keys(kinds="file")) == list(FILES)
        assert list(pack.keys(kinds="file", prefix="d/")) == ["d/b.txt", "d/e/c.txt"]
        assert len(list(pack)) == len(pack) == len(list(pack.keys())) == 10
        splits: list[Union[str, int]] = [record.key for part in pack.splits(3) for record in pack.scan(split=part)]
        assert sorted(splits, key=str) == sorted(FILES, key=str)
        wrong: Any
        for wrong in ("files", ["file", "hard_link"], []):
            with pytest.raises(stook.InvalidError, match="kinds are"):
                pack.scan(kinds=wrong)


@pytest.mark.parametrize("order", ["disk", "key"])
def test_a_cursor_goes_on_whatever_kinds_are_wanted(tree: Path, order: stook.ScanOrder) -> None:
    with stook.Pack(tree) as pack:
        everything = [record.key for record in pack.scan(order=order, kinds="all")]
        chosen: tuple[stook.Kinds, ...] = ("file", "all")
        for kinds in chosen:
            keys = [record.key for record in pack.scan(order=order, kinds=kinds)]
            scan = pack.scan(order=order, kinds=kinds)
            for number in range(len(keys) + 1):
                cursor = scan.cursor()
                assert [record.key for record in pack.scan(cursor=cursor, kinds=kinds)] == keys[number:]
                after = everything.index(keys[number - 1]) + 1 if number else 0
                assert [record.key for record in pack.scan(cursor=cursor, kinds="all")] == everything[after:]
                next(scan, None)


def test_a_name_that_leads_to_no_file_is_reported(tmp_path: Path) -> None:
    with stook.Pack("p.stook", "x") as pack:
        pack.put("first", LONG, attributes=FIRST)
        pack.put("link", b"first", attributes=LINK)
        assert pack["link"] == LONG, "also before it is on the medium"
        pack.put("lost", b"nothing", attributes=LINK)
        for read in (lambda: pack["lost"], lambda: pack.get_many(["first", "lost"]), lambda: list(pack.scan())):
            with pytest.raises(stook.InvalidError, match="lost is a hard link to nothing, and there is no such"):
                read()
        scan = pack.scan(on_damage="skip")
        assert sorted(str(record.key) for record in scan) == ["first", "link"]
        assert [damage.key for damage in scan.damages] == ["lost"]
        assert pack.pop("link") == LONG


def test_a_file_that_was_replaced_since_a_split_was_made_is_not_taken_for_what_it_was(tmp_path: Path) -> None:
    with stook.Pack("p.stook", "x") as pack:
        pack.put("first", b"old", attributes=FIRST)
        pack.put("link", b"first", attributes=LINK)
        pack.sync()
        with stook.Pack("p.stook") as reader:
            (split,) = reader.splits(1)
            assert sorted(bytes(record.value) for record in reader.scan(split=split)) == [b"old", b"old"]
            pack["first"] = b"new"
            pack.sync()
            assert pack["link"] == b"old"
            assert reader.refresh()
            with pytest.raises(stook.InvalidError, match="replaced since this scan was begun"):
                list(reader.scan(split=split))
            assert dict(reader.items()) == {"first": b"new", "link": b"old"}


def test_what_is_known_without_reading_values(tree: Path) -> None:
    with stook.Pack(tree) as pack:
        stat = pack.stat("z.bin")
        assert stat is not None
        assert (stat.key, stat.kind, stat.size, stat.group) == ("z.bin", "hard_link", len(LONG), "")
        assert stat.attributes["kind"] == "hard_link" and abs(time.time_ns() - (stat.time_ns or 0)) < 10**12
        assert pack.stat("none") is None
        reported = [one and (one.key, one.kind, one.size) for one in pack.stats(["l", "none", 7, "d"])]
        assert reported == [("l", "symlink", 7), None, (7, "file", 5), ("d", "directory", 0)]
        listed = {one.key: (one.kind, one.size) for one in pack.listdir()}
        assert listed == {
            "a.bin": ("file", len(LONG)),
            "d": ("directory", 0),
            "empty": ("directory", 0),
            "l": ("symlink", 7),
            "z.bin": ("hard_link", len(LONG)),
            7: ("file", 5),
        }
        assert [one.key for one in pack.listdir("d")] == ["d/b.txt", "d/e"]
        assert [one.key for one in pack.listdir("d/")] == [one.key for one in pack.listdir(b"d")] == ["d/b.txt", "d/e"]
        assert pack.listdir("empty") == pack.listdir("empty/") == []
        for none in ("none", "none/", "d/none", b"d//"):
            with pytest.raises(FileNotFoundError, match="the pack has no such directory"):
                pack.listdir(none)
        for other in ("a.bin", "a.bin/", "l", "z.bin"):
            with pytest.raises(NotADirectoryError, match="this is no directory of the pack"):
                pack.listdir(other)
        assert repr(pack.listdir("d")[0]) == "<stook.Stat 'd/b.txt': file of 2 bytes>"
    with stook.Pack("p.stook", "x") as pack:
        pack["made/by/hand"] = b"x"
        (made,) = pack.listdir("made")
        assert (made.key, made.kind, made.size, made.group, made.time_ns) == ("made/by", "directory", 0, None, None)


def test_times_are_given_as_one_has_them(tree: Path) -> None:
    now = time.time()
    utc = datetime.fromtimestamp(now + 1, timezone.utc)
    for at in (now + 1, utc, utc.isoformat(), f"@{int(now) + 1}", int((now + 1) * 1e9), "2262-01-01"):
        with stook.Pack(tree, at=at) as pack:
            assert len(pack) == 10
    # Seconds as an int would be nanoseconds, and the pack would look empty.
    for early in (int(now), "1999-12-31", datetime(2001, 1, 1, tzinfo=timezone.utc), 0.5):
        with pytest.raises(stook.NoSuchStateError, match="the first of its records was put at 20"):
            stook.Pack(tree, at=early)
    with pytest.raises(stook.InvalidError, match="RFC 3339"):
        stook.Pack(tree, at="yesterday")
    wrong: Any
    for wrong in (True, b"2026-01-01", object()):
        with pytest.raises(TypeError, match="a time is a datetime, a text"):
            stook.Pack(tree, at=wrong)


def test_what_is_selected_is_found_below_what_is_not(tmp_path: Path) -> None:
    Path("t/a/b").mkdir(parents=True)
    Path("t/.git").mkdir()
    for name in ("t/1.jpg", "t/a/2.jpg", "t/a/b/3.jpg", "t/a/b/4.txt", "t/.git/5.jpg"):
        Path(name).write_bytes(b"x")
    report = stook.pack_tree("t", "p.stook", select=lambda path: path.endswith(".jpg"))
    assert (report.files, report.failures) == (4, [])
    asked = []

    def exclude(path: str) -> bool:
        asked.append(path)
        return path == ".git"

    report = stook.pack_tree("t", "q.stook", select=lambda path: path.endswith(".jpg"), exclude=exclude)
    with stook.Pack("q.stook") as pack:
        assert list(pack.keys(kinds="file")) == ["1.jpg", "a/2.jpg", "a/b/3.jpg"]
    assert ".git/5.jpg" not in asked, "it was not entered"
    stook.unpack("q.stook", "out", select=lambda path: path.endswith("3.jpg"))
    assert [path.name for path in Path("out").rglob("*.jpg")] == ["3.jpg"]


def test_a_wrong_argument_leaves_no_file(tmp_path: Path) -> None:
    Path("t").mkdir()
    Path("t/file").write_bytes(b"x")
    wrong: dict[str, Any]
    for wrong in (
        {"select": 5},
        {"exclude": 5},
        {"progress": 5},
        {"group": "x" * 256},
        {"threads": 0},
        {"max_delete": -1},
    ):
        with pytest.raises(ValueError):
            stook.pack_tree("t", "new.stook", **wrong)
        assert not Path("new.stook").exists(), wrong
    for wrong in (
        {"segment_bytes": 1 << 62},
        {"segment_bytes": 5},
        {"durability": -1},
        {"durability": 0},
        {"durability": 0.0},
        {"access": "x"},
        {"at": 5},
    ):
        for mode in ("a", "x"):
            with pytest.raises(ValueError, match=f"{next(iter(wrong))}|a state of the past"):
                stook.Pack("new.stook", mode, **wrong)
            assert not Path("new.stook").exists(), wrong
    stook.pack_tree("t", "p.stook")
    for wrong in ({"select": 5}, {"overwrite": "x"}, {"threads": 0}, {"progress": 5}):
        with pytest.raises(ValueError):
            stook.unpack("p.stook", "out", **wrong)
        assert not Path("out").exists(), wrong


def test_an_exception_is_not_lost_over_a_pack_that_was_not_closed(tmp_path: Path) -> None:
    with pytest.warns(ResourceWarning, match="was not closed"), pytest.raises(stook.LimitError, match="group"):
        stook.Pack("p.stook", "x").put("k", b"v", group="x" * 256)


def test_a_source_that_gives_too_much_is_refused() -> None:
    with stook.SparseFile.from_fetch(lambda start, end: b"x" * (end - start + 5), 1000) as file:
        with pytest.raises(stook.InvalidError, match="returned too many bytes: wanted 1000 bytes at offset 0, got 1005"):
            file.read(0, 10)
    with stook.SparseFile.from_fetch(lambda start, end: b"x" * (end - start - 5), 1000) as file:
        with pytest.raises(stook.ShortReadError, match="ends too early"):
            file.read(0, 10)


def test_no_tries_and_no_time_are_refused(tmp_path: Path) -> None:
    Path("file").write_bytes(b"x")
    wrong: dict[str, Any]
    for wrong in ({"tries": 0}, {"deadline": 0}, {"stall": 0.0}):
        for open_it in (stook.open, stook.SparseFile):
            with pytest.raises(stook.InvalidError, match=f"{next(iter(wrong))} is 0"):
                open_it("file", **wrong)


def test_the_first_touch_has_the_number_that_was_said() -> None:
    for first in (1, 1000, 1 << 40, 1 << 63):
        buffer = stook.SparseBuffer(first_touch=first)
        buffer.write(0, b"x")
        assert buffer.segments()[0][2] == first
    with pytest.raises(stook.InvalidError, match="first_touch is 18446744073709551615"):
        stook.SparseBuffer(first_touch=2**64 - 1)


@pytest.mark.parametrize("order", [["first", "second"], ["second", "first"]])
def test_names_that_a_batch_deletes_together_move_no_content(order: list[str]) -> None:
    body = LONG * 10
    with stook.Pack("p.stook", "x") as pack:
        pack.put("first", body, attributes=FIRST)
        pack.put("second", b"first", attributes=LINK)
        with pack.batch() as batch:
            for name in order:
                batch.delete(name)
            batch.put("other", b"x")
            batch.delete("other")
            batch.delete("absent")
        assert list(pack) == []
    with stook.Pack("p.stook") as pack:
        assert pack.info().dead_bytes < 1.5 * len(body)


def test_a_name_that_a_batch_leaves_gets_the_content() -> None:
    with stook.Pack("p.stook", "x") as pack:
        pack.put("first", LONG, attributes=FIRST)
        for name in ("second", "third"):
            pack.put(name, b"first", attributes=LINK)
        with pack.batch() as batch:
            batch.delete("first")
            batch.delete("second")
        assert dict(pack.items()) == {"third": LONG}
