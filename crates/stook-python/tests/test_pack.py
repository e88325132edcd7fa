"""Packs as mappings: what every method does when all is well."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

import stook


def test_a_pack_is_a_mapping(filled: Path) -> None:
    with stook.Pack(filled) as pack:
        assert isinstance(pack, Mapping)
        assert pack["a"] == pack[b"a"] == b"alpha"
        assert pack[7] == b"seven"
        others: list[Any] = ["a", b"a", 7, "7"]
        assert [key in pack for key in others] == [True, True, True, False]
        assert len(pack) == 3
        assert list(pack) == list(pack.keys()) == ["a", "g", 7]
        assert dict(pack.items()) == {"a": b"alpha", "g": b"in a group", 7: b"seven"}
        assert list(pack.values()) == [b"alpha", b"in a group", b"seven"]
        assert pack.get("a") == b"alpha"
        assert pack.get("none") is None
        assert pack.get("none", 5) == 5


def test_writes_are_seen_by_the_writer_at_once() -> None:
    with stook.Pack("p.stook", "a") as pack:
        pack["k"] = b"1"
        assert pack["k"] == b"1" and "k" in pack and len(pack) == 1
        pack["k"] = b"2"
        assert pack.get_many(["k"]) == [b"2"]
        pack["k"] = b"3"
        assert pack["k"] == b"3"
        del pack["k"]
        assert "k" not in pack and pack.get("k") is None and list(pack) == []
        assert pack.delete("k") is False


@pytest.mark.parametrize("durability", ["sync", "put", 0.5])
def test_everything_is_there_after_opening_it_again(durability: stook.Durability) -> None:
    with stook.Pack("p.stook", "x", durability=durability) as pack:
        pack.update({"a": b"1", "b": b"2"})
        pack.update([(1, b"3")])
        assert pack.pop("a") == b"1"
        assert pack.pop("a", None) is None
        with pytest.raises(KeyError):
            pack.pop("a")
        assert dict(pack.items()) == {"b": b"2", 1: b"3"}
    with stook.Pack("p.stook") as pack:
        assert dict(pack.items()) == {"b": b"2", 1: b"3"}


def test_values_may_be_anything_with_a_buffer() -> None:
    import array

    import numpy

    with stook.Pack("p.stook", "a") as pack:
        pack["bytearray"] = bytearray(b"ab")
        pack["view"] = memoryview(b"xaby")[1:3]
        pack["array"] = array.array("H", [1, 2])
        pack["matrix"] = numpy.arange(6, dtype="<i2").reshape(2, 3)
        pack["empty"] = numpy.empty((0, 3))
        assert pack.get_many(["bytearray", "view", "empty"]) == [b"ab", b"ab", b""]
        assert pack["array"] == array.array("H", [1, 2]).tobytes()
        record = pack.record("matrix")
        assert record is not None
        assert numpy.frombuffer(record.value, "<i2").tolist() == [0, 1, 2, 3, 4, 5]


def test_a_record_shows_all_that_is_known(filled: Path) -> None:
    with stook.Pack(filled) as pack:
        record = pack.record("g")
        assert record is not None
        assert (record.key, bytes(record), record.group, len(record)) == ("g", b"in a group", "second", 10)
        assert record.attributes == {"label": "x", "number": -3}
        assert isinstance(record.value, memoryview) and record.value.readonly
        assert abs(record.time_ns - datetime.now(timezone.utc).timestamp() * 1e9) < 600e9
        assert record.sequence > 0 and record.segment > 0 and record.offset > 0
        assert "'g'" in repr(record)
        first, none, id_record = pack.records(["a", "none", 7])
        assert first is not None and id_record is not None and none is None
        assert (first.key, id_record.key) == ("a", 7)
        assert pack.record("none") is None


def test_attributes_come_back_as_they_were_given() -> None:
    attributes: dict[str | int, stook.Attribute] = {
        "kind": "file",
        "mode": 0o644,
        "mtime_ns": -5,
        "user_id": 1,
        "group_id": 2,
        "label": "ü",
        "raw": b"\xff",
        "low": -(2**63),
        "high": 2**64 - 1,
        200: 3,
    }
    with stook.Pack("p.stook", "a") as pack:
        pack.put("k", b"", attributes=attributes)
        record = pack.record("k")
        assert record is not None and record.attributes == attributes
        (record,) = pack.scan()
        assert record.attributes == attributes


def test_keys_that_are_not_utf8_come_back_as_surrogate_escapes() -> None:
    with stook.Pack("p.stook", "a") as pack:
        pack[b"caf\xe9"] = b"1"
        (key,) = pack
        assert key == "caf\udce9"
        assert pack[key] == b"1"


def test_get_many_keeps_the_order_of_its_keys_and_repeats(filled: Path) -> None:
    for map in (False, True):
        with stook.Pack(filled, map=map) as pack:
            assert pack.get_many(["g", 7, "none", "a", "g"]) == [
                b"in a group",
                b"seven",
                None,
                b"alpha",
                b"in a group",
            ]
            assert pack.get_many(iter(["a", "none"]), b"-") == [b"alpha", b"-"]
            assert pack.get_many([]) == []
            assert pack["a"] == b"alpha"


def test_get_many_of_more_than_a_batch() -> None:
    with stook.Pack("p.stook", "x") as pack:
        pack.update((number, number.to_bytes(4, "little") * 3) for number in range(10_000))
    for map in (False, True):
        with stook.Pack("p.stook", map=map) as pack:
            keys = [number * 7919 % 10_000 for number in range(10_000)]
            assert pack.get_many(keys) == [key.to_bytes(4, "little") * 3 for key in keys]


def test_scans_by_disk_by_key_by_prefix_and_group(filled: Path) -> None:
    with stook.Pack(filled) as pack:
        assert sorted(bytes(record) for record in pack.scan()) == [b"alpha", b"in a group", b"seven"]
        assert [record.key for record in pack.scan(order="key")] == ["a", "g", 7]
        assert [record.key for record in pack.scan(prefix="g")] == ["g"]
        assert [record.key for record in pack.scan(group="second")] == ["g"]
        assert [record.key for record in pack.scan(group=[""], order="key")] == ["a", 7]
        assert [record.key for record in pack.scan(order="key", start="b")] == ["g", 7]
        assert [record.key for record in pack.scan(order="key", end="b")] == ["a"]
        assert list(pack.keys(prefix="a")) == ["a"]
        assert list(pack.keys(start="b", end=7)) == ["g"]
        assert pack.scan().damages == []


def test_what_a_scan_handed_out_stays_as_it_is() -> None:
    with stook.Pack("p.stook", "x") as pack:
        pack.update((number, bytes([number % 251]) * 3000) for number in range(3000))
    with stook.Pack("p.stook") as pack:
        kept = [record.value for record in pack.scan()]
        assert all(bytes(view) == bytes([number % 251]) * 3000 for number, view in enumerate(kept))


def test_long_records_come_whole_from_a_scan() -> None:
    long = bytes(range(256)) * (5 << 12)
    with stook.Pack("p.stook", "x") as pack:
        pack["a"], pack["b"], pack["c"] = b"1", long, b"2"
    with stook.Pack("p.stook") as pack:
        assert [bytes(record) for record in pack.scan()] == [b"1", long, b"2"]


@pytest.mark.parametrize("order", ["disk", "key"])
def test_a_cursor_continues_right_after_the_last_record(order: stook.ScanOrder) -> None:
    with stook.Pack("p.stook", "x") as pack:
        pack.update((f"{number:05}", b"x" * 700) for number in range(5000))
    with stook.Pack("p.stook") as pack:
        everything = [record.key for record in pack.scan(order=order)]
        for stop in (0, 1, 2, 1500, 4999, 5000):
            scan = pack.scan(order=order)
            head = [next(scan).key for _ in range(stop)]
            with stook.Pack("p.stook") as again:
                assert head + [record.key for record in again.scan(cursor=scan.cursor())] == everything


def test_splits_hold_every_record_once() -> None:
    with stook.Pack("p.stook", "x") as pack:
        pack.update((number, b"x" * 500) for number in range(5000))
    with stook.Pack("p.stook") as pack:
        splits = pack.splits(4)
        assert 2 <= len(splits) <= 4 and all(split.bytes > 0 for split in splits)
        splits = pickle.loads(pickle.dumps(splits))
        assert [stook.Split(str(split)) for split in splits] == splits
        assert len(set(splits)) == len(splits)
        keys = [record.key for split in splits for record in pack.scan(split=split)]
        assert keys == list(range(5000))


def test_a_batch_counts_whole_or_not_at_all() -> None:
    with stook.Pack("p.stook", "a") as pack:
        pack["old"] = b"0"
        with pack.batch(group="g") as batch:
            batch.put("a", b"1", attributes={"n": 1})
            batch.delete("old")
            assert len(batch) == 2
            assert "a" not in pack
        assert dict(pack.items()) == {"a": b"1"}
        with pytest.raises(RuntimeError, match="given up"), pack.batch() as batch:
            batch.put("b", b"2")
            raise RuntimeError("given up")
        assert dict(pack.items()) == {"a": b"1"}
        batch = pack.batch()
        batch.put("c", b"3")
        batch.commit()
        assert pack["c"] == b"3"


def test_append_takes_the_next_id() -> None:
    with stook.Pack("p.stook", "a") as pack:
        pack["text"] = b""
        assert [pack.append(b"x"), pack.append(b"y", attributes={"n": 1})] == [0, 1]
        pack[10] = b"z"
    with stook.Pack("p.stook", "a") as pack:
        assert pack.append(b"w") == 11
        pack[2**64 - 1] = b"last"
    with stook.Pack("p.stook", "a") as pack, pytest.raises(stook.InvalidError, match="highest id"):
        pack.append(b"v")


def test_states_of_the_past_stay_readable() -> None:
    with stook.Pack("p.stook", "a") as pack:
        first = pack.put("k", b"old")
        record = pack.record("k")
        assert record is not None
        before = record.time_ns
        snapshot = pack.snapshot()
        assert pack.put("k", b"new") > first
        assert snapshot["k"] == b"old" and pack["k"] == b"new"
        snapshot.close()
    with stook.Pack("p.stook", at=before) as pack:
        assert pack["k"] == b"old"
    with stook.Pack("p.stook", at=datetime.now(timezone.utc)) as pack:
        assert pack["k"] == b"new"


def test_a_reader_shows_one_state_until_it_is_refreshed() -> None:
    with stook.Pack("p.stook", "a") as writer:
        writer["a"] = b"1"
        writer.sync()
        with stook.Pack("p.stook") as reader:
            assert reader.is_current() and not reader.refresh()
            writer["b"] = b"2"
            writer.sync()
            assert list(reader) == ["a"]
            assert not reader.is_current()
            assert reader.refresh() and list(reader) == ["a", "b"]


def test_compaction_keeps_what_counts() -> None:
    reported: list[int] = []
    with stook.Pack("p.stook", "a") as pack:
        pack.update((number, b"x" * 100) for number in range(1000))
        for number in range(0, 1000, 2):
            del pack[number]
        report = pack.compact(progress=reported.append)
        assert (report.records, report.dead_records, report.left_out) == (500, 500, [])
        assert list(pack) == list(range(1, 1000, 2))
        assert pack.info().dead_records == 0
        assert pack.check().ok
    assert reported and reported == sorted(reported)


def test_compaction_leaves_what_a_step_has_no_room_for_and_counts_it() -> None:
    with stook.Pack("p.stook", "a") as pack:
        pack.update((number, b"x" * 1000) for number in range(100))
        for number in range(0, 100, 2):
            del pack[number]
        report = pack.compact(extra_bytes=1000)
        assert (report.steps, report.too_large) == (0, 1)
        # More than any disk has: what is needed is looked at first.
        report = pack.compact(extra_bytes=2**63)
        assert (report.dead_records, report.too_large) == (50, 0)
        assert list(pack) == list(range(1, 100, 2))


def test_check_and_info_tell_what_there_is(filled: Path) -> None:
    reported: list[tuple[int, int]] = []
    with stook.Pack(filled) as pack:
        report = pack.check(progress=lambda done, total: reported.append((done, total)))
        assert (report.ok, report.records, report.live_records, report.body_bytes) == (True, 3, 3, 20)
        info = pack.info()
        assert (info.path, info.records, info.groups, info.complete) == (filled, 3, ["", "second"], True)
        assert {segment.group for segment in info.segments} == {"", "second"}
        assert sum(segment.records for segment in info.segments) == 3
        assert pack.groups == ["", "second"] and pack.generation == info.generation
        assert (pack.path, pack.mode, pack.closed) == (filled, "r", False)
    assert reported and all(0 <= done <= total for done, total in reported)


def test_trees_go_in_and_come_out(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "a.txt").write_bytes(b"a")
    (tree / "sub" / "b.txt").write_bytes(b"bb")
    (tree / "sub" / "link").symlink_to("b.txt")
    reported: list[tuple[int, int]] = []
    report = stook.pack_tree(tree, "t.stook", progress=lambda entries, size: reported.append((entries, size)))
    assert (report.files, report.symlinks, report.bytes, report.failures) == (2, 1, 3, [])
    assert reported and reported[-1][1] == 3
    assert stook.pack_tree(tree, "t.stook").unchanged > 0
    (tree / "a.txt").unlink()
    assert stook.pack_tree(tree, "t.stook", delete=True).deleted == 1
    out = stook.unpack("t.stook", "out", progress=True)
    assert (out.files, out.symlinks, out.bytes) == (1, 1, 2)
    assert Path("out/sub/b.txt").read_bytes() == b"bb"
    assert Path("out/sub/link").readlink() == Path("b.txt")
    again = stook.unpack("t.stook", "out")
    assert (again.unchanged, again.kept) == (2, [])
    Path("out/sub/b.txt").write_bytes(b"mine")
    assert stook.unpack("t.stook", "out").kept == ["sub/b.txt"]
    with pytest.raises(stook.InvalidError, match="overwrite is one of"):
        stook.unpack("t.stook", "out", overwrite="yes")  # type: ignore[arg-type]
    assert stook.unpack("t.stook", "out", overwrite="different").files == 1
    Path("out/sub").chmod(0o777)
    loose = stook.unpack("t.stook", "out", overwrite="different")
    assert loose.kept == loose.too_open == ["sub"]
    assert stook.unpack("t.stook", "out", overwrite="always").kept == []
    assert Path("out/sub/b.txt").read_bytes() == b"bb"
    assert stook.unpack("t.stook", "out", overwrite="always", select=lambda key: "link" not in key).files == 1
    several = stook.pack_tree([tree, tmp_path / "out"], "s.stook", select=lambda key: not key.endswith("link"))
    assert (several.files, several.symlinks) == (2, 0)


def test_deletions_that_look_like_an_accident_are_refused(tmp_path: Path) -> None:
    for name in ["train", "test"]:
        (tmp_path / name).mkdir()
        for number in range(3):
            (tmp_path / name / f"{number}.txt").write_text(name)
    both = [tmp_path / "train", tmp_path / "test"]
    stook.pack_tree(both, "d.stook")
    before = list(stook.Pack("d.stook"))
    with pytest.raises(stook.InvalidError, match="made from"):
        stook.pack_tree(tmp_path / "train", "d.stook", delete=True)
    for number in range(3):
        (tmp_path / "train" / f"{number}.txt").unlink()
        (tmp_path / "test" / f"{number}.txt").unlink()
    with pytest.raises(stook.InvalidError, match="more than half"):
        stook.pack_tree(both, "d.stook", delete=True)
    with pytest.raises(stook.InvalidError, match="more than the 5"):
        stook.pack_tree(both, "d.stook", delete=True, max_delete=5)
    assert list(stook.Pack("d.stook")) == before
    assert stook.pack_tree(both, "d.stook", delete=True, max_delete=6).deleted == 6
    # With a group only that group is looked at.
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "x").write_text("a")
    (tmp_path / "b" / "y").write_text("b")
    stook.pack_tree(tmp_path / "a", "g.stook", group="a")
    stook.pack_tree(tmp_path / "b", "g.stook", group="b", delete=True, force=True)
    assert {"x", "y"} <= set(stook.Pack("g.stook"))


def test_awaitable_twins_let_the_event_loop_go_on(filled: Path) -> None:
    async def main() -> None:
        with stook.Pack(filled) as pack:
            values, value = await asyncio.gather(pack.aget_many(["a", 7, "none"]), pack.aget("g"))
            assert values == [b"alpha", b"seven", None] and value == b"in a group"

    asyncio.run(main())


def test_a_pack_can_be_pickled_where_it_is_only_read(filled: Path) -> None:
    with stook.Pack(filled, map=True, access="cached") as pack:
        with pickle.loads(pickle.dumps(pack)) as other:
            assert other["a"] == b"alpha" and other.path == filled


def test_what_is_shown_of_objects(filled: Path) -> None:
    pack = stook.Pack(filled)
    assert repr(pack) == f"<stook.Pack {filled} (r)>"
    pack.close()
    assert repr(pack) == f"<stook.Pack {filled} (r, closed)>"
    assert pack.closed


def test_a_batch_that_was_committed_is_not_entered_again() -> None:
    # Before: what was put in it then was refused, but not the block.
    with stook.Pack("data.stook", "a") as pack:
        batch = pack.batch()
        batch.put("a", b"1")
        batch.commit()
        with pytest.raises(stook.ClosedError, match="this batch is closed"), batch:
            pass
        assert pack["a"] == b"1"
