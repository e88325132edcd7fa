"""Trees that other programs see: mounted, and over HTTP."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Callable

import pytest

import stook


@pytest.fixture(autouse=True)
def tree() -> Path:
    """A tree of files."""
    tree = Path("tree")
    (tree / "notes").mkdir(parents=True)
    for number in range(50):
        (tree / "notes" / str(number)).write_text(f"note {number}")
    (tree / "large").write_bytes(os.urandom(2_000_000))
    return tree


def content(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def eventually(is_so: Callable[[], bool]) -> None:
    for _ in range(200):
        if is_so():
            return
        time.sleep(0.05)
    raise AssertionError("it did not happen")


def is_mounted(path: Path) -> bool:
    return any(line.split(" ")[4] == str(path) for line in Path("/proc/self/mountinfo").read_text().splitlines())


def test_what_is_put_into_a_pack_is_shown(tree: Path) -> None:
    stook.pack_tree(tree, "tree.stook")
    with stook.mount("tree.stook", follow=True, push=False) as mounted:
        assert (mounted.path / "notes" / "3").read_text() == "note 3"
        with stook.Pack("tree.stook", "a") as pack:
            pack["notes/3"] = b"another note"
        eventually(lambda: (mounted.path / "notes" / "3").read_bytes() == b"another note")
        assert (mounted.path / "notes" / "4").read_text() == "note 4"
    with pytest.raises(stook.PresentError, match="only one pack"):
        stook.mount(tree, follow=True)


def test_a_mount_shows_the_tree_until_it_is_closed(tree: Path) -> None:
    stook.pack_tree(tree, "tree.stook")
    with stook.mount("tree.stook") as mounted:
        path = mounted.path
        assert content(path) == content(tree) and not mounted.closed
        status = mounted.status()
        assert (status.mode, status.hidden, status.log) == ("large", [], [])
        assert status.requests["read"] > 0 and "tree.stook" in repr(mounted)
        with pytest.raises(OSError, match="Read-only"):
            (path / "new").write_text("x")
    assert mounted.closed and not path.exists() and "closed" in repr(mounted)
    mounted.close()
    with pytest.raises(stook.PresentError, match="nothing is mounted"):
        mounted.status()


def test_several_are_one_and_routes_replace_members(tree: Path) -> None:
    Path("over").mkdir()
    Path("over/large").write_text("small")
    Path("mnt").mkdir()
    with stook.mount([tree, Path("over")], "mnt", push=False, threads=2) as mounted:
        assert mounted.path == Path("mnt") and Path("mnt/large").read_text() == "small"
        assert Path("mnt/notes/7").read_text() == "note 7"
        assert mounted.status().document["threads"] == 2
    assert Path("mnt").is_dir() and not any(Path("mnt").iterdir())
    Path("game").mkdir()
    with tarfile.open("game/x.tar", "w") as tar:
        tar.add(tree / "notes/1", "one")
    Path("mod/x.tar").mkdir(parents=True)
    Path("mod/x.tar/one").write_text("changed")
    with stook.mount("game", routes="mod") as mounted, tarfile.open(mounted.path / "x.tar") as tar:
        member = tar.extractfile("one")
        assert member is not None and member.read() == b"changed"


def test_an_earlier_state_is_mounted(tree: Path) -> None:
    stook.pack_tree(tree, "tree.stook")
    then = time.time()
    time.sleep(1.1)
    (tree / "notes/0").write_text("changed")
    stook.pack_tree(tree, "tree.stook")
    with stook.mount("tree.stook", at=then) as mounted:
        assert (mounted.path / "notes/0").read_text() == "note 0"
    with stook.mount("tree.stook") as mounted:
        assert (mounted.path / "notes/0").read_text() == "changed"


def test_what_cannot_be_mounted_is_an_error_and_leaves_no_directory(tree: Path) -> None:
    before = set(Path("/tmp").glob("stook-mount-*"))
    with pytest.raises(stook.PresentError, match="missing"):
        stook.mount("missing")
    with pytest.raises(stook.PresentError, match="shown in itself"):
        stook.mount(tree, tree / "notes")
    with pytest.raises(stook.InvalidError, match="threads"):
        stook.mount(tree, threads=0)
    assert set(Path("/tmp").glob("stook-mount-*")) == before
    assert issubclass(stook.PresentError, (stook.Error, OSError))


def test_a_mount_ends_with_the_process_that_has_it(tree: Path) -> None:
    stook.pack_tree(tree, "tree.stook")
    Path("mnt").mkdir()
    program = "import stook, time\nmounted = stook.mount('tree.stook', 'mnt')\nprint('ready', flush=True)\ntime.sleep(600)"
    place = Path("mnt").absolute()
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        assert is_mounted(place)
        process.send_signal(signal.SIGKILL)
    eventually(lambda: not is_mounted(place))


def test_a_server_gives_files_and_archives_until_it_is_closed(tree: Path) -> None:
    with stook.serve(tree) as server:
        assert server.url.endswith(f":{server.port}/") and server.url in server._repr_html_()
        read = urllib.request.urlopen(server.url + "notes/3").read()
        assert read == b"note 3"
        request = urllib.request.Request(server.url + "large", headers={"Range": "bytes=5-9"})
        assert urllib.request.urlopen(request).read() == (tree / "large").read_bytes()[5:10]
        archive = urllib.request.urlopen(server.url + "notes/?as=tar").read()
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            assert len([member for member in tar if member.isfile()]) == 50
    assert server.closed and "closed" in repr(server)
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(server.url)


def test_a_server_with_a_token_lets_nobody_in_without(tree: Path) -> None:
    with stook.serve(tree, token="secret") as server:
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(server.url)
        request = urllib.request.Request(server.url + "notes/3", headers={"Authorization": "Bearer secret"})
        assert urllib.request.urlopen(request).read() == b"note 3"
        listed = Path(f"/proc/{server._process.pid}/cmdline").read_bytes()
        assert b"secret" not in listed and b"serve" in listed
    with pytest.raises(stook.InvalidError, match="token"):
        stook.serve(tree, listen="0.0.0.0")
    # A token is never given in vain.
    with pytest.raises(stook.InvalidError, match="--public"):
        stook.serve(tree, token="secret", public=True)
    with pytest.raises(stook.InvalidError, match="listen"):
        stook.serve(tree, listen="nowhere")
