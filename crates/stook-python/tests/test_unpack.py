"""What comes out of packs and archives: the same as the command line gives, and all that is
refused.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any, Callable, Union

import pytest

import stook
from servers import Servers

#: What a path is, and what is in it or where it leads.
Tree = dict[str, tuple[str, int, Union[bytes, str]]]

#: Options of the function, and the same on the command line.
OPTIONS: list[tuple[dict[str, Any], list[str]]] = [
    ({}, []),
    ({"prefix": "2023/"}, ["--prefix", "2023/"]),
    ({"include": "*.jpg"}, ["--include", "*.jpg"]),
    ({"include": ["/2024/**"], "exclude": ["*.txt", "raw/"]}, ["--include", "/2024/**", "--exclude", "*.txt", "--exclude", "raw/"]),
    ({"exclude": ["2023"]}, ["--exclude", "2023"]),
    ({"include": ["**/"]}, ["--include", "**/"]),
    ({"prefix": b"2024", "exclude": ["*"]}, ["--prefix", "2024", "--exclude", "*"]),
]


def stook_command(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """The command-line tool of this installation."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-m", "stook", *arguments], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done


def tree_at(root: Path) -> Tree:
    """Everything below a directory, by its path."""
    found: Tree = {}
    for path in sorted(root.rglob("*")):
        kind = "link" if path.is_symlink() else "directory" if path.is_dir() else "file"
        content = os.readlink(path) if path.is_symlink() else b"" if path.is_dir() else path.read_bytes()
        mode = 0 if path.is_symlink() else path.stat().st_mode & 0o7777
        found[str(path.relative_to(root))] = (kind, mode, content)
    return found


@pytest.fixture
def sources() -> dict[str, Path]:
    """The same tree as a pack, a tar and a zip."""
    for year in ("2023", "2024"):
        (Path("tree") / year / "raw").mkdir(parents=True)
        (Path("tree") / year / "cat.jpg").write_bytes(year.encode())
        (Path("tree") / year / "notes.txt").write_bytes(b"")
        (Path("tree") / year / "raw" / "cat.jpg").write_bytes(b"raw" * 100_000)
        (Path("tree") / year / "raw" / "latest").symlink_to("cat.jpg")
    Path("tree/empty").mkdir()
    Path("tree/2024/notes.txt").chmod(0o640)
    stook.pack_tree("tree", "tree.stook")
    assert stook.unpack("tree.stook", tar="tree.tar").files == 6
    with zipfile.ZipFile("tree.zip", "w") as archive:
        for path in sorted(Path("tree").rglob("*")):
            if not path.is_symlink():
                archive.write(path, path.relative_to("tree"))
    return {name: Path(f"tree.{name}") for name in ("stook", "tar", "zip")}


@pytest.mark.parametrize("name", ["stook", "tar", "zip"])
@pytest.mark.parametrize(("options", "arguments"), OPTIONS)
def test_the_same_tree_as_the_command_line_gives(
    sources: dict[str, Path], name: str, options: dict[str, Any], arguments: list[str]
) -> None:
    report = stook.unpack(sources[name], "here", **options)
    stook_command("unpack", str(sources[name]), "there", *arguments)
    assert tree_at(Path("here")) == tree_at(Path("there"))
    assert report.complete and not report.failures and not report.kept
    if name != "zip" and not options:
        assert tree_at(Path("here")) == tree_at(Path("tree"))
    again = stook.unpack(sources[name], "here", **options)
    assert (again.files, again.symlinks, again.unchanged) == (0, 0, report.files + report.symlinks)


@pytest.mark.parametrize(("options", "arguments"), OPTIONS)
def test_a_tar_has_the_bytes_that_the_command_line_gives(
    sources: dict[str, Path], options: dict[str, Any], arguments: list[str]
) -> None:
    reported: list[tuple[int, int]] = []
    stook.unpack("tree.stook", tar="here.tar", progress=lambda entries, size: reported.append((entries, size)), **options)
    stook_command("unpack", "tree.stook", "--tar", "there.tar", *arguments)
    assert Path("here.tar").read_bytes() == Path("there.tar").read_bytes()
    assert reported == sorted(reported)


def test_a_callable_excludes_as_a_pattern_does(sources: dict[str, Path]) -> None:
    for name, source in sources.items():
        stook.unpack(source, f"{name}-patterns", exclude=["raw"], include=["*.jpg"])
        stook.unpack(source, f"{name}-callables", exclude=lambda path: path.endswith("raw"), include=["*.jpg"])
        assert tree_at(Path(f"{name}-patterns")) == tree_at(Path(f"{name}-callables"))
        selected: list[str] = []

        def select(path: str) -> bool:
            selected.append(path)
            return path.endswith(".jpg")

        report = stook.unpack(source, f"{name}-select", exclude=["raw"], select=select)
        assert report.files == 2 and not [path for path in selected if "raw" in path]


@pytest.mark.parametrize(
    "options",
    [
        {"include": ["*.png"]},
        {"prefix": "1999"},
        {"select": lambda path: False},
        {"include": ["*.jpg"], "exclude": ["*"]},
    ],
)
def test_nothing_of_what_was_asked_for_is_an_error_and_leaves_no_directory(
    sources: dict[str, Path], options: dict[str, Any]
) -> None:
    for source in sources.values():
        with pytest.raises(stook.InvalidError, match=f"(none|nothing) .* {source}$"):
            stook.unpack(source, "out", **options)
        assert not Path("out").exists()
    # What was there stays.
    Path("out").mkdir()
    with pytest.raises(stook.InvalidError):
        stook.unpack("tree.stook", "out", **options)
    assert Path("out").exists()


def test_what_is_excluded_is_so_on_purpose(sources: dict[str, Path]) -> None:
    for source in sources.values():
        for exclude in (["*"], lambda path: True):
            assert stook.unpack(source, "out", exclude=exclude).files == 0


def test_what_only_packs_have_is_refused_of_archives(sources: dict[str, Path]) -> None:
    for name in ("tar", "zip"):
        with pytest.raises(stook.InvalidError, match="group is for packs, and tree"):
            stook.unpack(sources[name], "out", group="g")
        with pytest.raises(stook.InvalidError, match="tar is for packs, and tree"):
            stook.unpack(sources[name], tar="out.tar")
        with pytest.raises(stook.InvalidError, match="has no earlier states"):
            stook.unpack(sources[name], "out", at="2026-11-21")
    assert not Path("out").exists() and not Path("out.tar").exists()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({}, "either a target or a tar"),
        ({"target": "out", "tar": "out.tar"}, "either a target or a tar"),
        ({"tar": "out.tar", "overwrite": "always"}, "argument 'overwrite': it is for a target"),
        ({"tar": "out.tar", "threads": 8}, "argument 'threads': it is for a target"),
        ({"tar": "out.tar", "with_owner": False}, "argument 'with_owner': it is for a target"),
        ({"target": "out", "threads": 0}, "argument 'threads': 1 to 256 threads are wanted, not 0"),
        ({"target": "out", "threads": 257}, "argument 'threads': 1 to 256 threads are wanted, not 257"),
        ({"target": "out", "overwrite": "yes"}, "overwrite is one of 'never', 'older', 'different', 'always'"),
        ({"target": "out", "at": "yesterday"}, "RFC 3339"),
        ({"target": "out", "include": b"*.jpg"}, "include is a pattern, or a list"),
        ({"target": "out", "exclude": b"*.jpg"}, "exclude is a pattern, or a list of patterns, or a callable"),
        ({"target": "out", "exclude": 5}, "exclude is a pattern, or a list of patterns, or a callable"),
        ({"target": "out", "include": ["[a"]}, r'include: "\[a" is not a pattern'),
        ({"tar": ""}, "the path is empty"),
    ],
)
def test_arguments_that_make_no_sense(sources: dict[str, Path], wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        stook.unpack("tree.stook", **wrong)
    with pytest.raises(TypeError, match="a prefix is str or bytes, not int"):
        stook.unpack("tree.stook", "out", prefix=5)  # type: ignore[arg-type]
    assert not Path("out").exists() and not Path("out.tar").exists()


def test_an_earlier_state_is_unpacked_as_the_command_line_does(sources: dict[str, Path]) -> None:
    before = tree_at(Path("tree"))
    with stook.Pack("tree.stook", "r+") as pack:
        first = [record.time_ns for record in pack.scan(kinds="all")]
        pack.put("2024/cat.jpg", b"new")
        changed = pack.record("2024/cat.jpg")
    assert changed is not None
    at = changed.time_ns - 1
    stook.unpack("tree.stook", "newest")
    assert Path("newest/2024/cat.jpg").read_bytes() == b"new"
    stook.unpack("tree.stook", "here", at=at)
    assert tree_at(Path("here")) == before
    stook.unpack("tree.stook", tar="here.tar", at=at)
    assert Path("here.tar").read_bytes() == Path("tree.tar").read_bytes()
    with pytest.raises(stook.NoSuchStateError):
        stook.unpack("tree.stook", "early", at=min(first) / 1e9 - 3600)
    with pytest.raises(stook.NoSuchStateError, match="an int is nanoseconds; give a float of seconds"):
        stook.unpack("tree.stook", "early", at=1_700_000_000)
    assert not Path("early").exists()


def test_owners_are_left_out_where_they_are_not_wanted(sources: dict[str, Path]) -> None:
    if os.geteuid() != 0:
        # Only root restores owners: that the argument is taken is all there is to see.
        assert stook.unpack("tree.stook", "out", with_owner=False).files == 6
        return
    os.chown("tree/2024/cat.jpg", 1234, 1234)
    stook.pack_tree("tree", "owned.stook")
    stook.unpack("owned.stook", "with")
    stook.unpack("owned.stook", "without", with_owner=False)
    assert Path("with/2024/cat.jpg").stat().st_uid == 1234
    assert Path("without/2024/cat.jpg").stat().st_uid == 0


@pytest.mark.parametrize("where", [{"target": "out"}, {"tar": "out.tar"}])
def test_damage_that_is_met_on_the_way_is_reported(sources: dict[str, Path], where: dict[str, Any]) -> None:
    # A name that is a hard link is looked up, and so is all that a tar has.
    os.link("tree/2024/cat.jpg", "tree/2024/link")
    stook.pack_tree("tree", "linked.stook")
    # A segment ends in an index and a footer of 256 bytes, which says where the index starts.
    (segment,) = Path("linked.stook").glob("segment-*")
    data = bytearray(segment.read_bytes())
    (index,) = struct.unpack_from("<Q", data, len(data) - 256 + 64)
    data[index + 30] ^= 0x10
    segment.write_bytes(data)
    with pytest.warns(stook.DamageWarning, match="is damaged"):
        report = stook.unpack("linked.stook", **where)
    assert report.damages and all(isinstance(damage, stook.DamagedError) for damage in report.damages)
    # The index is rebuilt from what it indexes: nothing is missing. Its own damage has no key.
    assert report.files == 6 and report.hard_links == 1
    assert all(failure.key == "" for failure in report.failures)


#: Ctrl-C comes while `progress` runs, and that continues until the main thread noticed it.
STOPPED = """
import os, signal, sys, threading, time, stook
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
try:
    if sys.argv[1] == "repair":
        stook.repair("tree.stook", "new.stook", progress=progress)
    else:
        stook.unpack("tree.stook", tar="new.tar", progress=progress)
except KeyboardInterrupt:
    print(sorted(os.listdir()), flush=True)
"""


@pytest.mark.parametrize("action", ["repair", "tar"])
def test_ctrl_c_is_raised_when_nothing_of_it_is_left(sources: dict[str, Path], action: str) -> None:
    Path("new.tar").write_bytes(b"old")
    before = sorted(os.listdir())
    command = [sys.executable, "-W", "ignore", "-c", STOPPED, action]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, f"{before}\n"), done.stderr
    assert Path("new.tar").read_bytes() == b"old"


def test_a_callable_that_raises_ends_it(sources: dict[str, Path]) -> None:
    def refuse(*_: object) -> bool:
        raise RuntimeError("enough")

    for options in ({"select": refuse}, {"exclude": refuse}, {"progress": refuse}):
        for source in sources.values():
            with pytest.raises(RuntimeError, match="enough"):
                stook.unpack(source, "out", **options)  # type: ignore[arg-type]
        with pytest.raises(RuntimeError, match="enough"):
            stook.unpack("tree.stook", tar="out.tar", **options)  # type: ignore[arg-type]
        assert not Path("out.tar").exists()


def test_damage_of_an_archive_is_a_failure_of_one_file(sources: dict[str, Path]) -> None:
    data = bytearray(Path("tree.zip").read_bytes())
    data[data.find(b"rawraw") + 1000] ^= 1
    Path("tree.zip").write_bytes(data)
    report = stook.unpack("tree.zip", "out")
    assert [failure.key for failure in report.failures] == ["2023/raw/cat.jpg"]
    assert isinstance(report.failures[0].error, stook.DamagedError) and report.files == 5
    Path("no.tar").write_bytes(b"no archive")
    with pytest.raises(stook.NotAPackError):
        stook.unpack("no.tar", "other")


def test_an_incomplete_pack_says_so(sources: dict[str, Path]) -> None:
    for year in ("2023", "2024"):
        (Path("tree") / year / "cat.jpg").write_bytes(b"another " + year.encode())
    asked: list[str] = []

    def refuse(path: str) -> None:
        asked.append(path)
        # What was asked about first is packed by then.
        if len(asked) == 2:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        stook.pack_tree("tree", "tree.stook", attributes=refuse)
    report = stook.unpack("tree.stook", "out")
    assert not report.complete and report.files == 6
    # Before: nothing but a run over the same tree called it complete, and the tree may be gone.
    found = stook.check("tree.stook")
    # Before: nothing but `Pack.info` said it, where the command ends with exit code 1.
    assert found.ok and not found.complete and not found.accepted
    with stook.Pack("tree.stook") as pack:
        assert not pack.check().complete
    # Before: a repair that saved all of it looked like a success.
    assert not stook.repair("tree.stook", "repaired.stook").complete
    accepted = stook.check("tree.stook", accept=True)
    assert accepted.complete and accepted.accepted
    assert stook.unpack("tree.stook", "out").complete
    again = stook.check("tree.stook", accept=True)
    assert again.complete and not again.accepted
    # Without the blocks of zeroes at its end.
    data = Path("tree.tar").read_bytes()
    while data.endswith(bytes(512)):
        data = data[:-512]
    Path("cut.tar").write_bytes(data)
    with pytest.warns(stook.DamageWarning, match="does not end as a tar does"):
        assert not stook.unpack("cut.tar", "other").complete


def test_a_repair_saves_what_the_command_line_saves(filled: Path, damage: Callable[[Path, bytes], None]) -> None:
    damage(filled, b"alpha")
    reported: list[tuple[int, int]] = []
    report = stook.repair(filled, "new.stook", progress=lambda done, total: reported.append((done, total)))
    assert (report.path, report.records, report.complete) == (Path("new.stook"), 2, True)
    assert [error.key for error in report.damages] == ["a"]
    (aside,) = report.quarantined
    assert aside.path.parent == Path("new.stook.quarantine") and aside.path.stat().st_size == aside.size
    assert reported and all(0 <= done <= total for done, total in reported)
    assert reported[-1][0] == reported[-1][1]
    with stook.Pack("new.stook") as pack:
        assert list(pack) == ["g", 7] and pack["g"] == b"in a group"
    written = json.loads(Path("new.stook.quarantine/report.json").read_text())
    shown = json.loads(stook_command("check", str(filled), "--repair", "there.stook", "--json", code=1).stdout)
    assert {**written, "new": "there.stook"} == shown
    assert stook.check("new.stook").ok and not stook.check(filled).ok


def test_a_repair_that_ends_leaves_nothing(filled: Path) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        stook.check(filled, progress=refuse)
    before = sorted(Path().iterdir())
    with pytest.raises(RuntimeError, match="enough"):
        stook.repair(filled, "new.stook", progress=refuse)
    assert sorted(Path().iterdir()) == before
    for there in ("there.stook", "other.stook.quarantine"):
        Path(there).write_bytes(b"x")
        with pytest.raises(stook.ExistsError, match=f"{there} is already there"):
            stook.repair(filled, there.removesuffix(".quarantine"))
        assert Path(there).read_bytes() == b"x"
    with pytest.raises(FileNotFoundError):
        stook.repair("none", "new.stook")
    with pytest.raises(FileNotFoundError):
        stook.check("none")
    assert not Path("new.stook").exists()


def test_a_pack_that_cannot_be_opened_is_checked_all_the_same(filled: Path) -> None:
    for manifest in filled.glob("manifest-*"):
        manifest.write_bytes(b"x" * manifest.stat().st_size)
    with pytest.raises(stook.Error):
        stook.Pack(filled)
    report = stook.check(filled)
    assert report.notes and report.records == 3
    assert stook.repair(filled, "new.stook").records == 3


def test_an_archive_on_a_server_is_unpacked_as_the_file_is(sources: dict[str, Path]) -> None:
    bucket = Path("served/bucket")
    bucket.mkdir(parents=True)
    with Servers(Path("served")) as servers:
        for name in ("tar", "zip"):
            (bucket / name).write_bytes(sources[name].read_bytes())
            stook.unpack(sources[name], f"here-{name}")
            for round_, requests in enumerate((2, 1)):
                report = stook.unpack(
                    f"s3://bucket/{name}", f"there-{name}-{round_}", settings=servers.settings, cache=f"cache-{name}"
                )
                assert not report.failures
                assert tree_at(Path(f"there-{name}-{round_}")) == tree_at(Path(f"here-{name}"))
                assert len(servers.log()[0]) == requests, "its first byte, and all of it, since it is short"
        with pytest.raises(stook.InvalidError) as refused:
            stook.unpack("s3://bucket/zip", "none", settings=servers.settings, include=["*.none"])
        assert "s3://bucket/zip" in str(refused.value) and not Path("none").exists()


def test_a_tar_that_is_there_is_kept_where_the_new_one_would_have_less(
    damage: Callable[[Path, bytes], None],
) -> None:
    with stook.Pack("two.stook", "x") as pack:
        pack.update({"a": b"alpha", "b": b"beta"})
    assert stook.unpack("two.stook", tar="two.tar").files == 2
    before = Path("two.tar").read_bytes()
    with pytest.raises(stook.InvalidError):
        stook.unpack("two.stook", tar="two.tar", include="zz")
    assert Path("two.tar").read_bytes() == before
    damage(Path("two.stook"), b"alpha")
    with pytest.warns(stook.DamageWarning, match="is damaged"):
        report = stook.unpack("two.stook", tar="two.tar")
    assert (report.files, report.kept, [failure.key for failure in report.failures]) == (0, ["two.tar"], ["a"])
    assert Path("two.tar").read_bytes() == before
    with pytest.warns(stook.DamageWarning, match="is damaged"):
        assert stook.unpack("two.stook", tar="two.tar", force=True).files == 1
    assert Path("two.tar").read_bytes() != before
