"""What `pack_tree` takes, leaves out, adds and removes: archives, patterns, groups, attributes,
originals.
"""

from __future__ import annotations

import os
import tarfile
import zipfile
from pathlib import Path
from typing import Any, Union

import pytest

import stook


def make(*names: str) -> None:
    """A directory ``tree`` with these files, each of which holds its name."""
    for name in names:
        path = Path("tree") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def files(pack: str) -> list[str]:
    """The keys of the files in a pack; each holds its name."""
    with stook.Pack(pack) as opened:
        found = dict(opened.items())
    assert all(str(key).endswith(bytes(value).decode()) for key, value in found.items())
    return [str(key) for key in found]


@pytest.mark.parametrize(("name", "mode"), [("t.tar", "w"), ("t.tar.gz", "w:gz")])
def test_members_of_archives_become_records_as_if_they_had_been_unpacked(name: str, mode: Any) -> None:
    make("a", "deep/b", "deep/c")
    Path("tree/link").symlink_to("a")
    os.link("tree/a", "tree/deep/further")
    with tarfile.open(name, mode) as tar:
        tar.add("tree", ".")
    reported: list[tuple[int, int]] = []
    report = stook.pack_tree(name, "a.stook", progress=lambda entries, size: reported.append((entries, size)))
    assert (report.files, report.symlinks, report.hard_links, report.failures) == (3, 1, 1, []) and report.complete
    assert reported and reported[-1][1] >= 3
    stook.pack_tree("tree", "b.stook")
    with stook.Pack("a.stook") as archived, stook.Pack("b.stook") as walked:
        assert list(archived) == list(walked) and dict(archived.items()) == dict(walked.items())
    again = stook.pack_tree(name, "a.stook")
    assert (again.files, again.replaced) == (0, 0) and again.unchanged >= 5
    assert stook.pack_tree(name, "c.stook", as_file=True).files == 1


def test_patterns_groups_and_dry_runs_are_for_archives_too() -> None:
    with zipfile.ZipFile("z.zip", "w") as archive:
        for name in ("a.jpg", "b.txt", "tmp/c.jpg"):
            archive.writestr(name, name)
    assert stook.pack_tree("z.zip", "p.stook", dry_run=True).files == 3 and not Path("p.stook").exists()
    stook.pack_tree("z.zip", "p.stook", include="*.jpg", exclude=["tmp"], group="pictures")
    assert files("p.stook") == ["a.jpg"]
    with stook.Pack("p.stook") as pack:
        assert "pictures" in pack.groups
    stook.pack_tree("z.zip", "q.stook", exclude=lambda path: path == "tmp", select=lambda path: path != "a.jpg")
    assert files("q.stook") == ["b.txt"]
    with pytest.raises(stook.InvalidError, match="select took none of the 3 paths below z.zip"):
        stook.pack_tree("z.zip", "r.stook", select=lambda path: None)
    with pytest.raises(KeyError, match="b.txt"):
        stook.pack_tree("z.zip", "r.stook", select=lambda path: {"a.jpg": True}[path])
    assert not Path("r.stook").exists()


def test_what_cannot_be_packed_together_or_from_an_archive_is_refused_before_anything_is_made() -> None:
    make("a")
    with tarfile.open("t.tar", "w") as tar:
        tar.add("tree", ".")
    tree_and_archive: list[str] = ["t.tar", "tree"]
    wrong: list[tuple[Union[str, list[str]], dict[str, Any], str]] = [
        (tree_and_archive, {}, "not together"),
        ("t.tar", {"delete": True}, "not for archives"),
        ("t.tar", {"move": True}, "not for archives"),
        ("t.tar", {"group_by": "top"}, "for directories"),
        ("-", {}, "through a stream"),
        ("tree", {"move": True, "delete": True}, "cannot be combined"),
        ("tree", {"group": "g", "group_by": "top"}, "not both"),
        ("tree", {"group_by": "hash:0"}, "group_by is"),
        ("tree", {"delete": True, "group": ""}, "is a variable not set"),
        ("tree", {"include": "["}, "include: "),
        ("tree", {"exclude": ["", "a"]}, "exclude: "),
    ]
    for sources, options, reported in wrong:
        with pytest.raises(stook.InvalidError, match=reported):
            stook.pack_tree(sources, "p.stook", **options)
        assert not Path("p.stook").exists()
    for length, error in ((5, stook.InvalidError), (1 << 62, stook.LimitError)):
        with pytest.raises(error, match="segment_bytes"):
            stook.pack_tree("tree", "p.stook", segment_bytes=length)
    assert Path("t.tar").exists() and Path("tree/a").exists() and not Path("p.stook").exists()


def test_patterns_mean_what_they_mean_on_the_command_line() -> None:
    make("a.jpg", "b.txt", "tmp/c.jpg", "deep/d.jpg", "deep/e.txt")
    stook.pack_tree("tree", "p.stook", include=["*.jpg", "/b.txt"], exclude="tmp/")
    assert files("p.stook") == ["a.jpg", "b.txt", "deep/d.jpg"]
    stook.pack_tree("tree", "q.stook", include="*.jpg", select=lambda path: path.startswith("deep"))
    assert files("q.stook") == ["deep/d.jpg"]
    with pytest.raises(stook.InvalidError, match="include took none of the 7 paths below tree$"):
        stook.pack_tree("tree", "r.stook", include="*.png")
    assert not Path("r.stook").exists()


def test_originals_go_when_the_pack_holds_them_and_come_back() -> None:
    make("a", "deep/b", "keep/c")
    report = stook.pack_tree("tree", "p.stook", move=True, exclude="keep")
    assert report.moved == stook.MoveReport(files=2, symlinks=0, directories=1, bytes=7)
    assert report.failures == [] and [path.name for path in Path("tree").iterdir()] == ["keep"]
    stook.unpack("p.stook", "out")
    assert Path("out/deep/b").read_text() == "deep/b"
    # It may hold the only copy: nothing is deleted from it unless more is said.
    with pytest.raises(stook.InvalidError, match="moved into the pack"):
        stook.pack_tree("tree", "p.stook", delete=True)


def test_progress_that_raises_ends_a_move_before_anything_is_removed() -> None:
    make("a", "b")

    def fails(entries: int, size: int) -> None:
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        stook.pack_tree("tree", "p.stook", move=True, progress=fails)
    assert Path("tree/a").exists() and Path("tree/b").exists() and not Path("p.stook").exists()


def test_a_dry_run_says_what_would_be_done_and_does_nothing() -> None:
    make("a", "deep/b")
    report = stook.pack_tree("tree", "p.stook", dry_run=True)
    assert (report.files, report.directories, report.bytes, report.moved) == (2, 2, 7, None)
    # Before: "complete", of a pack that is not there.
    assert not report.complete and not Path("p.stook").exists()
    # As where nothing is: a pack could be made there.
    Path("p.stook").mkdir()
    assert stook.pack_tree("tree", "p.stook", dry_run=True, move=True).files == 2
    assert list(Path("p.stook").iterdir()) == [] and Path("tree/a").exists()
    stook.pack_tree("tree", "p.stook")
    Path("tree/a").unlink()
    gone = stook.pack_tree("tree", "p.stook", dry_run=True, delete=True, max_delete=1)
    assert (gone.gone, gone.deleted) == (["a"], 1)
    assert files("p.stook") == ["a", "deep/b"]


def test_what_is_gone_and_stays_is_reported() -> None:
    # Before: only the command reported it.
    make("a")
    os.link("tree/a", "tree/b")
    stook.pack_tree("tree", "p.stook")
    with stook.Pack("p.stook") as pack:
        record = pack.record("a")
    assert record is not None
    # Either may have been met first.
    gone, left = ("a", "b") if record.kind == "file" else ("b", "a")
    (Path("tree") / gone).unlink()
    report = stook.pack_tree("tree", "p.stook", delete=True, force=True, exclude=left)
    assert (report.held, report.uncertain, report.deleted) == ([gone], 0, 0)


def test_records_are_spread_over_groups_and_segments() -> None:
    make("a", "one/b", "two/c")
    stook.pack_tree("tree", "p.stook", group_by="top")
    stook.pack_tree("tree", "q.stook", group_by="hash:2")
    for name in ("x", "y", "z"):
        (Path("tree") / name).write_bytes(os.urandom(700_000))
    stook.pack_tree("tree", "r.stook", segment_bytes=1 << 20)
    with stook.Pack("p.stook") as by_name, stook.Pack("q.stook") as by_hash, stook.Pack("r.stook") as cut:
        assert sorted(by_name.groups) == ["", "one", "two"]
        assert set(by_hash.groups) <= {"0000", "0001"}
        assert len(cut.info().segments) > 1


def labels_of(path: str) -> Union[dict[str, stook.Attribute], None]:
    """Those of what ends in b."""
    return {"label": path, "length": len(path)} if path.endswith("b") else None


def test_attributes_of_the_caller_go_with_the_records() -> None:
    make("a", "deep/b")
    stook.pack_tree("tree", "t.stook", attributes=labels_of)
    with tarfile.open("t.tar", "w") as tar:
        tar.add("tree", ".")
    stook.pack_tree("t.tar", "a.stook", attributes=labels_of)
    assert stook.pack_tree("t.tar", "a.stook", attributes=labels_of).replaced == 0
    for name in ("t.stook", "a.stook"):
        with stook.Pack(name) as pack:
            plain, labelled = pack.record("a"), pack.record("deep/b")
            assert plain is not None and labelled is not None and "label" not in plain.attributes
            assert (labelled.attributes["label"], labelled.attributes["length"]) == ("deep/b", 6)
            assert labelled.kind == "file" and "mtime_ns" in labelled.attributes


def test_an_attribute_that_files_have_is_a_failure_of_the_file_alone() -> None:
    make("a", "b")
    report = stook.pack_tree("tree", "p.stook", attributes=lambda path: {"mode": 1} if path == "a" else None)
    assert [failure.key for failure in report.failures] == ["a"] and not report.complete
    assert "cannot be the caller's own" in str(report.failures[0].error)
    assert files("p.stook") == ["b"]


@pytest.mark.parametrize("is_archive", [False, True])
def test_attributes_that_raise_leave_no_record_without_them(is_archive: bool) -> None:
    make("a", "b", "c")
    source = "tree"
    if is_archive:
        source = "t.tar"
        with tarfile.open(source, "w") as tar:
            tar.add("tree", ".")
    labels: dict[str, dict[str, stook.Attribute]] = {path: {"label": path} for path in ("", "a", "c")}
    with pytest.raises(KeyError, match="b"):
        stook.pack_tree(source, "p.stook", attributes=lambda path: labels[path])
    assert not Path("p.stook").exists()
    stook.Pack("p.stook", "x").close()
    with pytest.raises(KeyError, match="b"):
        stook.pack_tree(source, "p.stook", attributes=lambda path: labels[path])
    with stook.Pack("p.stook") as pack:
        # All members of a small archive are asked about before any of them is packed.
        assert "b" not in pack and pack.info().complete == (len(pack) == 0)
    labels["b"] = {"label": "b"}
    stook.pack_tree(source, "p.stook", attributes=lambda path: labels[path])
    with stook.Pack("p.stook") as pack:
        for path in ("a", "b", "c"):
            record = pack.record(path)
            assert record is not None and record.attributes["label"] == path
