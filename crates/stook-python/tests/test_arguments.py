"""Arguments that make no sense: every one is refused by its name, and leaves no file."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Callable

import pytest

import stook


def numbers(pack: stook.Pack, file: stook.SparseFile) -> list[tuple[str, Callable[[int], object]]]:
    """Calls with one number, and the name of its argument."""
    buffer, store = stook.SparseBuffer(), stook.SparseStore()
    return [
        ("threads", lambda wrong: stook.pack_tree("tree", "new.stook", threads=wrong)),
        ("max_delete", lambda wrong: stook.pack_tree("tree", "new.stook", max_delete=wrong)),
        ("segment_bytes", lambda wrong: stook.pack_tree("tree", "new.stook", segment_bytes=wrong)),
        ("threads", lambda wrong: stook.unpack("data.stook", "out", threads=wrong)),
        ("generation", lambda wrong: stook.Pack("data.stook", generation=wrong)),
        ("segment_bytes", lambda wrong: stook.Pack("new.stook", "x", segment_bytes=wrong)),
        ("extra_bytes", lambda wrong: pack.compact(extra_bytes=wrong)),
        ("count", lambda wrong: pack.splits(wrong)),
        ("tries", lambda wrong: stook.open("file", tries=wrong)),
        ("memory_bytes", lambda wrong: stook.SparseFile("file", memory_bytes=wrong)),
        ("size", lambda wrong: stook.SparseFile.from_fetch(lambda start, end: b"", wrong)),
        ("budget_bytes", lambda wrong: stook.DiskCache("cache", wrong)),
        ("position", lambda wrong: file.read(wrong, 1)),
        ("length", lambda wrong: file.read(0, wrong)),
        ("start", lambda wrong: file.prefetch([(wrong, 5)])),
        ("end", lambda wrong: file.prefetch([(0, wrong)])),
        ("grain", lambda wrong: stook.SparseBuffer(grain=wrong)),
        ("position", lambda wrong: buffer.write(wrong, b"x")),
        ("max_gap", lambda wrong: buffer.need(0, 10, max_gap=wrong)),
        ("max_len", lambda wrong: buffer.need(0, 10, max_len=wrong)),
        ("budget_bytes", lambda wrong: store.evict_to(wrong)),
        ("count", lambda wrong: store.names_after("", wrong)),
    ]


def test_a_number_that_makes_no_sense_is_reported_with_the_name_of_its_argument() -> None:
    Path("tree").mkdir()
    Path("file").write_bytes(bytes(10))
    with stook.Pack("data.stook", "x") as pack, stook.SparseFile("file") as file:
        for name, call in numbers(pack, file):
            for wrong, wanted in ((-1, "a number from 0 on"), (1 << 70, "a smaller number")):
                with pytest.raises(ValueError, match=f"^argument '{name}': {wanted} is wanted, not {wrong}(\n|$)"):
                    call(wrong)
    assert not Path("new.stook").exists() and not Path("out").exists()


def typos(pack: stook.Pack, file: stook.File) -> dict[str, tuple[Callable[[Any], object], Any]]:
    """What the error says, and the call with a slip that it is of."""
    buffer, store = stook.SparseBuffer(), stook.SparseStore()
    from_fetch: Any = stook.SparseFile.from_fetch
    return {
        "argument 'delete': True or False is wanted, not str": (lambda wrong: stook.pack_tree("tree", "new.stook", delete=wrong), "no"),
        "argument 'move': True or False is wanted, not int": (lambda wrong: stook.pack_tree("tree", "new.stook", move=wrong), 1),
        "include is a pattern, or a list of patterns, not 5": (lambda wrong: stook.pack_tree("tree", "new.stook", include=wrong), 5),
        # Before: it was everything, which `move=True` then removed.
        "include is a pattern, or a list of patterns, not []": (lambda wrong: stook.pack_tree("tree", "new.stook", include=wrong), []),
        "include is a pattern, or a list of patterns, not ['a', 5]": (lambda wrong: stook.unpack(pack.path, "out", include=wrong), ["a", 5]),
        "select is called with paths, and so must be a callable, not '*.jpg'": (
            lambda wrong: stook.pack_tree("tree", "new.stook", select=wrong), "*.jpg"
        ),
        "progress is a callable, True or False, not 'yes'": (lambda wrong: stook.check(pack.path, progress=wrong), "yes"),
        "argument 'accept': True or False is wanted, not NoneType": (lambda wrong: stook.check(pack.path, accept=wrong), None),
        "argument 'with_owner': True or False is wanted, not str": (lambda wrong: stook.unpack(pack.path, "out", with_owner=wrong), "root"),
        "argument 'map': True or False is wanted, not str": (lambda wrong: stook.Pack(pack.path, map=wrong), "yes"),
        "argument 'at': \"noon\" is not a time: *": (lambda wrong: stook.Pack(pack.path, at=wrong), "noon"),
        "argument 'at': a time is a datetime, *, not [5]": (lambda wrong: stook.Pack(pack.path, at=wrong), [5]),
        "argument 'prefix': keys are str, bytes or int, not float": (lambda wrong: pack.keys(prefix=wrong), 1.5),
        "argument 'start': keys are str, bytes or int, not float": (lambda wrong: pack.keys(start=wrong), 1.5),
        "argument 'end': keys are str, bytes or int, not list": (lambda wrong: pack.scan(end=wrong), []),
        "argument 'kinds': 'int' object is not iterable": (lambda wrong: pack.keys(kinds=wrong), 5),
        "argument 'cursor': a str is wanted, not int": (lambda wrong: pack.scan(cursor=wrong), 5),
        "group is None, a str, or a list of str, not 5": (lambda wrong: pack.scan(group=wrong), 5),
        "argument 'keys': 'int' object is not iterable": (lambda wrong: pack.get_many(wrong), 5),
        "argument 'keys': several keys are wanted, not one": (lambda wrong: pack.get_many(wrong), "a"),
        "argument 'timeout': must be real number, not str": (lambda wrong: pack.follow(timeout=wrong), "5"),
        "timeout is a number of seconds, 0 or more, not -1": (lambda wrong: pack.follow(timeout=wrong), -1),
        "argument 'attributes': a dict is wanted, not list": (lambda wrong: pack.put("k", b"", attributes=wrong), []),
        "argument 'records': 'int' object is not iterable": (lambda wrong: pack.update(wrong), 5),
        "argument 'records': 'str' object is not an instance of 'tuple'": (lambda wrong: pack.update(wrong), "ab"),
        "argument 'keep_seconds': must be real number, not str": (lambda wrong: pack.compact(keep_seconds=wrong), "5"),
        "max_dead is a share from 0 to 1, not 50": (lambda wrong: pack.compact(max_dead=wrong), 50),
        "argument 'dry_run': True or False is wanted, not str": (lambda wrong: pack.compact(dry_run=wrong), "no"),
        "argument 'whole_file': True or False is wanted, not str": (lambda wrong: stook.Archive("x.zip", whole_file=wrong), "no"),
        "argument 'address': expected str, bytes or os.PathLike object, not float": (stook.open, 1.5),
        "argument 'path': expected str, bytes or os.PathLike object, not float": (stook.LocalFile, 1.5),
        "argument 'store': 'int' object is not an instance of 'SparseStore'": (lambda wrong: stook.open("tree/a", store=wrong), 5),
        "argument 'store_name': 'int' object is not an instance of 'str'": (lambda wrong: stook.open("tree/a", store=store, store_name=wrong), 5),
        "argument 'fetch': a function of start and end is wanted, not bytes": (lambda wrong: from_fetch(wrong, 5), b"bytes"),
        "argument 'identity': a str is wanted, not int": (lambda wrong: from_fetch(print, 5, identity=wrong), 5),
        "argument 'ranges': 'int' object is not iterable": (buffer.need_many, 5),
        "argument 'name': a str is wanted, not bytes": (store.get_or_create, b"x"),
        "'float' object cannot be interpreted as an integer": (file.seek, 1.5),
        "argument 'options': a list of str is wanted, not '--time 5'": (lambda wrong: stook.bench(".", options=wrong), "--time 5"),
        "argument 'overwrite_file': True or False is wanted, not 'no'": (lambda wrong: stook.bench(".", overwrite_file=wrong), "no"),
    }


def test_a_slip_is_reported_with_the_argument_what_was_given_and_what_is_wanted(filled: Path) -> None:
    Path("tree").mkdir()
    Path("tree/a").write_bytes(b"x")
    with stook.Pack(filled, "r+") as pack, stook.open("tree/a") as file:
        for message, (call, wrong) in typos(pack, file).items():
            with pytest.raises((TypeError, ValueError)) as refused:
                call(wrong)
            assert fnmatchcase(str(refused.value), message.replace("[", "[[]")), str(refused.value)
        assert len(pack) == 3
    assert not Path("new.stook").exists() and not Path("out").exists()


def test_an_empty_path_is_refused_and_not_taken_for_the_working_directory() -> None:
    calls: list[Callable[[Any], object]] = [
        stook.open,
        stook.SparseFile,
        stook.LocalFile,
        lambda path: stook.open(path, memory_bytes=1 << 20),
        stook.Pack,
        lambda path: stook.Pack(path, "a"),
        lambda path: stook.pack_tree("tree", path),
        lambda path: stook.pack_tree(path, "new.stook"),
        lambda path: stook.pack_tree(["tree", path], "new.stook"),
        lambda path: stook.unpack(path, "out"),
        lambda path: stook.unpack("data.stook", path),
        lambda path: stook.unpack("data.stook", tar=path),
        stook.check,
        stook.Archive,
        lambda path: stook.repair(path, "new.stook"),
        lambda path: stook.repair("data.stook", path),
        stook.DiskCache,
        lambda path: stook.SparseFile("file", cache=path),
    ]
    Path("tree").mkdir()
    Path("file").write_bytes(b"x")
    stook.Pack("data.stook", "x").close()
    before = sorted(Path().iterdir())
    for call in calls:
        for empty in ("", b""):
            with pytest.raises(ValueError, match="the path is empty"):
                call(empty)
    assert sorted(Path().iterdir()) == before


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"threads": 0}, ValueError, "argument 'threads': 1 to 1024 threads are wanted, not 0"),
        ({"threads": 1025}, ValueError, "argument 'threads': 1 to 1024 threads are wanted, not 1025"),
        ({"sources": []}, ValueError, "argument 'sources': at least one is wanted"),
        ({"sources": 5}, TypeError, "argument 'sources': 'int' object is not iterable"),
        ({"sources": [5]}, TypeError, "argument 'sources': expected str, bytes or os.PathLike object, not int"),
        ({"group": 3}, TypeError, "argument 'group': a str is wanted, not int"),
        ({"group_by": b"top"}, TypeError, "argument 'group_by': a str is wanted, not bytes"),
    ],
)
def test_whatever_makes_no_sense_to_pack_tree_is_refused_by_its_name(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    Path("tree").mkdir()
    with pytest.raises(error) as refused:
        stook.pack_tree(**{"sources": "tree", "pack": "new.stook", **options})
    assert str(refused.value) == message
    assert not Path("new.stook").exists()


def test_an_argument_that_is_no_str_is_refused_by_its_name(filled: Path) -> None:
    buffer = stook.SparseBuffer()
    with stook.Pack(filled, "r+") as pack:
        calls: list[tuple[str, Callable[[Any], object]]] = [
            ("group", lambda wrong: pack.put("k", b"", group=wrong)),
            ("group", lambda wrong: pack.append(b"", group=wrong)),
            ("group", lambda wrong: pack.update({"k": b""}, group=wrong)),
            ("group", lambda wrong: pack.batch(group=wrong)),
            ("order", lambda wrong: pack.scan(order=wrong)),
            ("on_damage", lambda wrong: pack.scan(on_damage=wrong)),
            ("mode", lambda wrong: stook.Pack(filled, wrong)),
            ("access", lambda wrong: stook.Pack(filled, access=wrong)),
            ("overwrite", lambda wrong: stook.unpack(filled, "out", overwrite=wrong)),
            ("on_difference", lambda wrong: buffer.write(0, b"x", wrong)),
            ("on_difference", lambda wrong: buffer.adopt(0, b"x", wrong)),
        ]
        for name, call in calls:
            for wrong in (3, b"x", None):
                with pytest.raises(TypeError) as refused:
                    call(wrong)
                assert str(refused.value) == f"argument '{name}': a str is wanted, not {type(wrong).__name__}"
        assert "k" not in pack and pack.put("k", b"", group="second") > 0
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (5, TypeError, "a dict, or None, is wanted of the callable, not 5"),
        ({"mode": "x"}, ValueError, "the attribute mode is a number of 32 bits, not x"),
        ({"label": 1.5}, TypeError, "attributes are int, str or bytes; label is float: give str(value), or its bytes"),
    ],
)
def test_attributes_that_make_no_sense_are_refused_with_the_path(
    given: Any, error: type[Exception], message: str
) -> None:
    Path("tree/deep").mkdir(parents=True)
    Path("tree/deep/a").write_bytes(b"x")
    with pytest.raises(error) as refused:
        stook.pack_tree("tree", "new.stook", attributes=lambda path: given if path == "deep/a" else None)
    assert str(refused.value) == f"argument 'attributes', for \"deep/a\": {message}"
    assert not Path("new.stook").exists()


def test_bytes_are_one_path() -> None:
    Path("tree").mkdir()
    Path("tree/a").write_bytes(b"x")
    assert stook.pack_tree(b"tree", b"data.stook").files == 1
    with stook.Pack(b"data.stook") as pack:
        assert pack["a"] == b"x" and pack.path == Path("data.stook")
    assert stook.unpack(b"data.stook", b"out").files == 1 and Path("out/a").read_bytes() == b"x"


def picks_nothing(_path: str) -> None:
    """A callable whose author forgot `return`."""


@pytest.mark.parametrize("select", [picks_nothing, lambda path: path.endswith(".zzz")])
def test_a_selection_that_takes_nothing_is_an_error_and_leaves_no_pack(select: Callable[[str], object]) -> None:
    Path("tree/deep").mkdir(parents=True)
    Path("tree/deep/a").write_bytes(b"x")
    with pytest.raises(stook.InvalidError, match="select took none of the 2 paths below tree$"):
        stook.pack_tree("tree", "new.stook", select=select)
    assert not Path("new.stook").exists()
    stook.pack_tree("tree", "data.stook")
    with pytest.raises(stook.InvalidError, match="select took none of the 2 paths"):
        stook.pack_tree("tree", "data.stook", select=select)
    with stook.Pack("data.stook") as pack:
        assert pack["deep/a"] == b"x"
    with pytest.raises(stook.InvalidError, match="select took none of the keys of data.stook"):
        stook.unpack("data.stook", "out", select=select)


def test_where_nothing_is_there_or_all_is_excluded_a_selection_may_take_nothing() -> None:
    Path("empty").mkdir()
    Path("tree").mkdir()
    Path("tree/a").write_bytes(b"x")
    assert stook.pack_tree("empty", "empty.stook", select=picks_nothing).files == 0
    assert stook.pack_tree("tree", "new.stook", exclude=lambda path: True, select=lambda path: True).files == 0
    assert stook.pack_tree("tree/a", "file.stook", select=picks_nothing).files == 1


def takes_none() -> None:
    """A callable that takes no argument."""


@pytest.mark.parametrize("is_there", [False, True])
def test_progress_that_raises_leaves_no_pack_that_was_made_for_it(is_there: bool) -> None:
    Path("tree").mkdir()
    Path("tree/a").write_bytes(b"x")
    if is_there:
        Path("new.stook").mkdir()
    with pytest.raises(TypeError):
        stook.pack_tree("tree", "new.stook", progress=takes_none)  # type: ignore[arg-type]
    assert Path("new.stook").exists() == is_there
    assert not is_there or list(Path("new.stook").iterdir()) == []


def test_bounds_of_what_is_deleted_are_refused_where_nothing_is_or_both_are_given() -> None:
    Path("tree").mkdir()
    for options, reported in (
        ({"max_delete": 5}, "max_delete says how much delete=True may delete"),
        ({"delete": True, "max_delete": 5, "force": True}, "either max_delete or force"),
    ):
        wrong: Any = options
        with pytest.raises(stook.InvalidError, match=reported):
            stook.pack_tree("tree", "new.stook", **wrong)
    assert not Path("new.stook").exists()


def test_seconds_as_an_int_are_taken_for_nanoseconds_and_the_error_says_so(filled: Path) -> None:
    with pytest.raises(stook.NoSuchStateError, match="an int is nanoseconds; give a float of seconds"):
        stook.Pack(filled, at=1_700_000_000)
    with pytest.raises(stook.NoSuchStateError) as raised:
        stook.Pack(filled, at=1.5)
    assert "nanoseconds" not in str(raised.value)


def test_attributes_that_the_format_defines_are_not_masked_by_text_of_the_same_name() -> None:
    file = Path("file")
    file.write_bytes(b"x")
    file.chmod(0o640)
    put = [sys.executable, "-m", "stook", "put", "data.stook", "key", "file"]
    subprocess.run(put, check=True, capture_output=True)
    with stook.Pack("data.stook") as pack:
        before = pack.stat("key")
    for name in ("kind", "mode", "mtime_ns"):
        reported = subprocess.run([*put, "--attr", f"{name}=symlink"], capture_output=True, text=True)
        # The command line may take or refuse such a name; what is read says what the file was
        # either way.
        assert reported.returncode == 0 or name in reported.stderr
        with stook.Pack("data.stook") as pack:
            after, record = pack.stat("key"), pack.record("key")
        assert before is not None and after is not None and record is not None
        assert record.kind == after.kind == "file" and record.attributes == after.attributes == before.attributes


@pytest.mark.parametrize("argument", ["select", "exclude"])
@pytest.mark.parametrize("is_there", [False, True])
def test_what_raises_while_it_selects_leaves_no_pack_that_was_made_for_it(argument: str, is_there: bool) -> None:
    Path("tree/deep").mkdir(parents=True)
    for number in range(50):
        Path(f"tree/deep/{number}").write_bytes(b"x")

    def fails(path: str) -> bool:
        if path == "deep/30":
            raise KeyError(path)
        return argument == "select"

    if is_there:
        Path("new.stook").mkdir()
    options: dict[str, Any] = {argument: fails}
    with pytest.raises(KeyError, match="deep/30"):
        stook.pack_tree("tree", "new.stook", **options)
    assert Path("new.stook").exists() == is_there
    assert not is_there or list(Path("new.stook").iterdir()) == []
    # The path is as free as it was before.
    assert stook.pack_tree("tree", "new.stook").files == 50


def test_a_pack_that_was_there_is_what_it_was_when_a_callback_raises_before_anything_is_changed() -> None:
    # Before: it was called incomplete, or was not where room was scarce and all was counted first.
    Path("tree").mkdir()
    Path("tree/old").write_bytes(b"old")
    stook.pack_tree("tree", "data.stook")
    Path("tree/old").write_bytes(b"another")

    def fails(path: str) -> bool:
        raise KeyError(path)

    callbacks: list[dict[str, Any]] = [{"select": fails}, {"exclude": fails}, {"attributes": fails}]
    for callback in callbacks:
        with pytest.raises(KeyError, match="old"):
            stook.pack_tree("tree", "data.stook", **callback)
        with stook.Pack("data.stook") as pack:
            assert pack["old"] == b"old" and pack.info().complete
    stook.pack_tree("tree", "data.stook")
    with stook.Pack("data.stook") as pack:
        assert pack["old"] == b"another" and pack.info().complete


def test_a_pack_that_was_there_stays_and_is_not_called_complete_when_a_callback_raises_after_a_change() -> None:
    Path("tree").mkdir()
    for name in ("a", "b"):
        Path(f"tree/{name}").write_bytes(b"old")
    stook.pack_tree("tree", "data.stook")
    for name in ("a", "b"):
        Path(f"tree/{name}").write_bytes(b"another")
    asked: list[str] = []

    def fails(path: str) -> None:
        asked.append(path)
        # What was asked about first is packed by then.
        if len(asked) == 2:
            raise KeyError(path)

    with pytest.raises(KeyError):
        stook.pack_tree("tree", "data.stook", attributes=fails)
    with stook.Pack("data.stook") as pack:
        assert [pack[asked[0]], pack[asked[1]]] == [b"another", b"old"] and not pack.info().complete
    stook.pack_tree("tree", "data.stook")
    with stook.Pack("data.stook") as pack:
        assert [pack["a"], pack["b"]] == [b"another"] * 2 and pack.info().complete


def test_what_cannot_be_read_as_an_archive_or_is_a_pack_is_not_packed_as_a_file_by_a_slip(tmp_path: Path) -> None:
    # Before: one record with the bytes of the archive, or those of the segments of the pack.
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a").write_bytes(b"a")
    archive = tmp_path / "t.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(tree / "a", "a")
    stook.pack_tree(tree, tmp_path / "p.stook")
    broken = tmp_path / "b.zip"
    broken.write_bytes(b"none")
    sources: list[list[Path]] = [[archive, tree], [broken], [tmp_path / "p.stook"]]
    for source in sources:
        with pytest.raises(stook.InvalidError, match=r"not together|called an archive.* as_file|is a pack.* as_file"):
            stook.pack_tree(source, tmp_path / "new.stook")
        assert not (tmp_path / "new.stook").exists()
        assert stook.pack_tree(source, tmp_path / "new.stook", as_file=True).files >= 1
        shutil.rmtree(tmp_path / "new.stook")
