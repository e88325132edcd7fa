"""Stitched files: what other programs read in them, from any thread, and all that is refused."""

from __future__ import annotations

import io
import multiprocessing
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from pathlib import Path
from typing import Any, Callable

import numpy
import pytest
from hypothesis import given, settings, strategies
from safetensors import safe_open
from safetensors.numpy import save_file

import stook
from test_unpack import stook_command

#: What the members of the tree have.
CONTENT = {
    "empty": b"",
    "notes/a note": b"short",
    "pictures/2026/cat.jpg": random.Random(1).randbytes(2_500_001),
    "pictures/dog.jpg": random.Random(2).randbytes(70_000),
    "übung": b"umlaut",
}


@pytest.fixture(autouse=True)
def tree() -> Path:
    """A tree of files, with a link."""
    tree = Path("tree")
    for name, content in CONTENT.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(content)
    (tree / "link").symlink_to("empty")
    # The time of a file that is written again is another one then.
    for path in tree.rglob("*"):
        os.utime(path, (1_700_000_000, 1_700_000_000), follow_symlinks=False)
    return tree


#: Everything that lays out a tree, by name.
STITCHED: dict[str, Callable[[], stook.VirtualFile]] = {
    "tar": lambda: stook.stitch.tar("tree"),
    "zip": lambda: stook.stitch.zip("tree"),
    "raw": lambda: stook.stitch.raw(["tree/pictures", "tree/empty", "tree/übung"]),
    "afs": lambda: stook.stitch.afs("tree/pictures"),
    "wds": lambda: stook.stitch.wds("tree/pictures")[0],
    "patch": lambda: stook.stitch.patch(a_zip(), "tree/pictures"),
}


def a_zip() -> str:
    with zipfile.ZipFile("game.zip", "w", zipfile.ZIP_DEFLATED) as file:
        for number in range(10):
            file.writestr(f"member {number}", f"content {number}" * 1000)
    return "game.zip"


@pytest.mark.parametrize("name", STITCHED)
def test_it_is_the_file_that_is_written(name: str) -> None:
    with STITCHED[name]() as file:
        calls: list[tuple[int, int]] = []
        file.write("written", progress=lambda *numbers: calls.append(numbers))
        flat = Path("written").read_bytes()
        assert calls[-1] == (len(flat), len(flat)) and file.size == len(flat) == file.seek(0, 2)
        file.seek(0)
        assert file.read() == flat and file.read() == b"" and file.tell() == len(flat)
        assert file.read_at(len(flat) - 3, 10) == flat[-3:] and file.read_at(len(flat) + 5, 3) == b""
        # As another program writes it.
        if name != "patch":
            inputs = {"raw": ["tree/pictures", "tree/empty", "tree/übung"], "tar": ["tree"], "zip": ["tree"]}
            stook_command("stitch", name, *inputs.get(name, ["tree/pictures"]), "--write", "shell")
            by_shell = Path("shell/000000.tar") if name == "wds" else Path("shell")
            assert by_shell.read_bytes() == flat


@settings(max_examples=20, deadline=None)
@given(strategies.data())
def test_any_range_is_that_of_the_flat_file(data: strategies.DataObject) -> None:
    lens = data.draw(strategies.lists(strategies.integers(0, 300), min_size=1, max_size=20))
    parts = [bytes([number]) * length for number, length in enumerate(lens)]
    names = [f"part {number}" for number in range(len(lens))]
    for name, part in zip(names, parts):
        Path(name).write_bytes(part)
    flat = b"".join(parts)
    with stook.stitch.raw(names) as file:
        for _ in range(10):
            position = data.draw(strategies.integers(0, len(flat) + 2))
            length = data.draw(strategies.integers(0, 500))
            wanted = flat[position : position + length]
            assert file.read_at(position, length) == wanted
            out = bytearray(length)
            assert file.readinto_at(position, out) == len(wanted) and out[: len(wanted)] == wanted


def test_tarfile_reads_a_tar_and_unpacks_it(tree: Path) -> None:
    with stook.stitch.tar("tree") as file, tarfile.open(fileobj=file) as tar:
        tar.extractall("out", filter="data")
        assert tar.getnames()[:2] == ["empty", "link"] and tar.getmember("link").linkname == "empty"
    for name, content in CONTENT.items():
        assert (Path("out") / name).read_bytes() == content
    assert os.readlink("out/link") == "empty"


def test_members_are_where_they_say() -> None:
    for name in ("tar", "zip", "afs", "patch"):
        with STITCHED[name]() as file:
            whole, files = file.read(), 0
            for member in file.members():
                if member.kind == "file" and not member.key.startswith("member "):
                    tails = [content for key, content in CONTENT.items() if key.endswith(member.key)]
                    assert whole[member.offset : member.offset + member.size] in tails, (name, member)
                    files += 1
            assert files >= 2


@pytest.mark.parametrize("trees", ["tree", ["tree", "game.zip//"]])
def test_zipfile_finds_every_checksum_as_it_should_be(trees: Any) -> None:
    a_zip()
    with stook.stitch.zip(trees) as file, zipfile.ZipFile(file) as archive:
        assert archive.testzip() is None
        below = "" if trees == "tree" else "tree/"
        assert {name: archive.read(below + name) for name in CONTENT} == CONTENT
        if below:
            assert archive.read("game.zip/member 3") == b"content 3" * 1000


def test_the_same_files_give_the_same_bytes_where_they_are_to(tree: Path) -> None:
    for stitch in (stook.stitch.tar, stook.stitch.zip):
        before = stitch("tree", deterministic=True).read(), stitch("tree").read()
        os.utime(tree / "übung", (1, 1))
        assert stitch("tree", deterministic=True).read() == before[0] and stitch("tree").read() != before[1]
        os.utime(tree / "übung", (1_700_000_000, 1_700_000_000))


def test_three_members_of_a_zip_are_replaced_and_no_others() -> None:
    before = Path(a_zip()).read_bytes()
    Path("changes").mkdir()
    for number in (2, 5, 7):
        Path(f"changes/member {number}").write_bytes(b"new %d" % number)
    Path("changes/member 9.del").touch()
    with stook.stitch.patch("game.zip", "changes") as file, zipfile.ZipFile(file) as archive:
        assert archive.testzip() is None
        found = {name: archive.read(name) for name in archive.namelist()}
        # What is before the first change is the original's.
        assert file.read_at(0, archive.getinfo("member 2").header_offset) == before[: archive.getinfo("member 2").header_offset]
    wanted = {f"member {number}": f"content {number}".encode() * 1000 for number in range(9)}
    wanted.update({f"member {number}": b"new %d" % number for number in (2, 5, 7)})
    assert found == wanted
    # It may take the place of what it is made of.
    with stook.stitch.patch("game.zip", ["changes"]) as file:
        file.write("game.zip")
    with zipfile.ZipFile("game.zip") as archive:
        assert archive.read("member 5") == b"new 5"
    Path("changes/MEMBER 1").write_bytes(b"case")
    with stook.stitch.patch(a_zip(), "changes", ignore_case=True) as file, zipfile.ZipFile(file) as archive:
        assert archive.read("member 1") == b"case" and len(archive.namelist()) == 9


def test_the_library_of_safetensors_reads_each_tensor_of_merged_shards() -> None:
    Path("model").mkdir()
    random_ = numpy.random.default_rng(1)
    tensors = {f"layer.{number}": random_.standard_normal((number + 1, 7)).astype("f4") for number in range(9)}
    for shard in range(3):
        own = {name: tensor for name, tensor in tensors.items() if int(name[6:]) % 3 == shard}
        save_file(own, f"model/{shard}.safetensors")
    with stook.stitch.safetensors("model") as file:
        file.write("merged.safetensors")
    with safe_open("merged.safetensors", framework="np") as merged:
        assert set(merged.keys()) == set(tensors)
        for name, tensor in tensors.items():
            assert numpy.array_equal(merged.get_tensor(name), tensor)
    shutil.copy("model/0.safetensors", "model/again.safetensors")
    with pytest.raises(stook.InvalidError, match="layer"):
        stook.stitch.safetensors("model")


def test_shards_hold_samples_and_are_a_sequence() -> None:
    Path("set").mkdir()
    for number in range(30):
        Path(f"set/{number:03}.jpg").write_bytes(bytes([number]) * 5000)
        Path(f"set/{number:03}.txt").write_text(str(number))
    shards = stook.stitch.wds("set", shard_bytes=60_000, prefix="train-")
    assert 3 < len(shards) == len(shards.names) and shards.names[1] == "train-000001.tar"
    assert shards.size == sum(shard.size for shard in shards) and all(shard.size <= 60_000 for shard in shards)
    samples = []
    for shard in shards:
        with shard, tarfile.open(fileobj=shard) as tar:
            names = tar.getnames()
            samples += names
            # Both files of a sample are in one.
            assert [name[:3] for name in names[::2]] == [name[:3] for name in names[1::2]]
    assert samples == [f"{number:03}.{ending}" for number in range(30) for ending in ("jpg", "txt")]
    assert shards[-1].read() == shards[len(shards) - 1].read() and len(shards[1:3]) == 2
    for wrong in (len(shards), -len(shards) - 1):
        with pytest.raises(IndexError):
            shards[wrong]
    shards.write("shards")
    assert sorted(os.listdir("shards")) == shards.names
    assert Path("shards", shards.names[2]).read_bytes() == shards[2].read()
    with pytest.raises(stook.InvalidError, match="is not empty"):
        shards.write("shards")
    shards.write("shards", force=True)
    shards.save("set.toml")
    for name, shard in zip(shards.names, shards):
        assert stook.VirtualFile("set.toml", name).read() == shard.read()
    with pytest.raises(stook.InvalidError, match="files, and one has to be named: train-000000.tar, "):
        stook.VirtualFile("set.toml")
    with pytest.raises(stook.InvalidError, match="has no file 000000.tar, but train-000000.tar, "):
        stook.VirtualFile("set.toml", "000000.tar")


def test_a_layout_opens_as_the_same_file_here_and_in_other_processes() -> None:
    with stook.stitch.tar("tree") as file:
        file.save("tree.toml")
        flat = file.read()
    assert Path("tree.toml").stat().st_size < len(flat) // 10
    with stook.VirtualFile(Path("tree.toml")) as file:
        assert (file.size, file.read(), file.name) == (len(flat), flat, "tree.toml//tree.tar")
        file.write("again.tar")
        file.save("again.toml")
        file.seek(7)
        copy = pickle.loads(pickle.dumps(file))
        assert copy.tell() == 7 and copy.read(100) == flat[7:107]
        for method in ("fork", "spawn"):
            with multiprocessing.get_context(method).Pool(1) as pool:
                assert pool.apply(_read_in_worker, (file, 1000)) == flat[1000:1010]
        with pytest.raises(stook.InvalidError, match=r"stook.Archive\('tree.toml//tree.tar'\) lists them"):
            file.members()
    assert Path("again.tar").read_bytes() == flat == stook.VirtualFile("again.toml", "again.tar").read()
    for again in (stook.VirtualFile("tree.toml//tree.tar"), stook.open("tree.toml//tree.tar")):
        assert again.read() == flat and pickle.loads(pickle.dumps(again)).read_at(5, 9) == flat[5:14]
    with pytest.raises(stook.InvalidError, match="tree.toml has no file other, but tree.tar"):
        stook.open("tree.toml//other")
    with pytest.raises(FileNotFoundError):
        stook.open("gone.toml//other")
    with stook.Archive("tree.toml//tree.tar") as archive:
        assert archive["notes/a note"] == b"short"
    with pytest.raises(stook.InvalidError, match="save"):
        pickle.dumps(stook.stitch.tar("tree"))


def _read_in_worker(file: stook.VirtualFile, position: int) -> bytes:
    return file.read_at(position, 10)


def test_other_readers_take_it() -> None:
    with stook.stitch.tar("tree") as file:
        flat = file.read_at(0, file.size)
        with open("copied", "wb") as out:
            shutil.copyfileobj(file, out)
        assert Path("copied").read_bytes() == flat
        array = numpy.zeros(1000, "u1")
        assert file.readinto_at(512, array.data) == 1000 and array.tobytes() == flat[512:1512]
        file.seek(512)
        assert file.readinto(array.data) == 1000 and file.tell() == 1512
        file.seek(0)
        buffered = io.BufferedReader(file)
        assert buffered.read(5000) == flat[:5000] and buffered.peek(1)[:1] == flat[5000:5001]
        assert isinstance(file, io.BufferedIOBase) and file.readable() and file.seekable() and not file.writable()
        buffered.detach()
        # What writes into files does not write over one that is called as its bytes.
        for data in (b"data", bytearray(b"data"), memoryview(b"data")):
            with pytest.raises(io.UnsupportedOperation):
                file.write(data)  # type: ignore[arg-type]
        assert not Path("data").exists()
        untyped: Any = file
        with pytest.raises(io.UnsupportedOperation):
            zipfile.ZipFile(untyped, "w").close()


def test_threads_read_at_random_and_share_nothing_but_the_position() -> None:
    with stook.stitch.zip("tree") as file:
        file.write("flat")
        flat, wrong = Path("flat").read_bytes(), []

        def read(seed: int) -> None:
            at = random.Random(seed)
            for _ in range(150):
                position, length = at.randrange(len(flat)), at.choice([1, 100, 5000, 400_000])
                if file.read_at(position, length) != flat[position : position + length]:
                    wrong.append((position, length))

        threads = [threading.Thread(target=read, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_reads_on_while_threads_of_its_parent_read() -> None:
    with stook.stitch.tar("tree") as file:
        flat = file.read()
        stop = threading.Event()

        def read() -> None:
            while not stop.is_set():
                file.read_at(random.randrange(len(flat)), 1000)

        threads = [threading.Thread(target=read) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(3):
                process = multiprocessing.get_context("fork").Process(target=_child, args=(file, flat))
                process.start()
                process.join(60)
                assert process.exitcode == 0
        finally:
            stop.set()
            for thread in threads:
                thread.join()


def _child(file: stook.VirtualFile, flat: bytes) -> None:
    for position in (0, 5000, len(flat) - 5000):
        assert file.read_at(position, 5000) == flat[position : position + 5000]
    file.close()


CHANGES: dict[str, Callable[[Path], object]] = {
    "longer": lambda path: path.write_bytes(bytes(100_000)),
    "shorter": lambda path: path.write_bytes(b"x"),
    "other bytes": lambda path: path.write_bytes(bytes(70_000)),
}


@pytest.mark.parametrize("how", CHANGES)
@pytest.mark.parametrize("kind", ["tar", "zip", "layout"])
def test_a_file_that_has_changed_is_an_error_that_names_it(how: str, kind: str, tree: Path) -> None:
    changed = tree / "pictures/dog.jpg"
    file = stook.stitch.zip("tree") if kind == "zip" else stook.stitch.tar("tree")
    if kind == "layout":
        file.save("tree.toml")
        file = stook.VirtualFile("tree.toml")
    CHANGES[how](changed)
    with file:
        for read in (lambda: file.read(), lambda: file.write("new"), lambda: file.read_at(file.size - 150_000, 140_000)):
            with pytest.raises(stook.SourceChangedError, match="tree/pictures/dog.jpg"):
                read()
    assert not Path("new").exists()


def test_a_file_that_is_gone_is_an_error_that_names_it(tree: Path) -> None:
    with stook.stitch.tar("tree") as file:
        (tree / "pictures/dog.jpg").unlink()
        for read in (lambda: file.read(), lambda: file.write("new")):
            with pytest.raises(FileNotFoundError, match="dog.jpg") as error:
                read()
            assert str(error.value.filename).endswith("tree/pictures/dog.jpg")
        # What is elsewhere is read.
        assert file.read_at(0, 5) == b"empty"


def test_a_changed_file_is_an_error_though_it_was_read_before(tree: Path) -> None:
    with stook.stitch.raw(["tree/pictures/2026/cat.jpg"]) as file:
        assert file.read_at(0, 10) == CONTENT["pictures/2026/cat.jpg"][:10]
        (tree / "pictures/2026/cat.jpg").write_bytes(bytes(2_500_001))
        with pytest.raises(stook.SourceChangedError, match="cat.jpg"):
            file.read_at(2_400_000, 100_000)


def test_it_is_never_written_over_what_it_is_made_of(tree: Path) -> None:
    before = {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()}
    a_zip()
    Path("other").symlink_to("tree/notes/a note")
    for force in (False, True):
        with stook.stitch.tar("tree") as file:
            for target in ("tree/notes/a note", "other"):
                for refused in (file.write, file.save):
                    with pytest.raises(stook.InvalidError):
                        refused(target, force=force)
        for file in (stook.stitch.tar("game.zip"), stook.stitch.tar("game.zip//")):
            with pytest.raises(stook.InvalidError, match="is what it is made of, and would be written over"):
                file.write("game.zip", force=force)
        with stook.stitch.patch("game.zip", "tree/pictures") as file:
            with pytest.raises(stook.InvalidError, match="written over"):
                file.write("tree/pictures/dog.jpg", force=force)
        with stook.stitch.tar("tree") as file:
            file.save("tree.toml")
        for target in ("tree/notes/a note", "tree.toml"):
            with pytest.raises(stook.InvalidError, match="written over"):
                stook.VirtualFile("tree.toml").write(target, force=force)
    with pytest.raises(stook.InvalidError, match="written over"):
        stook.stitch.tar(["tree/empty", "tree/notes"], target="tree/empty")
    assert {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()} == before
    assert zipfile.ZipFile("game.zip").testzip() is None


def test_shards_are_never_written_over_what_they_are_made_of() -> None:
    Path("set").mkdir()
    Path("set/000000.tar").write_bytes(b"a sample")
    with pytest.raises(stook.InvalidError, match="set/000000.tar is what it is made of"):
        stook.stitch.wds("set").write("set", force=True)
    assert Path("set/000000.tar").read_bytes() == b"a sample"


def test_the_target_is_no_member(tree: Path) -> None:
    (tree / "tree.tar").write_bytes(b"of before")
    assert "tree.tar" in [member.key for member in stook.stitch.tar("tree").members()]
    with stook.stitch.tar("tree", target=tree / "tree.tar") as file:
        file.write(tree / "tree.tar")
    with tarfile.open(tree / "tree.tar") as tar:
        assert "tree.tar" not in tar.getnames() and "übung" in tar.getnames()


def test_what_is_missing_is_said_and_a_file_that_is_there_stays(tree: Path) -> None:
    os.mkfifo(tree / "pipe")
    with stook.stitch.tar("tree") as file:
        assert file.left_out == ["pipe"] and file.failures == []
        file.write("new.tar")
        Path("old.tar").write_bytes(b"old")
        with pytest.raises(stook.ExistsError, match="old.tar stays as it was: something is missing"):
            file.write("old.tar")
        assert Path("old.tar").read_bytes() == b"old"
        file.write("old.tar", force=True)
        assert Path("old.tar").read_bytes() == Path("new.tar").read_bytes() == file.read()
    assert stook.stitch.wds("tree/pictures").left_out == []


def test_packs_and_archives_are_trees(filled: Path) -> None:
    with stook.Pack("p.stook", "x") as pack:
        pack["a/b"] = b"record"
    with stook.stitch.tar(["p.stook", "tree/notes"]) as file, tarfile.open(fileobj=file) as tar:
        assert {"p.stook/a/b", "notes/a note"} <= set(tar.getnames())
        assert tar.extractfile("p.stook/a/b").read() == b"record"  # type: ignore[union-attr]
    with pytest.raises(stook.InvalidError, match="a layout|no part"):
        stook.stitch.tar("p.stook").save("p.toml")
    assert not Path("p.toml").exists()


def test_what_is_closed_is_closed(tree: Path) -> None:
    file = stook.stitch.tar("tree")
    with file:
        pass
    calls: list[Callable[[], object]] = [
        file.read, file.members, lambda: file.read_at(0, 1), lambda: file.readinto_at(0, bytearray(1)),
        lambda: file.write("new"), lambda: file.save("new"), file.tell, lambda: pickle.dumps(file), file.__enter__,
    ]
    for call in calls:
        with pytest.raises(ValueError, match="closed"):
            call()
    file.close()
    assert repr(file) == "<stook.VirtualFile, closed>" and not Path("new").exists()


#: Without types, which would refuse most of this.
stitch: Any = stook.stitch


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: stitch.tar("tree", determinstic=True), TypeError, "unexpected keyword argument 'determinstic'"),
        (lambda: stitch.tar("tree", deterministic=1), TypeError, "argument 'deterministic': True or False is wanted, not int"),
        (lambda: stitch.tar("tree", True), TypeError, "positional"),
        (lambda: stitch.afs("tree", without_names="no"), TypeError, "argument 'without_names': True or False"),
        (lambda: stitch.patch("game.zip", "tree", ignore_case=None), TypeError, "argument 'ignore_case'"),
        (lambda: stitch.wds("tree", shard_bytes=-1), ValueError, "argument 'shard_bytes': a number from 0 on is wanted, not -1"),
        (lambda: stitch.wds("tree", prefix=5), TypeError, "argument 'prefix': a str is wanted, not int"),
        (lambda: stitch.tar([]), stook.InvalidError, "argument 'trees': at least one is wanted"),
        (lambda: stitch.patch("game.zip", []), stook.InvalidError, "argument 'folders': at least one is wanted"),
        (lambda: stitch.tar(5), TypeError, "argument 'trees'"),
        (lambda: stitch.tar(""), stook.InvalidError, "the path is empty"),
        (lambda: stitch.tar("tree", target=""), stook.InvalidError, "argument 'target': the path is empty"),
        (lambda: stitch.tar("tree", at="noon"), stook.InvalidError, "argument 'at'"),
        (lambda: stitch.tar("gone"), FileNotFoundError, "gone"),
        (lambda: stitch.tar(["tree", "tree"]), stook.InvalidError, "two of the trees have something with this path"),
        (lambda: stitch.raw("tree"), stook.InvalidError, "link cannot be in it"),
        (lambda: stitch.patch("tree", "tree"), stook.InvalidError, "is no archive"),
        (lambda: stitch.patch("game.zip", "tree/empty"), stook.InvalidError, "is no folder with members"),
        (lambda: stitch.safetensors("tree/notes"), Exception, "a note"),
        (lambda: stook.VirtualFile("tree/empty"), stook.InvalidError, "it is no layout"),
        (lambda: stook.VirtualFile("gone.toml"), FileNotFoundError, "gone.toml"),
        (lambda: stook.VirtualFile(""), stook.InvalidError, "argument 'layout': the path is empty"),
        (lambda: stitch.tar("tree").write(""), stook.InvalidError, "argument 'path': the path is empty"),
        (lambda: stitch.tar("tree").write("new", force="no"), TypeError, "argument 'force'"),
        (lambda: stitch.tar("tree").write("new", progress=5), stook.InvalidError, "progress is a callable"),
        (lambda: stitch.tar("tree").write("gone/new"), FileNotFoundError, "gone"),
        (lambda: stitch.tar("tree").save("tree/notes/new.toml"), stook.InvalidError, "beside or below"),
        (lambda: stitch.tar("tree").read_at(-1, 1), ValueError, "argument 'position'"),
        (lambda: stitch.tar("tree").readinto_at(0, b"read-only"), BufferError, "may not be written to"),
    ],
)
def test_a_slip_is_reported(call: Callable[[], object], error: type[Exception], message: str) -> None:
    a_zip()
    with pytest.raises(error) as refused:
        call()
    assert message in str(refused.value)
    assert not Path("new").exists()


def test_what_progress_raises_ends_it_and_leaves_nothing() -> None:
    def refuse(*_: int) -> None:
        raise RuntimeError("enough")

    before = sorted(os.listdir())
    with stook.stitch.tar("tree") as file:
        for call in (file.write, file.save):
            with pytest.raises(RuntimeError, match="enough"):
                call("new", progress=refuse)
    with pytest.raises(RuntimeError, match="enough"):
        stook.stitch.wds("tree/pictures").write("shards", progress=refuse)
    with pytest.raises(RuntimeError, match="enough"):
        stook.stitch.tar("tree", progress=refuse)
    assert sorted(os.listdir()) == before


#: Ctrl-C comes while the file is written, and while a zip computes what is at its end.
STOPPED = """
import os, signal, threading, time, stook
noticed = threading.Event()

def interrupt(*_):
    noticed.set()
    raise KeyboardInterrupt

def progress(*_):
    if not noticed.is_set():
        os.kill(os.getpid(), signal.SIGINT)
        noticed.wait(60)
        time.sleep(0.2)

signal.signal(signal.SIGINT, interrupt)
with stook.stitch.tar("tree") as file:
    try:
        file.write("new.tar", progress=progress)
    except KeyboardInterrupt:
        print("written", flush=True)
with stook.stitch.zip("slow") as file:
    print("reading", flush=True)
    try:
        file.read_at(file.size - 100, 100)
    except KeyboardInterrupt:
        print("read", flush=True)
"""


def test_ctrl_c_ends_what_takes_long() -> None:
    # A hole is read, and has to be read for its checksum.
    Path("slow").mkdir()
    with open("slow/hole", "wb") as file:
        file.truncate(200 << 30)
    before = sorted(os.listdir())
    process = subprocess.Popen([sys.executable, "-W", "ignore", "-c", STOPPED], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "written\n" and process.stdout.readline() == "reading\n"
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "read\n" and process.wait(60) == 0
    process.stdout.close()
    assert sorted(os.listdir()) == before


def test_webdataset_reads_a_pack_as_shards_that_were_never_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import webdataset

    with stook.Pack(tmp_path / "set.stook", "x") as pack:
        for number in range(40):
            pack[f"{number % 4}/{number:03}.bin"] = bytes([number]) * 500
            pack[f"{number % 4}/{number:03}.cls"] = b"%d" % (number % 4)
    shards = stook.stitch.wds(tmp_path / "set.stook", shard_bytes=20_000)
    assert len(shards) > 3

    def opened(url: str, *mode: object, **options: object) -> stook.VirtualFile:
        return shards[int(url.partition(":")[2])]

    monkeypatch.setitem(webdataset.gopen_schemes, "shard", opened)
    dataset = webdataset.WebDataset([f"shard:{number}" for number in range(len(shards))], shardshuffle=False)
    found = {sample["__key__"]: (sample["bin"], webdataset.autodecode.basichandlers("cls", sample["cls"])) for sample in dataset}
    assert found == {f"{number % 4}/{number:03}": (bytes([number]) * 500, number % 4) for number in range(40)}
