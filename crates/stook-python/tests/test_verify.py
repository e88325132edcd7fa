"""Trees against lists and against other trees: what the command line finds, every option, and all
that is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

import stook
from test_unpack import stook_command


@pytest.fixture(autouse=True)
def disk() -> Path:
    """A tree with a list of its own."""
    disk = Path("disk")
    (disk / "d").mkdir(parents=True)
    (disk / "d" / "one").write_bytes(b"first")
    (disk / "two").write_bytes(bytes(1_200_000))
    (disk / "empty").write_bytes(b"")
    (disk / "SHA256SUMS").write_text(listed(disk))
    return disk


def listed(disk: Path) -> str:
    files = sorted(path for path in disk.rglob("*") if path.is_file())
    lines = (f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.relative_to(disk)}" for file in files)
    return "\n".join(lines) + "\n"


def only(report: stook.VerifyReport) -> stook.VerifiedTree:
    (tree,) = report.trees
    return tree


def test_a_tree_matches_its_list() -> None:
    report = stook.verify("disk")
    tree = only(report)
    assert report.ok and report.wrong == 0 and tree.path == Path("disk")
    assert (tree.matching, tree.matching_bytes, tree.read_bytes) == (3, 1_200_005, 1_200_005)
    assert tree.direct_bytes + tree.cached_bytes >= 1_200_005 and isinstance(tree.past_cache, bool)
    assert [(one.path, one.lines, one.bad_lines) for one in report.lists] == [(Path("disk/SHA256SUMS"), 3, 0)]
    assert only(stook.verify("disk", cached=True, jobs=1)).past_cache is False


def test_what_is_wrong_is_what_the_command_line_says(disk: Path) -> None:
    (disk / "two").write_bytes(bytes(1_199_999) + b"x")
    (disk / "d" / "one").unlink()
    (disk / "more").write_bytes(b"")
    with open(disk / "SHA256SUMS", "a") as file:
        file.write("nonsense\n")
    report = stook.verify(disk)
    tree = only(report)
    assert not report.ok and report.wrong == 4 and stook.verify(disk, allow_extra=True).wrong == 3
    assert (tree.matching, tree.missing, tree.extra, tree.unreadable) == (1, ["d/one"], ["more"], [])
    (mismatch,) = tree.mismatching
    assert (mismatch.key, mismatch.difference, mismatch.hash) == ("two", "digest", "sha256")
    assert mismatch.found == hashlib.sha256((disk / "two").read_bytes()).hexdigest()
    assert (mismatch.offset, mismatch.like_other) == (None, False)
    ((line, why),) = report.lists[0].problems
    assert line == 4 and "not a line" in why
    command = stook_command("verify", "disk", "--json", code=1)
    found = json.loads(command.stdout)
    assert found["wrong"] == report.wrong
    (of_command,) = found["trees"]
    assert [one["key"] for one in of_command["missing"]] == tree.missing
    assert [one["key"] for one in of_command["extra"]] == tree.extra
    (of_command,) = of_command["mismatching"]
    names = {"key": "key", "difference": "difference", "hash": "hash", "expected": "expected",
             "found": "found", "offset": "offset_bytes", "like_other": "like_other"}
    assert {name: of_command[field] for name, field in names.items()} == {
        name: getattr(mismatch, name) for name in names
    }


def test_two_trees_of_any_kind_are_compared(disk: Path) -> None:
    assert stook.copy(disk, "spare").ok
    stook.pack_tree(disk, "p.stook")
    with tarfile.open("x.tar", "w") as tar:
        tar.add(disk, ".")
    pairs: list[tuple[Any, Any]] = [("spare", disk), ("p.stook", "spare")]
    pairs += [(b"x.tar//", "p.stook"), (disk, "x.tar//")]
    for tree, other in pairs:
        report = stook.verify(tree, against=other)
        assert report.ok and only(report).matching == 4 and report.lists == []
    (Path("spare") / "two").write_bytes(bytes(1_000_000) + b"x" * 200_000)
    (mismatch,) = only(stook.verify("spare", against=disk)).mismatching
    assert (mismatch.difference, mismatch.offset) == ("content", 1_000_000)
    reports = stook.verify(["spare", "p.stook"], against=disk)
    assert [len(tree.mismatching) for tree in reports.trees] == [1, 0]


def test_lists_are_given_and_made(disk: Path) -> None:
    (disk / "SHA256SUMS").rename("given")
    assert stook.verify(disk, lists="given").ok
    assert stook.verify(lists=[Path("given").rename(disk / "x.sha256")]).ok
    report = stook.verify(disk, make_lists=["md5", "blake3"])
    assert report.ok and [(one.hash, one.files, one.tree) for one in report.made] == [("md5", 4, 0), ("blake3", 4, 0)]
    md5 = {line[34:]: line[:32] for line in report.made[0].path.read_text().splitlines()}
    assert md5["two"] == hashlib.md5(bytes(1_200_000)).hexdigest() and set(md5) == {"two", "empty", "d/one", "x.sha256"}
    assert stook.verify(disk).ok


def test_what_was_changed_on_purpose_is_accepted(disk: Path) -> None:
    (disk / "SHA256SUMS").unlink()
    before = stook.verify(disk, make_lists="sha256").made
    (disk / "two").write_bytes(b"changed")
    (disk / "empty").unlink()
    assert stook.verify(disk).wrong == 2
    report = stook.verify(disk, make_lists="sha256", accept=["two", Path("empty")])
    assert report.ok and report.removed == [before[0].path] and report.made[0].files == 2
    assert stook.verify(disk).ok
    with pytest.raises(stook.InvalidError, match="no list of"):
        stook.verify(disk, make_lists="sha256", accept="gone")
    with pytest.raises(stook.InvalidError, match="needs a list"):
        stook.verify(disk, accept="two")


def test_every_path_is_heard_of_once(disk: Path) -> None:
    (disk / "more").write_bytes(b"more")
    items: list[stook.VerifyItem] = []
    report = stook.verify([disk, disk], items=items.append)
    assert len(items) == 8 and {item.tree for item in items} == {0, 1}
    outcomes = sorted((item.key, item.outcome, item.size) for item in items if item.tree == 0)
    assert outcomes == [("d/one", "matches", 5), ("empty", "matches", 0), ("more", "extra", 0),
                        ("two", "matches", 1_200_000)]
    assert {item.digests["sha256"] for item in items if item.key == "d/one"} == {
        hashlib.sha256(b"first").hexdigest()
    }
    assert report.wrong == 2

    def fails(_item: stook.VerifyItem) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        stook.verify(disk, items=fails)


def test_an_interruption_ends_it() -> None:
    program = """
import os, signal, stook
def interrupt(*_):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt
def progress(files, bytes, total):
    os.kill(os.getpid(), signal.SIGINT)
signal.signal(signal.SIGINT, interrupt)
try:
    stook.verify("disk", progress=progress, items=lambda item: None)
except KeyboardInterrupt:
    print("interrupted")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "interrupted\n"


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ([], {}, "nothing to verify"),
        (["bare"], {}, "'lists', 'against' or 'make_lists' is needed"),
        (["disk"], {"against": "disk/two"}, "can be compared"),
        (["x.tar//"], {"make_lists": "md5"}, "only be made in a directory on disk"),
        (["disk"], {"make_lists": "crc32"}, "make_lists is one of 'xxh3'"),
        (["disk"], {"jobs": 0}, "jobs must be 1 to 256"),
        (["bare"], {"lists": "bare/empty"}, "no file is listed"),
        ([""], {}, "the path is empty"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: list[str], options: dict[str, Any], message: str) -> None:
    Path("bare").mkdir()
    Path("bare/empty").write_bytes(b"")
    with tarfile.open("x.tar", "w") as tar:
        tar.add("disk", "disk")
    with pytest.raises(stook.InvalidError, match=message):
        stook.verify(*arguments, **options)


def test_of_several_trees_those_that_can_be_opened_are_verified(disk: Path) -> None:
    report = stook.verify([disk, "nothing"])
    assert (only(report).matching, report.wrong, report.ok) == (3, 1, False)
    assert [failure.key for failure in report.failures] == [""]
    assert "cannot verify nothing" in str(report.failures[0].error)
    with pytest.raises(FileNotFoundError):
        stook.verify(["nothing", "nor this"])


def test_wrong_types_and_missing_files_are_errors_of_python() -> None:
    wrong: Any
    for wrong in [{"lists": 7}, {"make_lists": 7}, {"cached": "yes"}, {"items": 7}, {"against": 7}]:
        with pytest.raises(TypeError, match=next(iter(wrong))):
            stook.verify("disk", **wrong)
    with pytest.raises(FileNotFoundError):
        stook.verify("nowhere")
    with pytest.raises(FileNotFoundError):
        stook.verify("disk", lists="nowhere")


def film() -> bytes:
    return bytes(index // 3 % 251 for index in range(3_500_000))


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def test_bad_megabytes_are_named_and_parts_are_proven(disk: Path) -> None:
    (disk / "film").write_bytes(film())
    made = stook.verify(disk, proofs=True, mhl=["xxh3", "c4"])
    assert [one.hash for one in made.made] == ["blake3", None]
    assert stook.verify_range(disk / "film").ok
    flip(disk / "film", 2_500_000)
    (bad,) = only(stook.verify(disk)).mismatching
    assert bad.bad == [(2 << 20, 3 << 20)]
    part = stook.verify_range(disk / "film", 3_000_000)
    assert not part.ok and part.bad == bad.bad and part.listed_in == disk.resolve()
    assert (part.read_start, part.read_end) == (2 << 20, 3_500_000)
    assert stook.verify_range(disk / "film", 0, 2 << 20, cached=True).ok
    # Of a short file, and of one that a newer list has without BLAKE3.
    (disk / "note").write_bytes(b"note")
    stook.verify(disk, make_lists="blake3")
    assert stook.verify_range(disk / "note", 1, 3).read_end == 4
    (disk / "checksums-2199-01-01_000000Z.md5").write_text(f"{hashlib.md5(film()).hexdigest()}  film\n")
    assert stook.verify_range(disk / "film", 0, 1).older_list
    with pytest.raises(stook.OutOfBoundsError):
        stook.verify_range(disk / "film", 0, 4_000_000)
    with pytest.raises(stook.InvalidError, match="no list"):
        stook.verify_range(os.path.realpath(sys.executable))
    with pytest.raises(stook.InvalidError, match="argument 'start'"):
        stook.verify_range(disk / "film", -1)


def test_a_copy_is_repaired_from_a_good_one() -> None:
    Path("good").mkdir()
    Path("good/film").write_bytes(film())
    Path("good/note").write_text("a note")
    report = stook.copy("good", "bad", to="worse", proofs=True)
    assert [one.proofs for one in report.destinations] == [1, 1]
    flip(Path("bad/film"), 7)
    Path("worse/note").unlink()
    planned = stook.repair_copy("good", "bad", to=["worse"], dry_run=True)
    assert [one.mended for one in planned.destinations] == [{"film": 1}, {}]
    seen: list[tuple[int, ...]] = []
    done = stook.repair_copy("good", "bad", to="worse", progress=lambda *numbers: seen.append(numbers))
    bad, worse = done.destinations
    assert done.ok and seen and (bad.mended, bad.read_bytes, bad.matching) == ({"film": 1}, 1 << 20, 1)
    assert (worse.mended, worse.replaced) == ({}, ["note"])
    assert stook.verify(["bad", "worse"]).ok
    flip(Path("bad/film"), 9)
    flip(Path("good/film"), 11)
    (bad,) = stook.repair_copy("good", "bad").destinations
    (failure,) = bad.failures
    assert failure.key == "film" and "does not have the bytes" in str(failure.error)
    flip(Path("bad/film"), 2 << 20)
    (bad,) = stook.repair_copy("good", "bad", force=True).destinations
    assert (bad.mended, len(bad.failures)) == ({"film": 1}, 1)
    with pytest.raises(stook.InvalidError, match="no list"):
        stook.repair_copy("bad", "good")
    with pytest.raises(OSError):
        stook.repair_copy("nowhere", "bad")

    def stop(*numbers: int) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        stook.repair_copy("good", "bad", progress=stop)
