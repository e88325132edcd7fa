"""Copies to one place or several: what the command line gives, every option, and all that is
refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import sys
import threading
from fnmatch import fnmatchcase
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import stook
from servers import Servers
from test_unpack import stook_command, tree_at


#: Bytes of the files in `card`, a file with two names once.
CARD_BYTES = (3 << 20) + (1 << 20) + len(b"cat") + len(b"one file")


@pytest.fixture(autouse=True)
def card() -> Path:
    """A tree with files, links, a hole, and a file that is long enough for the large ones."""
    card = Path("card")
    (card / "2024" / "raw").mkdir(parents=True)
    (card / "2024" / "cat.jpg").write_bytes(b"cat")
    (card / "2024" / "notes.txt").write_bytes(b"")
    (card / "2024" / "raw" / "long").write_bytes(os.urandom(3 << 20))
    (card / "2024" / "latest").symlink_to("cat.jpg")
    (card / "first").write_bytes(b"one file")
    os.link(card / "first", card / "linked")
    (card / "empty").mkdir()
    with open(card / "hole", "wb") as file:
        file.truncate(1 << 20)
    (card / "2024" / "notes.txt").chmod(0o640)
    return card


def test_a_copy_is_what_the_original_is(card: Path) -> None:
    report = stook.copy(card, "disk")
    assert tree_at(Path("disk")) == tree_at(card)
    assert report.ok and report.undone == 0 and not report.dry_run
    (disk,) = report.destinations
    assert disk.path == Path("disk") and disk.stopped is None
    assert (disk.files, disk.symlinks, disk.hard_links, disk.unchanged) == (5, 1, 1, 0)
    # Holes are not read.
    assert disk.bytes == CARD_BYTES and report.read_bytes == CARD_BYTES - (1 << 20)
    assert os.stat("disk/linked").st_ino == os.stat("disk/first").st_ino
    assert os.stat("disk/2024/cat.jpg").st_mtime_ns == os.stat(card / "2024" / "cat.jpg").st_mtime_ns
    again = stook.copy(card, "disk")
    assert again.ok and again.destinations[0].files == 0 and again.destinations[0].unchanged >= 5


def test_several_destinations_are_copied_to_with_one_read(card: Path) -> None:
    several: list[Any] = ["spare", [b"spare", Path("third")]]
    for to in several:
        report = stook.copy(card, "disk", to=to)
        assert [str(one.path) for one in report.destinations][:2] == ["disk", "spare"]
        assert report.ok and all(tree_at(one.path) == tree_at(card) for one in report.destinations)
        assert all(one.files + one.unchanged > 0 for one in report.destinations)
        assert report.read_bytes <= CARD_BYTES


def test_several_sources_and_files_go_by_name(card: Path) -> None:
    Path("notes").mkdir()
    Path("notes/list").write_bytes(b"list")
    assert stook.copy([card, b"notes"], "disk").ok
    assert sorted(os.listdir("disk")) == ["card", "notes"]
    assert tree_at(Path("disk/card")) == tree_at(card)
    assert stook.copy("notes/list", "files").ok and os.listdir("files") == ["list"]


def test_packs_and_archives_are_copied_by_what_is_in_them(card: Path) -> None:
    stook.pack_tree(card, "card.stook")
    stook.unpack("card.stook", tar="card.tar")
    for number, source in enumerate(("card.stook", "card.tar//")):
        # To one destination it is unpacked, to several it is read file by file.
        assert stook.copy(source, f"one-{number}").ok
        assert stook.copy(source, f"two-{number}", to=f"three-{number}").ok
        for place in (f"one-{number}", f"two-{number}", f"three-{number}"):
            assert tree_at(Path(place)) == tree_at(card)
    assert stook.copy("card.tar//2024/raw", "raw").ok and os.listdir("raw") == ["long"]
    assert stook.copy("card.tar", "files").ok and os.listdir("files") == ["card.tar"]
    assert stook.copy("card.stook", "parts", as_file=True).ok
    assert sorted(os.listdir("parts")) == sorted(os.listdir("card.stook"))
    with pytest.raises(FileNotFoundError, match="card.tar has no 1999"):
        stook.copy("card.tar//1999", "none")


def test_an_earlier_state_of_a_pack_is_copied(card: Path) -> None:
    stook.pack_tree(card, "card.stook")
    before = tree_at(card)
    with stook.Pack("card.stook", "r+") as pack:
        pack.put("2024/cat.jpg", b"new")
        changed = pack.record("2024/cat.jpg")
    assert changed is not None
    assert stook.copy("card.stook", "before", at=changed.time_ns - 1).ok
    assert tree_at(Path("before")) == before
    with pytest.raises(stook.NoSuchStateError, match="an int is nanoseconds; give a float of seconds"):
        stook.copy("card.stook", "early", at=1_700_000_000)


def test_objects_are_copied_by_their_address(card: Path) -> None:
    bucket = Path("served/bucket")
    bucket.mkdir(parents=True)
    stook.pack_tree(card, "card.stook")
    stook.unpack("card.stook", tar="served/bucket/card.tar")
    (bucket / "long").write_bytes(os.urandom(1 << 20))
    with Servers(Path("served")) as servers:
        report = stook.copy("s3://bucket/long", "disk", settings=servers.settings, hashes="sha256")
        assert report.ok and Path("disk/long").read_bytes() == (bucket / "long").read_bytes()
        report = stook.copy("s3://bucket/card.tar//", "tree", settings=servers.settings, cache="cache")
        assert report.ok and tree_at(Path("tree")) == tree_at(card)
        with pytest.raises(stook.RemoteNotFoundError):
            stook.copy("s3://bucket/none", "disk", settings=servers.settings)


#: Options of the function, and the same on the command line.
OPTIONS: list[tuple[dict[str, Any], list[str]]] = [
    ({"include": "*.jpg"}, ["--include", "*.jpg"]),
    ({"exclude": ["raw/", "*.txt"]}, ["--exclude", "raw/", "--exclude", "*.txt"]),
    ({"overwrite": "different"}, ["--overwrite", "different"]),
    ({"overwrite": "always", "backup": ".old"}, ["--overwrite", "always", "--backup=.old"]),
    ({"overwrite": "older", "checksum": True}, ["--overwrite", "older", "--checksum"]),
    ({"overwrite": "different", "mirror": True}, ["--overwrite", "different", "--mirror"]),
    ({"durability": "file", "xattrs": False}, ["--durability", "file", "--no-xattrs"]),
    ({"durability": "none", "with_owner": False}, ["--durability", "none", "--no-owner"]),
    ({"block_bytes": 65536, "depth": 2, "jobs": 3}, ["--block-size", "64K", "--depth", "2", "--jobs", "3"]),
    ({"access": "cached", "one_file_system": True}, ["--direct", "never", "--one-file-system"]),
    ({"access": "direct", "bytes_per_s": 1 << 40}, ["--direct", "always", "--bwlimit", "1T"]),
    ({"overwrite": "different", "dry_run": True, "force": True}, ["--overwrite", "different", "--dry-run", "--force"]),
]


@pytest.mark.parametrize(("options", "arguments"), OPTIONS)
def test_every_option_does_what_it_does_on_the_command_line(
    card: Path, options: dict[str, Any], arguments: list[str]
) -> None:
    for place in ("here", "there"):
        Path(place, "2024").mkdir(parents=True)
        Path(place, "2024", "cat.jpg").write_bytes(b"another")
        os.utime(Path(place, "2024", "cat.jpg"), (5, 5))
        Path(place, "extra").write_bytes(b"extra")
    report = stook.copy(card, "here", **options)
    command = [sys.executable, "-W", "ignore", "-m", "stook", "copy", str(card), "there", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    document = json.loads(done.stdout)
    assert tree_at(Path("here")) == tree_at(Path("there"))
    assert report.ok == (done.returncode == 0), done.stderr
    (one,), (other,) = report.destinations, document["destinations"]
    counts = ("files", "bytes", "directories", "symlinks", "hard_links", "unchanged", "corrected", "backups")
    for name in (*counts, "copied_by_server", "resumed_bytes"):
        assert getattr(one, name) == other[name], name
    assert (one.unfinished, one.leftovers) == (other["unfinished"], other["leftovers"])
    assert (len(one.kept), len(one.deleted)) == (len(other["kept"]), len(other["deleted"]))
    assert report.dry_run == document["dry_run"]


def test_what_was_kept_and_deleted_is_named(card: Path) -> None:
    Path("disk/2024").mkdir(parents=True)
    Path("disk/2024/cat.jpg").write_bytes(b"another")
    Path("disk/extra").write_bytes(b"")
    report = stook.copy(card, "disk")
    assert report.destinations[0].kept == ["2024/cat.jpg"] and not report.ok and report.undone == 1
    report = stook.copy(card, "disk", overwrite="different", mirror=True, backup="~")
    assert report.destinations[0].deleted == ["extra"] and report.ok
    assert Path("disk/2024/cat.jpg~").read_bytes() == b"another"


def test_an_empty_source_is_copied_and_deletes_nothing_unless_forced() -> None:
    Path("none").mkdir()
    Path("full").mkdir()
    Path("full/file").write_bytes(b"x")
    # Before: it counted as one entry, and all that the destination had was deleted.
    report = stook.copy("none", "full", mirror=True)
    assert not report.ok and report.entries == 0 and Path("full/file").exists()
    assert stook.copy("none", "new").ok and Path("new").is_dir()
    assert stook.copy("none", "full", mirror=True, force=True).destinations[0].deleted == ["file"]


def test_only_the_paths_of_a_list_are_copied(card: Path) -> None:
    assert stook.copy(card, "disk", files=["2024/cat.jpg", Path("empty"), b"./linked"]).ok
    assert sorted(tree_at(Path("disk"))) == ["2024", "2024/cat.jpg", "empty", "linked"]
    assert stook.copy(card, "all", files=["."]).destinations[0].files > 2
    report = stook.copy(card, "other", files=["linked", "none"])
    assert [failure.key for failure in report.failures] == ["none"] and Path("other/linked").exists()


def test_unchanged_files_become_hard_links_of_an_earlier_copy(card: Path) -> None:
    stook.copy(card, "monday")
    (card / "2024" / "cat.jpg").write_bytes(b"another cat")
    report = stook.copy(card, "tuesday", link_dest="monday")
    assert report.ok and report.destinations[0].linked >= 2
    assert os.stat("tuesday/2024/raw/long").st_ino == os.stat("monday/2024/raw/long").st_ino
    assert os.stat("tuesday/2024/cat.jpg").st_ino != os.stat("monday/2024/cat.jpg").st_ino
    assert tree_at(Path("tuesday")) == tree_at(card)


def test_special_files_are_listed_or_made(card: Path) -> None:
    os.mkfifo(card / "pipe")
    report = stook.copy(card, "disk")
    assert report.special == ["pipe"] and not report.ok
    report = stook.copy(card, "disk", specials=True)
    assert report.ok and report.destinations[0].specials == 1
    assert stat.S_ISFIFO(os.stat("disk/pipe").st_mode)


def test_hashes_are_those_of_other_programs(card: Path) -> None:
    items: list[stook.CopyItem] = []
    assert stook.copy(card, "disk", to=["spare"], hashes=["sha256", "xxh3"], items=items.append).ok
    hashed = [item for item in items if item.key == "2024/raw/long"]
    assert [item.destination for item in sorted(hashed, key=lambda item: item.destination)] == [0, 1]
    for item in hashed:
        assert (item.action, item.why, item.size) == ("copy", "new", 3 << 20)
        assert set(item.digests) == {"sha256", "xxh3"} and len(item.digests["xxh3"]) == 16
        assert item.digests["sha256"] == hashlib.sha256((card / "2024/raw/long").read_bytes()).hexdigest()


def test_lists_are_those_of_other_programs(card: Path) -> None:
    report = stook.copy(card, "disk", lists=["sha256", "md5"], mhl="xxh128")
    assert report.ok
    (one,) = report.destinations
    md5, sha256, mhl = sorted(one.lists, key=lambda name: name.rsplit(".", 1)[1].replace("mhl", "z"))
    assert mhl.startswith("ascmhl/0001_disk_") and Path("disk", mhl).is_file()
    lines = Path("disk", sha256).read_text().splitlines()
    files = [path for path in Path("disk").rglob("*") if path.is_file() and not path.is_symlink()]
    expected = {path.relative_to("disk").as_posix() for path in files}
    expected = {path for path in expected if not path.startswith(("checksums-", "ascmhl/"))}
    assert {line[66:] for line in lines} == expected
    for line in lines:
        assert line[:64] == hashlib.sha256(Path("disk", line[66:]).read_bytes()).hexdigest()
    assert len(Path("disk", md5).read_text().splitlines()) == len(lines)
    again = stook.copy(card, "disk", lists="sha256")
    assert again.ok and again.destinations[0].lists == [] and again.destinations[0].unlisted == len(lines)


def test_a_dry_run_says_what_would_be_and_changes_nothing(card: Path) -> None:
    stook.copy(card, "disk")
    (card / "2024" / "cat.jpg").write_bytes(b"longer than before")
    Path("disk/extra").write_bytes(b"")
    before = tree_at(Path("disk"))
    items: list[stook.CopyItem] = []
    report = stook.copy(card, "disk", overwrite="different", mirror=True, dry_run=True, items=items.append)
    assert report.dry_run and tree_at(Path("disk")) == before
    done = {(item.key, item.action, item.why) for item in items if item.action != "skip"}
    assert ("2024/cat.jpg", "copy", "length") in done and ("extra", "delete", "extra") in done
    command = ["copy", "card", "disk", "--overwrite", "different", "--mirror", "--dry-run", "--json"]
    listed = json.loads(stook_command(*command).stdout)["items"]
    assert done == {(item["key"], item["action"], item["why"]) for item in listed}


def test_files_have_their_names_when_items_are_called(card: Path) -> None:
    missing: list[str] = []

    def look(item: stook.CopyItem) -> None:
        if item.action == "copy" and not os.path.lexists(f"disk/{item.key}"):
            missing.append(item.key)

    assert stook.copy(card, "disk", items=look).ok
    assert missing == []


def test_items_of_packs_and_archives_come_too(card: Path) -> None:
    stook.pack_tree(card, "card.stook")
    stook.unpack("card.stook", tar="card.tar")
    keys: list[set[str]] = []
    for number, source in enumerate(("card", "card.stook", "card.tar//")):
        items: list[stook.CopyItem] = []
        assert stook.copy(source, f"disk-{number}", items=items.append).ok
        keys.append({item.key for item in items if item.action in ("copy", "hard_link")})
    assert keys[0] == keys[1] == keys[2] and {"2024/cat.jpg", "first", "linked"} <= keys[0]


def test_one_bad_file_costs_only_itself(card: Path) -> None:
    stook.pack_tree(card, "card.stook")
    (segment,) = [path for path in Path("card.stook").glob("segment-*")]
    data = bytearray(segment.read_bytes())
    data[data.find((card / "2024/raw/long").read_bytes()[:100]) + 1000] ^= 1
    segment.write_bytes(data)
    for to in (None, "spare"):
        report = stook.copy("card.stook", "disk", to=to)
        failures = report.failures + [failure for one in report.destinations for failure in one.failures]
        assert {failure.key for failure in failures} == {"2024/raw/long"} and not report.ok
        assert all(isinstance(failure.error, OSError) for failure in failures)
        assert Path("disk/2024/cat.jpg").read_bytes() == b"cat" and not Path("disk/2024/raw/long").exists()


#: Arguments that make no sense, and what is said.
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"sources": 5}, "argument 'sources': 'int' object is not iterable"),
    ({"sources": []}, "argument 'sources': at least one is wanted"),
    ({"sources": ["card", 5]}, "argument 'sources': expected str, bytes or os.PathLike object, not int"),
    ({"sources": ""}, "argument 'sources': the path is empty*"),
    ({"destination": None}, "argument 'destination': expected str, bytes or os.PathLike object, not NoneType"),
    ({"destination": ""}, "argument 'destination': the path is empty*"),
    ({"to": 5}, "argument 'to': 'int' object is not iterable"),
    ({"to": ["spare", ""]}, "argument 'to': the path is empty*"),
    ({"overwrite": "yes"}, "overwrite is one of 'never', 'older', 'different', 'always', not \"yes\""),
    ({"overwrite": True}, "argument 'overwrite': a str is wanted, not bool"),
    ({"checksum": "no"}, "argument 'checksum': True or False is wanted, not str"),
    ({"durability": "sync"}, "durability is one of 'batch', 'file', 'none', not \"sync\""),
    ({"durability": None}, "argument 'durability': a str is wanted, not NoneType"),
    ({"backup": True}, "argument 'backup': a str is wanted, not bool"),
    ({"backup": "a/b"}, "the suffix of backups must be the end of a name, not \"a/b\""),
    ({"mirror": 1}, "argument 'mirror': True or False is wanted, not int"),
    ({"link_dest": 5}, "argument 'link_dest': expected str, bytes or os.PathLike object, not int"),
    ({"include": 5}, "include is a pattern, or a list of patterns, not 5"),
    ({"exclude": print}, "exclude is a pattern, or a list of patterns, not <built-in function print>"),
    ({"files": 5}, "argument 'files': 'int' object is not iterable"),
    ({"files": ["x", "../x"]}, "argument 'files', line 2: ../x would lead out of what is copied"),
    ({"files": "/etc"}, "argument 'files', line 1: /etc is absolute*"),
    ({"one_file_system": "no"}, "argument 'one_file_system': True or False is wanted, not str"),
    ({"specials": "no"}, "argument 'specials': True or False is wanted, not str"),
    ({"xattrs": None}, "argument 'xattrs': True or False is wanted, not NoneType"),
    ({"with_owner": "root"}, "argument 'with_owner': True or False is wanted, not str"),
    ({"hashes": "md4"}, "hashes is one of 'xxh3', 'xxh128', 'xxh64', 'blake3', 'sha256', 'sha1', 'md5', 'c4', "
     "not \"md4\""),
    ({"lists": "md4"}, "lists is one of 'xxh3', 'xxh128', 'xxh64', 'blake3', 'sha256', 'sha1', 'md5', 'c4', "
     "not \"md4\""),
    ({"lists": 5}, "argument 'lists': a name, or a list of names, is wanted, not int"),
    ({"mhl": "sha256"}, "sha256 is not allowed in ASC MHL: take c4, which cannot be forged, either, or xxh128, "
     "which is faster; md5, sha1, xxh3 and xxh64 are also allowed"),
    ({"mhl": []}, "a list of ASC MHL needs a hash"),
    ({"hashes": 5}, "argument 'hashes': a name, or a list of names, is wanted, not int"),
    ({"block_bytes": "1M"}, "argument 'block_bytes': 'str' object cannot be interpreted as an integer"),
    ({"block_bytes": 5000}, "the block size must be a multiple of 4 KiB up to 16 MiB, not 5000 bytes"),
    ({"depth": 0}, "the depth must be 1 to 256, not 0"),
    ({"depth": -1}, "argument 'depth': a number from 0 on is wanted, not -1"),
    ({"jobs": 257}, "the number of jobs must be 1 to 256, not 257"),
    ({"sources": "card.stook", "jobs": 257}, "the number of jobs must be 1 to 256, not 257"),
    ({"access": "never"}, "access is one of 'auto', 'direct', 'cached', not \"never\""),
    ({"bytes_per_s": 0}, "the limit must be at least 4 KiB a second, not 0 bytes"),
    ({"bytes_per_s": 50}, "the limit must be at least 4 KiB a second, not 50 bytes"),
    ({"bytes_per_s": 1.5}, "argument 'bytes_per_s': 'float' object cannot be interpreted as an integer"),
    ({"force": "no"}, "argument 'force': True or False is wanted, not str"),
    ({"dry_run": "no"}, "argument 'dry_run': True or False is wanted, not str"),
    ({"as_file": "no"}, "argument 'as_file': True or False is wanted, not str"),
    ({"at": "noon"}, "argument 'at': \"noon\" is not a time*"),
    ({"cache": 5}, "argument 'cache': expected str, bytes or os.PathLike object, not int"),
    ({"whole_file": "no"}, "argument 'whole_file': True or False is wanted, not str"),
    ({"settings": []}, "argument 'settings': 'list' object is not an instance of 'dict'"),
    ({"headers": []}, "argument 'headers': 'list' object is not an instance of 'dict'"),
    ({"items": []}, "argument 'items': a callable is wanted, not list"),
    ({"progress": 5}, "progress is a callable, True or False, not 5"),
    ({"overwrites": "always"}, "copy() got an unexpected keyword argument 'overwrites'"),
    ({"include": "*.png"}, "nothing that was asked for is in card"),
    ({"files": []}, "argument 'files' has no path: nothing was asked for"),
    ({"max_delete": 5}, "how much may be deleted is said of a mirror, and none is asked for"),
    ({"max_delete": -1, "mirror": True}, "argument 'max_delete': a number from 0 on is wanted, not -1"),
    ({"destination": "card/2024/copy"}, "*is inside*the copy would never end"),
    ({"to": "disk/spare"}, "the destinations disk and disk/spare are one in the other"),
    ({"sources": ["card", "other/card"]}, "two sources would both be card in the destination*"),
]


@pytest.mark.parametrize(("wrong", "message"), REFUSED)
def test_what_makes_no_sense_is_refused_by_its_name(card: Path, wrong: dict[str, Any], message: str) -> None:
    Path("other/card").mkdir(parents=True)
    stook.pack_tree(card, "card.stook")
    before = tree_at(card)
    arguments: dict[str, Any] = {"sources": card, "destination": "disk", **wrong}
    with pytest.raises((TypeError, ValueError)) as refused:
        stook.copy(**arguments)
    assert fnmatchcase(str(refused.value), message), str(refused.value)
    assert not list(Path().rglob("disk/*")) and tree_at(card) == before


def test_what_the_system_refuses_is_an_error_of_the_system(card: Path) -> None:
    with pytest.raises(FileNotFoundError, match="none"):
        stook.copy("none", "disk")
    Path("file").write_bytes(b"")
    with pytest.raises(NotADirectoryError, match="file"):
        stook.copy(card, "file")
    if os.geteuid() != 0:
        Path("locked").mkdir(mode=0o500)
        with pytest.raises(PermissionError, match="locked"):
            stook.copy(card, "locked/disk")


def test_files_and_bytes_are_counted_to_the_last(card: Path) -> None:
    calls: list[tuple[int, int, int]] = []
    stook.copy(card, "disk", progress=lambda files, size, total: calls.append((files, size, total)))
    assert calls == sorted(calls)
    files, size, total = calls[-1]
    assert files >= 5 and size == total == CARD_BYTES


@pytest.mark.parametrize("name", ["progress", "items"])
@pytest.mark.parametrize("source", ["card", "card.stook"])
def test_a_callable_that_raises_ends_it_and_leaves_whole_files(card: Path, name: str, source: str) -> None:
    stook.pack_tree(card, "card.stook")
    to = ["spare"] if name == "items" else []

    def refuse(*_: object) -> None:
        raise RuntimeError("enough")

    options: dict[str, Any] = {name: refuse, "to": to}
    with pytest.raises(RuntimeError, match="enough"):
        stook.copy(source, "disk", **options)
    for place in ("disk", *to):
        for path in Path(place).rglob("*"):
            if path.is_file():
                assert path.read_bytes() == (card / path.relative_to(place)).read_bytes()
    # What is there is taken up by the next run.
    assert stook.copy(source, "disk", to=to).ok and tree_at(Path("disk")) == tree_at(card)


#: Ctrl-C comes as soon as the first item is reported; the rest of the tree waits for that.
STOPPED = """
import os, signal, sys, threading, stook
noticed = threading.Event()

def interrupt(*_):
    noticed.set()
    raise KeyboardInterrupt

def item(_):
    if not noticed.is_set():
        os.kill(os.getpid(), signal.SIGINT)
        noticed.wait(60)

signal.signal(signal.SIGINT, interrupt)
try:
    stook.copy("many", "disk", durability="file", bytes_per_s=4 << 20, items=item)
except KeyboardInterrupt:
    print(len(os.listdir("disk")))
"""


def test_ctrl_c_leaves_whole_files_and_the_next_run_finishes() -> None:
    Path("many").mkdir()
    for number in range(400):
        Path(f"many/{number}").write_bytes(bytes([number % 251]) * 20_000)
    command = [sys.executable, "-W", "ignore", "-c", STOPPED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and 0 < int(done.stdout) <= 400, done.stderr
    for path in Path("disk").iterdir():
        assert path.read_bytes() == Path("many", path.name).read_bytes(), path
    report = stook.copy("many", "disk")
    assert report.ok and report.destinations[0].unchanged > 0 and tree_at(Path("disk")) == tree_at(Path("many"))


@pytest.mark.parametrize("is_main", [True, False])
def test_other_threads_run_while_it_copies(card: Path, is_main: bool) -> None:
    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    def copy() -> None:
        # What is copied comes from a thread of this process: it must get the interpreter.
        address = f"http://127.0.0.1:{server.server_address[1]}/card/2024/raw/long"
        reports.append(stook.copy(address, "disk", whole_file=True))

    reports: list[stook.CopyReport] = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            if is_main:
                copy()
            else:
                thread = threading.Thread(target=copy)
                thread.start()
                thread.join()
        finally:
            server.shutdown()
            serving.join()
    assert reports[0].ok and Path("disk/long").read_bytes() == (card / "2024/raw/long").read_bytes()


def test_many_threads_copy_at_once(card: Path) -> None:
    threads = [threading.Thread(target=stook.copy, args=(card, f"disk-{number}")) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(tree_at(Path(f"disk-{number}")) == tree_at(card) for number in range(4))


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    film = tmp_path / "film"
    film.mkdir()
    (film / "take").write_bytes(b"pictures" * 1000)
    report = stook.copy(film, tmp_path / "disk", read_back=True)
    (one,) = report.destinations
    assert (report.ok, one.read_back_files, one.read_back_bytes) == (True, 1, 8000)
    assert isinstance(one.past_cache, bool)
    (again,) = stook.copy(film, tmp_path / "disk", read_back=True).destinations
    assert (again.unchanged, again.read_back_files, again.past_cache) == (1, 0, None)
    with pytest.raises(stook.InvalidError, match="not made durable"):
        stook.copy(film, tmp_path / "other", read_back=True, durability="none")
    with pytest.raises(TypeError, match="read_back"):
        stook.copy(film, tmp_path / "other", read_back="yes")  # type: ignore[arg-type]
