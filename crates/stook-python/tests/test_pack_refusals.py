"""What packs refuse: type and message of every exception, closed objects, damage."""

from __future__ import annotations

import errno
import gc
import pickle
import re
import resource
import tarfile
import warnings
from pathlib import Path
from typing import Any, Callable

import numpy
import pytest

import stook


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"mode": "w"}, ValueError, "the mode is one of 'r', 'r+', 'a', 'x', not \"w\""),
        ({"access": "fast"}, ValueError, "access is one of 'auto', 'direct', 'cached'"),
        ({"mode": "r+", "durability": "never"}, ValueError, "durability is 'sync', 'put', or a number of seconds"),
        ({"mode": "r+", "durability": -1}, ValueError, "durability is"),
        ({"mode": "r+", "segment_bytes": 1}, ValueError, "segment_bytes: a segment is at least 1048576 bytes"),
        ({"mode": "r+", "at": 1}, ValueError, "a state of the past can only be read"),
        ({"at": "yesterday"}, ValueError, "RFC 3339"),
            ({"at": b"2026-01-01"}, TypeError, "a time is a datetime"),
        ({"at": float("nan")}, ValueError, "no time that a pack can have"),
        ({"generation": 10**6}, LookupError, "generation"),
        ({"generation": -1}, ValueError, "a number from 0 on is wanted, not -1"),
        ({"colour": 1}, TypeError, "colour"),
        ({"mode": "x"}, FileExistsError, "already there"),
    ],
)
def test_options_that_make_no_sense(filled: Path, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        stook.Pack(filled, **options)


def test_places_where_no_pack_is(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        stook.Pack("none")
    assert caught.value.filename == "none" and caught.value.errno == 2
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_bytes(b"")
    modes: list[stook.Mode] = ["r", "r+", "a"]
    for mode in modes:
        with pytest.raises(stook.NotAPackError, match="is not a pack"):
            stook.Pack("folder", mode)
    assert sorted(path.name for path in (tmp_path / "folder").iterdir() if path.name != "writer.lock") == ["file"]
    # Before: NotADirectoryError, where an archive in the same place was NotAPackError.
    with pytest.raises(stook.NotAPackError, match="it is a file, and a pack is a directory"):
        stook.Pack(tmp_path / "folder" / "file")


def test_an_archive_in_the_place_of_a_pack_is_called_so_with_what_takes_archives(tmp_path: Path) -> None:
    # Before: reading said that it is no directory; a repair said the same.
    archive = tmp_path / "t.tar"
    with tarfile.open(archive, "w") as tar:
        tar.addfile(tarfile.TarInfo("a"))
    calls: list[Callable[[], object]] = [
        lambda: stook.Pack(archive),
        lambda: stook.Pack(archive, "r+"),
        lambda: stook.check(archive),
        lambda: stook.repair(archive, tmp_path / "new.stook"),
    ]
    for call in calls:
        with pytest.raises(stook.NotAPackError, match=r"it is an archive \(tar\).*stook\.unpack.*stook\.pack_tree"):
            call()
    assert [path.name for path in tmp_path.iterdir()] == ["t.tar"]


@pytest.mark.parametrize("key", [1.5, None, ("a",), [1]])
def test_keys_of_other_types(filled: Path, key: Any) -> None:
    with stook.Pack(filled, "r+") as pack:
        message = f"keys are str, bytes or int, not {type(key).__name__}"
        calls: list[Callable[[], object]] = [
            lambda: pack[key],
            lambda: pack.get(key),
            lambda: pack.get_many([key]),
            lambda: pack.record(key),
            lambda: pack.records([key]),
            lambda: pack.put(key, b""),
            lambda: pack.delete(key),
            lambda: pack.batch().put(key, b""),
            lambda: pack.batch().delete(key),
        ]
        for call in calls:
            with pytest.raises(TypeError, match=re.escape(message)):
                call()


def test_keys_out_of_range(filled: Path) -> None:
    with stook.Pack(filled, "r+") as pack:
        for key in (-1, 2**64):
            with pytest.raises(ValueError, match=r"ids are 0 to 2\*\*64 - 1"):
                pack[key]
        with pytest.raises(stook.LimitError, match="65535"):
            pack["x" * 65536] = b""
        with pytest.raises(TypeError, match="several keys are wanted, not one"):
            pack.get_many("abc")
        with pytest.raises(TypeError, match="a prefix is str or bytes, not int"):
            pack.keys(prefix=5)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="either a prefix, or start and end"):
            pack.keys(prefix="a", start="b")


def test_values_of_other_types(filled: Path) -> None:
    with stook.Pack(filled, "r+") as pack:
        for value in ("text", 5, None, ["a"]):
            with pytest.raises(TypeError, match=f"a bytes-like object is wanted, not {type(value).__name__}"):
                pack["k"] = value  # type: ignore[assignment]
        with pytest.raises(BufferError, match="one piece"):
            pack["k"] = numpy.arange(10)[::2]
        assert "k" not in pack


@pytest.mark.parametrize(
    ("attributes", "error", "message"),
    [
        ({"x": 1.5}, TypeError, "attributes are int, str or bytes; x is float"),
        ({"x": True}, TypeError, "x is bool"),
        ({"x": 2**64}, ValueError, "does not fit into 64 bits"),
        ({"kind": "pipe"}, ValueError, "one of file, directory, symlink, hard_link"),
        ({"mode": -1}, ValueError, "the attribute mode is a number of 32 bits, not -1"),
        ({"mtime_ns": "now"}, ValueError, "nanoseconds since 1970"),
        ({5: 1}, TypeError, "a number from 128 to 255, not 5"),
        ({"x" * 256: 1}, ValueError, "255"),
        ([], TypeError, "argument 'attributes': a dict is wanted, not list"),
    ],
)
def test_attributes_that_cannot_be_kept(filled: Path, attributes: Any, error: type[Exception], message: str) -> None:
    with stook.Pack(filled, "r+") as pack:
        with pytest.raises(error, match=re.escape(message)):
            pack.put("k", b"", attributes=attributes)
        assert "k" not in pack


def test_scans_that_make_no_sense(filled: Path) -> None:
    with stook.Pack(filled) as pack:
        with pytest.raises(ValueError, match="the order is 'disk' or 'key'"):
            pack.scan(order="size")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="on_damage is 'raise' or 'skip'"):
            pack.scan(on_damage="ignore")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="group is None, a str, or a list of str"):
            pack.scan(group=5)  # type: ignore[arg-type]
        for group in ("absent", ["", "absent"]):
            with pytest.raises(ValueError, match='"absent"; it has: "" [(]default[)], "second"'):
                pack.scan(group=group)
            with pytest.raises(ValueError, match='no group "absent"'):
                pack.splits(2, group=group)
            with pytest.raises(ValueError, match='no group "absent"'):
                stook.unpack(filled, filled.parent / "out", group=group)
            assert not (filled.parent / "out").exists()
        with pytest.raises(ValueError, match="no cursor"):
            pack.scan(cursor="x")
        with pytest.raises(ValueError, match="a cursor says itself"):
            pack.scan(cursor=pack.scan().cursor(), prefix="a")
        with pytest.raises(ValueError, match="1 part or more"):
            pack.splits(0)
        with pytest.raises(ValueError):
            stook.Split("x")


def test_cursors_and_splits_of_another_pack_are_refused(filled: Path) -> None:
    with stook.Pack("other.stook", "x") as other:
        other["a"] = b"1"
    with stook.Pack("other.stook") as other, stook.Pack(filled) as pack:
        with pytest.raises(stook.InvalidError):
            pack.scan(cursor=other.scan().cursor())
        with pytest.raises(stook.InvalidError):
            pack.scan(split=other.splits(1)[0])


def test_a_pack_that_is_read_cannot_be_written(filled: Path) -> None:
    with stook.Pack(filled) as pack:
        calls: list[Callable[[], object]] = [
            lambda: pack.put("k", b""),
            lambda: pack.append(b""),
            lambda: pack.delete("a"),
            lambda: pack.pop("a"),
            lambda: pack.update({"a": b""}),
            lambda: pack.batch(),
            lambda: pack.sync(),
            lambda: pack.compact(),
        ]
        for call in calls:
            with pytest.raises(ValueError, match="open it with mode 'r\\+' or 'a'"):
                call()


def test_compaction_with_options_that_make_no_sense(filled: Path) -> None:
    with stook.Pack(filled, "r+") as pack:
        with pytest.raises(ValueError, match="max_dead is a share"):
            pack.compact(max_dead=1.5)
        with pytest.raises(ValueError, match="keep_seconds is 0 or more"):
            pack.compact(keep_seconds=-1)


def test_a_closed_pack_says_so(filled: Path) -> None:
    pack = stook.Pack(filled, "r+")
    batch = pack.batch()
    batch.put("k", b"")
    pack.close()
    pack.close()
    calls: list[Callable[[], object]] = [
        lambda: pack["a"],
        lambda: "a" in pack,
        lambda: len(pack),
        lambda: list(pack),
        lambda: pack.get("a"),
        lambda: pack.get_many(["a"]),
        lambda: pack.record("a"),
        lambda: pack.records(["a"]),
        lambda: pack.keys(),
        lambda: pack.items(),
        lambda: pack.values(),
        lambda: pack.scan(),
        lambda: pack.splits(1),
        lambda: pack.check(),
        lambda: pack.info(),
        lambda: pack.groups,
        lambda: pack.generation,
        lambda: pack.is_current(),
        lambda: pack.refresh(),
        lambda: pack.snapshot(),
        lambda: pack.put("k", b""),
        lambda: pack.append(b""),
        lambda: pack.delete("a"),
        lambda: pack.batch(),
        lambda: pack.sync(),
        lambda: pack.compact(),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="this pack is closed"):
            call()
    with pytest.raises(stook.ClosedError):
        batch.commit()
    with pytest.raises(ValueError, match="this batch is closed"):
        batch.put("k", b"")


def test_scans_and_keys_outlive_their_pack(filled: Path) -> None:
    pack = stook.Pack(filled)
    scan, keys, record = pack.scan(order="key"), iter(pack.keys()), pack.record("a")
    pack.close()
    del pack
    gc.collect()
    assert record is not None and bytes(record) == b"alpha"
    assert [record.key for record in scan] == list(keys) == ["a", "g", 7]


def test_only_one_may_write(filled: Path) -> None:
    with stook.Pack(filled, "r+"):
        with pytest.raises(stook.LockedError, match="locked by") as caught:
            stook.Pack(filled, "r+")
        assert isinstance(caught.value, BlockingIOError)
    stook.Pack(filled, "r+").close()


def test_what_ends_the_block_of_a_pack_is_raised_though_closing_fails_too() -> None:
    # Before: closing raised StoppedError in its place, and what had happened was gone.
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def put_too_much(pack: stook.Pack) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
        try:
            pack["a"] = bytes(16 << 20)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    with pytest.raises(OSError) as caught, stook.Pack("p.stook", "a") as pack:
        put_too_much(pack)
    assert caught.value.errno == errno.EFBIG
    with pytest.raises(ZeroDivisionError), stook.Pack("q.stook", "a") as pack:
        with pytest.raises(OSError):
            put_too_much(pack)
        raise ZeroDivisionError
    with pytest.raises(stook.StoppedError), stook.Pack("r.stook", "a") as pack:
        with pytest.raises(OSError):
            put_too_much(pack)


def test_a_writer_is_not_pickled(filled: Path) -> None:
    with stook.Pack(filled, "r+") as pack, pytest.raises(TypeError, match="open it with mode 'r' for other processes"):
        pickle.dumps(pack)


def test_a_writer_that_was_not_closed_is_reported_and_loses_nothing() -> None:
    pack = stook.Pack("p.stook", "a")
    pack["a"] = b"1"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del pack
        gc.collect()
    assert [warning.category for warning in caught] == [ResourceWarning]
    assert "p.stook was not closed" in str(caught[0].message)
    with stook.Pack("p.stook") as reader:
        assert reader["a"] == b"1"


def test_damage_is_reported_with_file_offset_and_key(filled: Path, damage: Callable[[Path, bytes], None]) -> None:
    damage(filled, b"alpha")
    for map in (False, True):
        with pytest.warns(stook.DamageWarning, match="record a"):
            pack = stook.Pack(filled, map=map)
        with pack:
            calls: list[Callable[[], object]] = [
                lambda: pack["a"],
                lambda: pack.get("a"),
                lambda: pack.get_many(["g", "a"]),
                lambda: pack.record("a"),
                lambda: pack.records(["a"]),
                lambda: list(pack.scan()),
                lambda: list(pack.items()),
            ]
            for call in calls:
                with pytest.raises(stook.DamagedError, match="checksum") as caught:
                    call()
                assert isinstance(caught.value, OSError)
                assert caught.value.key == "a" and caught.value.offset > 0
                assert caught.value.file is not None and Path(caught.value.file).parent == filled
            assert pack["g"] == b"in a group" and "a" in pack
            scan = pack.scan(on_damage="skip", order="key")
            assert [record.key for record in scan] == ["g", 7]
            assert [damage.key for damage in scan.damages] == ["a"]
            report = pack.check()
            assert not report.ok and [error.key for error in report.damages] == ["a"]


def test_callbacks_that_raise_stop_the_work(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a").write_bytes(b"a")

    def refuse(*_: object) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        stook.pack_tree("tree", "t.stook", select=refuse)
    with pytest.raises(RuntimeError, match="enough"):
        stook.pack_tree("tree", "u.stook", progress=refuse)
    stook.pack_tree("tree", "t.stook")
    with pytest.raises(RuntimeError, match="enough"):
        stook.unpack("t.stook", "out", select=refuse)
    with stook.Pack("t.stook") as pack, pytest.raises(RuntimeError, match="enough"):
        pack.check(progress=refuse)


def test_trees_that_cannot_be_packed(tmp_path: Path, filled: Path) -> None:
    with pytest.raises(FileNotFoundError):
        stook.pack_tree("none", "t.stook")
    assert not Path("t.stook").exists()
    with pytest.raises(ValueError, match="^argument 'sources': at least one is wanted$"):
        stook.pack_tree([], "t.stook")
    with pytest.raises(ValueError, match="progress is a callable"):
        stook.unpack(filled, "out", progress=5)  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        stook.unpack("none", "out")


def test_what_a_writer_left_unfinished_is_warned_of(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "file").write_bytes(b"new")
    with stook.Pack("torn.stook", "x") as pack:
        pack["a"] = b"acknowledged"
    segment = Path("torn.stook/segment-0000000000000001")

    def tear() -> None:
        with segment.open("ab") as file:
            file.write(b"unfinished" * 8)

    tear()
    stook.Pack("torn.stook").close()
    with pytest.warns(stook.RecoveryWarning, match=r"torn.stook: cut an unfinished end of 80 bytes"):
        pack = stook.Pack("torn.stook", "r+")
    with pack:
        assert pack["a"] == b"acknowledged"
    tear()
    with pytest.warns(stook.RecoveryWarning, match="cut an unfinished end"):
        stook.pack_tree("tree", "torn.stook")
    with stook.Pack("torn.stook") as pack:
        assert sorted(key for key in pack if key) == ["a", "file"]


def test_a_lost_segment_is_no_silence(filled: Path) -> None:
    (lost,) = filled.glob("segment-0000000000000001")
    lost.unlink()
    with pytest.warns(stook.DamageWarning, match="is damaged: .*missing"):
        pack = stook.Pack(filled)
    with pack:
        assert [Path(damage.file or "") for damage in pack.damages] == [lost]
        for scan in (pack.items, pack.values, pack.scan):
            with pytest.raises(stook.DamagedError, match="missing"):
                list(scan())
        skipping = pack.scan(on_damage="skip")
        whole = list(skipping)
        assert len(whole) < 3 and [damage.file for damage in skipping.damages] == [str(lost)]
    with pytest.warns(stook.DamageWarning):
        report = stook.unpack(filled, "copy")
    assert report.failures and [damage.file for damage in report.damages] == [str(lost)]
    # What is written now could replace something of what is lost, and come second when it is back.
    with pytest.raises(stook.InvalidError, match="nothing may be written"):
        stook.Pack(filled, "a")


def test_a_damaged_index_is_warned_of_at_every_opening_of_the_pack(filled: Path) -> None:
    """The last 256 bytes of a sealed segment say where its index is."""
    with stook.Pack(filled, "a") as pack:
        pack["a"] = b"again"
        pack.compact()
    segments = sorted(filled.glob("segment-*"))
    data = bytearray(segments[-1].read_bytes())
    data[-100] ^= 1
    segments[-1].write_bytes(data)
    for mode in ("r", "a"):
        with pytest.warns(stook.DamageWarning, match="is damaged"), stook.Pack(filled, mode) as pack:
            assert pack.damages and all(isinstance(damage, stook.DamagedError) for damage in pack.damages)
    Path("tree").mkdir()
    Path("tree/new").write_bytes(b"new")
    with pytest.warns(stook.DamageWarning):
        packed = stook.pack_tree("tree", filled)
    assert packed.files == 1 and packed.damages
