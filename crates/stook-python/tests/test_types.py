"""What type checkers make of it: mypy looks at this file, and it runs."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Union

from typing_extensions import assert_type

import stook


def test_types_of_packs(filled: Path) -> None:
    with stook.Pack(filled, "r+") as pack:
        assert_type(pack, stook.Pack)
        assert_type(pack["a"], bytes)
        assert_type(pack.get("a"), Union[bytes, None])
        assert_type(pack.get("a", 5), Union[bytes, int])
        assert_type(pack.get_many(["a", 7]), list[Union[bytes, None]])
        assert_type(pack.get_many([b"a"], b""), list[bytes])
        assert_type(pack.record("a"), Union[stook.Record, None])
        assert_type(list(pack), list[Union[str, int]])
        assert_type(dict(pack.items()), dict[Union[str, int], bytes])
        assert_type(list(pack.values()), list[bytes])
        assert_type([record.value for record in pack.scan()], list[memoryview])
        assert_type(pack.splits(2), list[stook.Split])
        assert_type(pack.put("k", b""), int)
        assert_type(pack.append(memoryview(b"")), int)
        assert_type(pack.delete("k"), bool)
        assert_type(pack.pop("none", None), Union[bytes, None])
        assert_type(pack.info(), stook.PackInfo)
        assert_type(pack.check().damages, list[stook.DamagedError])
        assert_type(pack.compact().dead_records, int)
        with pack.batch() as batch:
            assert_type(batch, stook.Batch)
        assert_type(pack.snapshot(), stook.Pack)
        assert_type(list(pack.follow(timeout=0)), list[stook.Record])
    assert_type(stook.check(filled), stook.CheckReport)
    assert_type(stook.repair(filled, "saved.stook").quarantined, list[stook.Quarantined])
    copied = stook.copy([filled], "copied", to="spare", hashes=["xxh3"], overwrite="older")
    assert_type(copied, stook.CopyReport)
    assert_type(copied.destinations, list[stook.CopyDestination])
    assert_type(stook.unpack(filled, include=["*"], tar="filled.tar"), stook.UnpackReport)


def test_types_of_archives() -> None:
    with zipfile.ZipFile("x.zip", "w") as file:
        file.writestr("a", b"1")
    with stook.Archive("x.zip") as archive:
        assert_type(archive, stook.Archive)
        assert_type(archive["a"], bytes)
        assert_type(archive.get("a"), Union[bytes, None])
        assert_type(archive.get("b", 5), Union[bytes, int])
        assert_type(archive.get_many(["a", "b"]), list[Union[bytes, None]])
        assert_type(list(archive), list[Union[str, int]])
        assert_type(archive.stat("a"), Union[stook.Stat, None])
        assert_type(archive.load(), stook.LoadReport)
        assert_type(archive.info(), stook.ArchiveInfo)


def test_types_of_stitched_files(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a").write_bytes(b"1")
    with stook.stitch.tar(tmp_path / "tree") as file:
        assert_type(file, stook.VirtualFile)
        assert_type(file.read(1), bytes)
        assert_type(file.members(), list[stook.StitchMember])
        assert_type(file.failures, list[stook.Failure])
    shards = stook.stitch.wds([tmp_path / "tree"], shard_bytes=None)
    assert_type(shards, stook.Shards)
    assert_type(shards[0], stook.VirtualFile)
    assert_type(shards[:1], list[stook.VirtualFile])


def test_types_of_sparse_files(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(1000))
    with stook.open(path) as file:
        assert_type(file, stook.File)
        assert_type(file.read(10), bytes)
        assert_type(file.read_at(0, 5), bytes)
        assert_type(file.seek(0), int)
        assert_type(file.statistics().requests, int)
    with stook.SparseFile(path) as sparse:
        assert_type(sparse.read(0, 5), bytes)
        assert_type(sparse.read_many([(0, 5)]), list[bytes])
        assert_type(sparse.size, int)
    buffer = stook.SparseBuffer()
    buffer.write(0, b"abc")
    assert_type(buffer.read(0, 3), bytes)
    assert_type(buffer.gaps(0, 10), list[tuple[int, int]])
    assert_type(buffer.need(0, 10), list[tuple[int, int]])
    assert_type(buffer.has(0, 3), bool)
