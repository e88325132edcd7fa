"""Trees that other programs see: mounted, and over HTTP."""

from __future__ import annotations

import gc
import io
import os
import signal
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.request
import warnings
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Callable

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
    with pytest.raises(stook.Error, match="only one pack"):
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
        assert mounted.path == Path("mnt").absolute() and Path("mnt/large").read_text() == "small"
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


def test_changed_archives_are_kept_as_copies(tree: Path) -> None:
    Path("game").mkdir()
    with tarfile.open("game/x.tar", "w") as tar:
        tar.add(tree / "notes", "notes")
    Path("mod/x.tar/notes").mkdir(parents=True)
    Path("mod/x.tar/notes/3").write_text("changed")
    with stook.mount("game", routes="mod") as mounted:
        expected = (mounted.path / "x.tar").read_bytes()
        assert mounted.status().document["merged"] is None
    with stook.mount("game", routes=["mod"], merged_cache="cache", merge="always") as mounted:

        def is_kept() -> bool:
            assert (mounted.path / "x.tar").read_bytes() == expected
            return bool(mounted.status().document["merged"]["built"] == 1)

        eventually(is_kept)
        assert (mounted.path / "x.tar").read_bytes() == expected
        assert mounted.status().document["merged"]["found"] >= 1
    assert [path.read_bytes() for path in Path("cache").glob("*.merged")] == [expected]
    with pytest.raises(stook.InvalidError, match="merge"):
        stook.mount("game", routes="mod", merged_cache="cache", merge="sometimes")
    with pytest.raises(stook.InvalidError, match="routes"):
        stook.mount("game", merged_cache="cache")


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
    (tree / "empty").mkdir()
    with tarfile.open("tree.tar", "w") as tar:
        tar.add(tree)
    before = set(Path("/tmp").glob("stook-mount-*"))
    several: list[list[Any]] = [["missing"], [tree, "missing"], ["missing.tar//folder"]]
    for missing in several:
        with pytest.raises(FileNotFoundError, match="cannot open missing") as refused:
            stook.mount(missing)
        assert refused.value.filename.startswith("missing")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        stook.mount(tree, "nowhere/mnt")
    with pytest.raises(FileNotFoundError, match="missing"):
        stook.mount(tree, routes=["missing"])
    with pytest.raises(stook.PresentError, match="^[^/]*made for mountpoint=None[^/]*$"):
        stook.mount("tree.tar//tree/large")
    with pytest.raises(stook.PresentError, match="shown in itself"):
        stook.mount(tree, tree / "empty")
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
        listed = Path(f"/proc/{server._running.process.pid}/cmdline").read_bytes()
        assert b"secret" not in listed and b"serve" in listed
    with pytest.raises(stook.InvalidError, match="token"):
        stook.serve(tree, listen="0.0.0.0")
    # A token is never given in vain.
    with pytest.raises(stook.InvalidError, match="'public'"):
        stook.serve(tree, token="secret", public=True)
    with pytest.raises(stook.InvalidError, match="listen"):
        stook.serve(tree, listen="nowhere")


def test_a_path_is_full_and_no_chdir_changes_it(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("mnt").mkdir()
    with stook.mount(tree, "mnt") as mounted:
        monkeypatch.chdir("/")
        assert mounted.path.is_absolute() and (mounted.path / "notes/5").read_text() == "note 5"
        assert mounted.status().process > 0


def test_several_sources_are_one_and_a_mountpoint_hides_what_is_in_it(tree: Path) -> None:
    Path("changes").mkdir()
    Path("changes/new").write_text("new")
    with stook.mount(tree, "changes") as mounted:
        assert not (mounted.path / "new").exists()
    assert Path("changes/new").read_text() == "new"
    with stook.mount([tree, "changes"]) as mounted:
        assert (mounted.path / "new").read_text() == "new" and (mounted.path / "notes").is_dir()


def run_python(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a program that has `stook`, and whose warnings are all shown."""
    text = f"import gc, os, sys, time, warnings\nwith warnings.catch_warnings():\n    warnings.simplefilter('ignore')\n    import stook\n{program}"
    return subprocess.run([sys.executable, "-W", "always", "-c", text, *arguments], capture_output=True, text=True)


def test_a_forked_process_keeps_nothing_alive_and_ends_nothing(tree: Path) -> None:
    """Closing waits for no forked process, which neither unmounts nor removes anything."""
    mounted, server = stook.mount(tree), stook.serve(tree)
    (asks, says), (hears, tells) = os.pipe(), os.pipe()
    process = os.fork()
    if process == 0:
        code = 1
        try:
            are_closed = mounted.closed and server.closed
            with pytest.raises(stook.ClosedError, match="cannot be used"), mounted:
                pass
            mounted.close()
            server.close()
            is_there = (mounted.path / "notes/3").read_text() == "note 3"
            code = 0 if are_closed and is_there and mounted.status().threads == 8 else 2
        finally:
            os.write(says, bytes([code]))
            os.close(tells)
            os.read(hears, 1)
            os._exit(0)
    try:
        assert os.read(asks, 1) == b"\0"
        assert urllib.request.urlopen(server.url + "notes/4").read() == b"note 4"
        mounted.close()
        server.close()
        # One that waits is killed in the end.
        assert (mounted._running.code, server._running.code) == (0, 0)
        assert not mounted.path.exists() and os.waitpid(process, os.WNOHANG) == (0, 0)
    finally:
        os.close(tells)
        os.waitpid(process, 0)


def test_what_is_forked_without_pythons_knowledge_holds_up_nothing(tree: Path) -> None:
    mounted, server = stook.mount(tree), stook.serve(tree)
    held = [one._running.process.stdin for one in (mounted, server)]
    pipes = [stream.fileno() for stream in held if stream is not None]
    with subprocess.Popen(["sleep", "600"], pass_fds=pipes) as sleeper:
        mounted.close()
        server.close()
        assert (mounted._running.code, server._running.code) == (0, 0)
        assert sleeper.poll() is None and len(pipes) == 2
        sleeper.kill()


def test_a_forked_process_that_lives_longer_keeps_no_mount(tree: Path) -> None:
    Path("mnt").mkdir()
    program = """
mounted = stook.mount("tree", "mnt")
process = os.fork()
if process == 0:
    for descriptor in range(3):
        os.close(descriptor)
    time.sleep(600)
print(process, flush=True)
time.sleep(600)
"""
    place = Path("mnt").absolute()
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", f"import os, stook, time\n{program}"], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        try:
            assert is_mounted(place)
            parent.kill()
            eventually(lambda: not is_mounted(place))
            os.kill(child, 0)
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_forked_process_that_exits_leaves_the_mount(tree: Path) -> None:
    program = """
mounted = stook.mount("tree")
process = os.fork()
if process == 0:
    del mounted
    gc.collect()
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 7
print((mounted.path / "notes/3").read_text())
mounted.close()
"""
    done = run_python(program.replace("os.waitstatus_to_exitcode", "os.WEXITSTATUS"))
    assert (done.stdout, done.stderr, done.returncode) == ("note 3\n", "", 0)


def test_what_is_dropped_is_closed_with_a_warning(tree: Path) -> None:
    mounted, server = stook.mount(tree), stook.serve(tree)
    path, port = mounted.path, server.port
    with pytest.warns(ResourceWarning, match="stook.Mount of .* was not closed"):
        del mounted
        gc.collect()
    assert not path.exists() and not is_mounted(path)
    with pytest.warns(ResourceWarning, match="stook.Server at .* was not closed"):
        del server
        gc.collect()
    stook.serve(tree, port=port).close()
    looped: list[object] = [stook.mount(tree)]
    looped.append(looped)
    with pytest.warns(ResourceWarning, match="was not closed"):
        del looped
        gc.collect()


@pytest.mark.parametrize("end", ["pass", "sys.exit(5)", "raise KeyError"])
def test_the_end_of_the_program_closes_all_and_removes_what_was_made(tree: Path, end: str) -> None:
    program = f"mounted, server = stook.mount('tree'), stook.serve('tree')\nprint(mounted.path)\nsys.stdout.flush()\n{end}\n"
    done = run_python(program)
    assert done.returncode == {"pass": 0, "sys.exit(5)": 5}.get(end, 1)
    path = Path(done.stdout.strip())
    assert path.name.startswith("stook-mount-") and not path.exists()
    assert "Warning" not in done.stderr


def damaged_pack(tree: Path, damage: Callable[[Path, bytes], None]) -> Path:
    stook.pack_tree(tree, "tree.stook")
    damage(Path("tree.stook"), b"note 41")
    return Path("tree.stook")


def test_a_server_that_met_damage_is_not_closed_in_silence(tree: Path, damage: Callable[[Path, bytes], None]) -> None:
    server = stook.serve(damaged_pack(tree, damage))
    with server:
        assert urllib.request.urlopen(server.url + "notes/40").read() == b"note 40" and server.failures == []
    server = stook.serve("tree.stook")
    with pytest.raises(urllib.error.HTTPError, match="500"):
        urllib.request.urlopen(server.url + "notes/41")
    eventually(lambda: server.failures != [])
    with pytest.warns(stook.DamageWarning, match="tree.stook: .*notes/41") as warned:
        server.close()
    assert warned[0].filename == __file__ and "notes/41" in server.failures[0]
    server.close()


def test_a_mount_that_met_damage_is_not_closed_in_silence(tree: Path, damage: Callable[[Path, bytes], None]) -> None:
    pack = damaged_pack(tree, damage)
    with pytest.warns(stook.DamageWarning, match="notes/41"):
        with stook.mount(pack, push=False) as mounted:
            with pytest.raises(OSError, match="Input/output"):
                (mounted.path / "notes/41").read_bytes()
            eventually(lambda: mounted.failures != [])
            status = mounted.status()
            assert status.log_lines == 1 and "notes/41" in status.log[0] and "notes/41" in mounted.failures[0]
    mounted = stook.mount(pack, push=False)
    with pytest.raises(OSError, match="Input/output"):
        (mounted.path / "notes/41").read_bytes()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del mounted
        gc.collect()
    assert {one.category for one in caught} == {stook.DamageWarning, ResourceWarning}
    done = run_python(
        "mounted = stook.mount('tree.stook', push=False)\ntry:\n    (mounted.path / 'notes/41').read_bytes()\nexcept OSError:\n    pass\n"
    )
    assert "DamageWarning" in done.stderr and "notes/41" in done.stderr and done.returncode == 0


def test_the_log_of_a_mount_is_a_file_where_one_is_given(tree: Path, damage: Callable[[Path, bytes], None]) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with stook.mount(damaged_pack(tree, damage), push=False, log="mount.log") as mounted:
            with pytest.raises(OSError, match="Input/output"):
                (mounted.path / "notes/41").read_bytes()
            eventually(lambda: "notes/41" in Path("mount.log").read_text())
            assert mounted.failures == [] and "notes/41" in mounted.status().log[0]
    # Whether there is any warning is up to the code that the process ends with.
    assert [str(one.message) for one in caught] == [f"tree.stook: {failure}" for failure in mounted.failures]
    assert all(failure == "something could not be read: mount.log says what" for failure in mounted.failures)


def test_what_is_incomplete_from_the_beginning_is_warned_of_at_once(tree: Path) -> None:
    with tarfile.open("tree.tar", "w") as tar:
        tar.add(tree)
    Path("cut.tar").write_bytes(Path("tree.tar").read_bytes()[:5000])
    with pytest.warns(stook.DamageWarning, match="cut.tar: ") as warned:
        mounted = stook.mount("cut.tar")
    assert warned[0].filename == __file__ and len(mounted.failures) == len(warned) == 1
    assert mounted.status().hidden_entries == 1
    # It was said, and nothing else happened.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mounted.close()
    assert caught == []
    before = set(Path("/tmp").glob("stook-mount-*"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", stook.DamageWarning)
        with pytest.raises(stook.DamageWarning, match="cut.tar"):
            stook.mount("cut.tar")
    assert set(Path("/tmp").glob("stook-mount-*")) == before


def test_one_whose_process_is_killed_says_so(tree: Path) -> None:
    with pytest.warns(stook.DamageWarning, match="killed by signal 9") as warned:
        with stook.mount(tree) as mounted, stook.serve(tree) as server:
            for one in (mounted, server):
                one._running.process.kill()
            eventually(lambda: mounted.closed and server.closed)
    assert len(warned) == 2 and not mounted.path.exists()
    with pytest.raises(stook.ClosedError, match="closed"), mounted:
        pass


def test_arguments_are_refused_by_their_own_names(tree: Path) -> None:
    anything: Any
    for name, anything in [
        ("sources", None), ("sources", 5), ("follow", "no"), ("push", "yes"), ("passthrough", 1), ("no_exec", None),
        ("ignore_case", 0), ("allow_other", "all"), ("member_xattrs", []), ("whole_file", "x"), ("threads", "8"),
        ("threads", True), ("timeout", 1.5), ("at", True), ("at", []), ("log", 5), ("cache", 5), ("routes", 5),
        ("settings", []), ("settings", {"A": 5}), ("mountpoint", 5),
    ]:
        options = {"sources": tree, name: anything}
        with pytest.raises(TypeError, match=f"^argument '{name}': "):
            stook.mount(**options)
    for name, anything in [
        ("sources", []), ("sources", ""), ("threads", 0), ("threads", 257), ("timeout", -1), ("at", "x"), ("at", -1),
        ("at", float("nan")), ("ignore_case", True), ("mountpoint", ""),
    ]:
        with pytest.raises(stook.InvalidError, match=f"^argument '{name}': ") as refused:
            stook.mount(**{"sources": tree, name: anything})
        assert "--" not in str(refused.value) and "Usage" not in str(refused.value)
    for name, anything in [("source", None), ("source", [tree]), ("listen", 5), ("port", "x"), ("token", b"x"), ("public", 1), ("connections", None)]:
        with pytest.raises(TypeError, match=f"^argument '{name}': "):
            stook.serve(**{"source": tree, name: anything})
    for name, anything in [("listen", "nowhere"), ("port", 1 << 16), ("port", -1), ("token", ""), ("token", "a\0"), ("connections", 0)]:
        with pytest.raises(stook.InvalidError, match=f"^argument '{name}': "):
            stook.serve(**{"source": tree, name: anything})
    both: list[tuple[dict[str, Any], str]] = [
        ({"follow": True, "at": "2026-01-01"}, "'follow' cannot be used with 'at'"),
        ({"follow": True, "routes": "x"}, "'follow' cannot be used with 'routes'"),
        ({"whole_file": True}, "'cache' and 'whole_file' are for what is fetched"),
    ]
    for options, message in both:
        with pytest.raises(stook.InvalidError, match=message) as refused:
            stook.mount(tree, **options)
        assert "--" not in str(refused.value)
    with pytest.raises(FileNotFoundError, match="missing"):
        stook.serve("missing")


def test_a_port_may_be_that_of_the_address(tree: Path) -> None:
    with stook.serve(tree, listen="127.0.0.1:0") as server, stook.serve(tree, listen="::1") as other:
        port = server.port
        assert "[::1]" in other.url and other.port > 0
    with stook.serve(tree, listen=f"localhost:{port}") as server:
        assert server.port == port and urllib.request.urlopen(server.url + "notes/1").read() == b"note 1"
    with pytest.raises(stook.InvalidError, match="'port' is the port of 'listen', which has one"):
        stook.serve(tree, listen="127.0.0.1:0", port=port)


def test_a_token_is_that_of_the_argument_and_no_other(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOOK_SERVE_TOKEN", "of the environment")
    with stook.serve(tree) as server:
        assert urllib.request.urlopen(server.url + "notes/1").read() == b"note 1"
    with pytest.raises(stook.InvalidError, match="'listen' needs 'token', or 'public'"):
        stook.serve(tree, listen="0.0.0.0")
    with pytest.raises(stook.InvalidError, match="'public' is for serving without a token"):
        stook.serve(tree, listen="0.0.0.0", token="secret", public=True)


def test_a_time_is_what_a_pack_takes(tree: Path) -> None:
    stook.pack_tree(tree, "tree.stook")
    then = datetime.now(timezone.utc)
    time.sleep(1.1)
    (tree / "notes/0").write_text("changed")
    stook.pack_tree(tree, "tree.stook")
    ns = int(then.timestamp()) * 10**9 + then.microsecond * 1000
    for at in (then, then.replace(tzinfo=None).isoformat() + "Z", then.timestamp(), ns):
        with stook.mount("tree.stook", at=at) as mounted, stook.Pack("tree.stook", at=at) as pack:
            assert (mounted.path / "notes/0").read_bytes() == pack["notes/0"] == b"note 0"


def test_programs_in_it_and_space_for_the_cache_can_be_denied(tree: Path) -> None:
    (tree / "program").write_text("#!/bin/sh\nexit 7\n")
    (tree / "program").chmod(0o755)
    with stook.mount(tree) as mounted:
        assert subprocess.run([mounted.path / "program"]).returncode == 7
    with stook.mount(tree, no_exec=True) as mounted, pytest.raises(PermissionError):
        subprocess.run([mounted.path / "program"])
    # What is given to the command-line tool; where nothing is fetched it refuses that.
    cache = stook.DiskCache("cache", 5 << 20)
    with pytest.raises(stook.InvalidError, match="'cache' and 'whole_file' are for what is fetched"):
        stook.mount(tree, cache=cache)
