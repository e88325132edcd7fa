"""Arguments that make no sense: every one is refused by its name, and leaves nothing behind."""

from __future__ import annotations

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


def test_a_number_that_makes_no_sense_is_told_with_the_name_of_its_argument() -> None:
    Path("tree").mkdir()
    Path("file").write_bytes(bytes(10))
    with stook.Pack("data.stook", "x") as pack, stook.SparseFile("file") as file:
        for name, call in numbers(pack, file):
            for wrong in (-1, 1 << 70):
                with pytest.raises(ValueError, match=f"^argument '{name}': a number from 0 on .* not {wrong}"):
                    call(wrong)
    assert not Path("new.stook").exists() and not Path("out").exists()


def test_an_empty_path_is_refused_and_not_taken_for_the_working_directory() -> None:
    calls: list[Callable[[Any], object]] = [
        stook.open,
        stook.SparseFile,
        stook.LocalFile,
        lambda path: stook.open(path, memory_bytes=1 << 20),
    ]
    for call in calls:
        for empty in ("", b""):
            with pytest.raises(ValueError, match="the path is empty"):
                call(empty)


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


def test_a_pack_that_was_there_stays_and_is_not_called_complete_when_its_selection_raises() -> None:
    Path("tree").mkdir()
    Path("tree/old").write_bytes(b"old")
    stook.pack_tree("tree", "data.stook")
    Path("tree/new").write_bytes(b"new")

    def fails(path: str) -> bool:
        if path == "new":
            raise KeyError(path)
        return True

    with pytest.raises(KeyError, match="new"):
        stook.pack_tree("tree", "data.stook", select=fails)
    with stook.Pack("data.stook") as pack:
        assert pack["old"] == b"old" and not pack.info().complete
    stook.pack_tree("tree", "data.stook")
    with stook.Pack("data.stook") as pack:
        assert pack["new"] == b"new" and pack.info().complete
