"""`progress=`: the same everywhere, a callable, ``True`` for a bar, or nothing."""

from __future__ import annotations

import gc
import inspect
import io
import re
import sys
import tarfile
import threading
import time
from pathlib import Path
from typing import Any, Callable

import pyarrow
import pytest

import stook
from stook import _progress

#: Everything that runs long, called with a `progress`.
LONG: dict[str, Callable[[Any], object]] = {
    "pack_tree": lambda progress: stook.pack_tree("tree", "t.stook", progress=progress),
    "unpack": lambda progress: stook.unpack("filled.stook", "out", overwrite="always", progress=progress),
    "copy": lambda progress: stook.copy("tree", "copied", progress=progress),
    "verify": lambda progress: stook.verify("tree", against="same", progress=progress),
    "repair of a copy": lambda progress: repaired(progress),
    "tar": lambda progress: stook.unpack("filled.stook", tar="out.tar", progress=progress),
    "index": lambda progress: stook.Archive(tar(), progress=progress),
    "load": lambda progress: stook.Archive(tar()).load(progress=progress),
    "whole check": lambda progress: stook.check("filled.stook", progress=progress),
    "repair": lambda progress: stook.repair("filled.stook", "new.stook", progress=progress),
    "check": lambda progress: stook.Pack("filled.stook").check(progress=progress),
    "compact": lambda progress: writing(lambda pack: compacted(pack, progress)),
    "update": lambda progress: writing(lambda pack: pack.update({"b": b"2"}, progress=progress)),
    "from_arrow": lambda progress: writing(
        lambda pack: pack.from_arrow(pyarrow.table({"key": ["b"], "value": [b"2"]}), progress=progress)
    ),
    "delete": lambda progress: writing(lambda pack: pack.delete_many(["a"], progress=progress)),
    "file put": lambda progress: writing(lambda pack: pack.put_file("b", "data", progress=progress)),
    "plan": lambda progress: writing(lambda pack: pack.compact(dry_run=True, progress=progress)),
    "get_many": lambda progress: stook.Pack("filled.stook").get_many(["a", "b"], progress=progress),
    "records": lambda progress: stook.Pack("filled.stook").records(["a", "b"], progress=progress),
    "numbers": lambda progress: stook.Pack("filled.stook").get_many_at([1, 0], progress=progress),
    "clear": lambda progress: writing(lambda pack: pack.clear(progress=progress)),
    "mapped": lambda progress: stook.Pack("filled.stook", map=True).get_many(["a"], progress=progress),
    "scan": lambda progress: list(stook.Pack("filled.stook").scan(progress=progress)),
    "items": lambda progress: list(stook.Pack("filled.stook").items(progress=progress)),
    "values": lambda progress: list(stook.Pack("filled.stook").values(progress=progress)),
    "member": lambda progress: stook.Archive(tar()).get("file", progress=progress),
    "members": lambda progress: stook.Archive(tar()).get_many(["file", "b"], progress=progress),
    "ranges": lambda progress: stook.Archive(tar()).read_many("file", [(0, 2)], progress=progress),
    "files": lambda progress: list(stook.Archive(tar()).items(progress=progress)),
    "prefetch": lambda progress: stook.SparseFile("data").prefetch([(0, 5)], progress=progress),
    "fetch": lambda progress: given().prefetch([(0, 5)], progress=progress),
    "file": lambda progress: stook.open("data").prefetch([(0, 5)], progress=progress),
    "stitch": lambda progress: stook.stitch.tar("tree", progress=progress),
    "stitched": lambda progress: stook.stitch.tar("tree").write("out.tar", progress=progress),
    "layout": lambda progress: stook.stitch.tar("tree").save("out", progress=progress),
    "shards": lambda progress: stook.stitch.wds("tree").write("out", force=True, progress=progress),
}


def repaired(progress: Any) -> None:
    stook.copy("tree", "listed", lists="sha256", overwrite="always")
    Path("listed/file").write_bytes(b"bile")
    stook.repair_copy("tree", "listed", progress=progress)


def tar() -> str:
    """A tar that was not opened yet."""
    with tarfile.open("new.tar", "w") as archive:
        archive.add("tree/file", "file")
    Path("new.tar.stook-index").unlink(missing_ok=True)
    return "new.tar"


def writing(change: Callable[[stook.Pack], object]) -> None:
    with stook.Pack("filled.stook", "r+") as pack:
        change(pack)


def compacted(pack: stook.Pack, progress: Any) -> None:
    del pack["a"]
    pack.compact(progress=progress)


def given() -> stook.SparseFile:
    return stook.SparseFile.from_fetch(lambda start, end: bytes(end - start), 1000)


@pytest.fixture(autouse=True)
def things(filled: Path) -> None:
    for tree in ("tree", "same"):
        Path(tree).mkdir()
        (Path(tree) / "file").write_bytes(b"file")
    Path("data").write_bytes(bytes(10))


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("progress", [None, False, True])
def test_progress_may_be_a_bar_or_nothing(name: str, progress: Any, capfd: pytest.CaptureFixture[str]) -> None:
    LONG[name](progress)
    assert progress or "it/s" not in capfd.readouterr().err


@pytest.mark.parametrize("name", LONG)
def test_progress_that_is_no_callable_is_refused_before_anything_is_done(name: str) -> None:
    with pytest.raises(stook.InvalidError, match="progress is a callable, True or False"):
        LONG[name](5)
    for new in ("t.stook", "out", "out.tar", "new.stook", "copied"):
        assert not Path(new).exists()


@pytest.mark.parametrize("name", LONG)
def test_progress_is_called_at_the_end_at_the_latest(name: str) -> None:
    calls: list[tuple[float, ...]] = []
    LONG[name](lambda *numbers: calls.append(numbers))
    assert calls and len({len(numbers) for numbers in calls}) == 1
    first = [numbers[0] for numbers in calls]
    assert first == sorted(first)


def test_records_and_bytes_are_counted_to_the_last() -> None:
    calls: list[tuple[int, ...]] = []
    pack = stook.Pack("filled.stook")

    def report(*numbers: int) -> None:
        calls.append(numbers)

    runs: list[Callable[[], list[Any]]] = [
        lambda: list(pack.scan(progress=report)),
        lambda: list(pack.items(progress=report)),
        lambda: pack.get_many([7, "a", "g"], progress=report),
    ]
    for run in runs:
        assert len(run()) == 3
        assert calls[-1] == (3, 20)
        calls.clear()


def test_a_repair_ends_at_all_that_there_is() -> None:
    calls: list[tuple[int, int]] = []
    stook.repair("filled.stook", "new.stook", progress=lambda done, total: calls.append((done, total)))
    assert calls[-1][0] == calls[-1][1] > 0


@pytest.mark.parametrize("name", LONG)
def test_what_progress_raises_is_raised(name: str) -> None:
    def refuse(*_: float) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        LONG[name](refuse)


@pytest.mark.parametrize("is_main", [True, False])
def test_a_prefetch_says_how_much_of_what_was_missing_came(is_main: bool) -> None:
    may_end = threading.Event()

    def fetch(start: int, end: int) -> bytes:
        if start >= 1 << 20:
            may_end.wait(60)
        return bytes(end - start)

    calls: list[tuple[int, int]] = []

    def report(done: int, total: int) -> None:
        calls.append((done, total))
        if done >= 1000:
            may_end.set()

    def run() -> None:
        file.prefetch([(0, 500)])
        # Twice the same counts once.
        file.prefetch([(0, 1500), (200, 1500), (1 << 20, (1 << 20) + 500)], progress=report)

    file = stook.SparseFile.from_fetch(fetch, 2 << 20, max_gap=0, allowance=0)
    if is_main:
        run()
    else:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    assert (1000, 1500) in calls and calls[-1] == (1500, 1500)


def test_a_prefetch_whose_callback_raises_goes_on_without_it() -> None:
    def fetch(start: int, end: int) -> bytes:
        may_end.wait(60)
        return bytes(end - start)

    def refuse(*_: int) -> None:
        raise RuntimeError("enough")

    may_end = threading.Event()
    file = stook.SparseFile.from_fetch(fetch, 1000)
    with pytest.raises(RuntimeError, match="enough"):
        file.prefetch([(0, 1000)], progress=refuse)
    may_end.set()
    assert file.read(0, 1000) == bytes(1000)


def test_a_measurement_reports_its_seconds_and_ends_when_the_callback_raises(tmp_path: Path) -> None:
    calls: list[float] = []
    arguments: dict[str, Any] = {"seconds": 0.6, "ramp_seconds": 0, "file_size": "1M"}
    stook.bench(tmp_path, **arguments, progress=calls.append)
    assert calls and calls == sorted(calls)

    def refuse(_: float) -> None:
        raise RuntimeError("enough")

    began = time.monotonic()
    with pytest.raises(RuntimeError, match="enough"):
        stook.bench(tmp_path, **{**arguments, "seconds": 600}, progress=refuse)
    assert time.monotonic() - began < 60
    wrong: Any = 5
    with pytest.raises(stook.InvalidError, match="progress is a callable"):
        stook.bench(tmp_path, progress=wrong)
    with pytest.raises(stook.InvalidError, match="progress is a callable"):
        stook.study("sparse-file", progress=wrong)
    with pytest.raises(stook.InvalidError, match="progress is a callable"):
        stook.advise(tmp_path, progress=wrong)


def test_advice_reports_its_seconds_too(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    calls: list[float] = []
    stook.advise(tmp_path, keep_caches=True, options=["--rounds=1"], progress=calls.append)
    assert calls == sorted(calls)


def test_a_bar_shows_measure_total_and_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    report = _progress.callback(True, "entries", "bytes")
    assert report is not None
    report(3, 2000)
    # What was taken back does not move it.
    report(2, 1000)
    report(4, 3000)
    checked = _progress.callback(True, "bytes", "total")
    assert checked is not None
    checked(500, 1000)
    # Bars end with what they are of.
    del report, checked
    shown = capsys.readouterr().err
    assert "3.00kB" in shown and "4 entries" in shown and "500/1.00k" in shown, shown


def test_all_that_takes_a_callable_is_tried_here() -> None:
    """Whatever has an argument ``progress`` is among those of this file."""
    found = set()
    for name in stook.__all__:
        thing = getattr(stook, name)
        parts = [(name, thing)]
        if inspect.isclass(thing):
            parts = [(f"{name}.{part}", getattr(thing, part)) for part in dir(thing) if not part.startswith("_")]
        found |= {where for where, what in parts if "progress" in signature_of(what)}
    source = inspect.getsource(sys.modules[__name__])
    missing = {where for where in found if not re.search(rf"\b{where.rpartition('.')[2]}\(", source)}
    assert found > {"bench", "copy", "Pack.clear", "Pack.records", "Archive.load", "VirtualFile.write"}
    assert not missing, missing


def signature_of(thing: object) -> str:
    try:
        return str(inspect.signature(thing))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def no_tqdm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("progress", [None, False])
def test_nothing_is_written_that_was_not_asked_for(
    name: str, progress: Any, no_tqdm: None, capfd: pytest.CaptureFixture[str]
) -> None:
    LONG[name](progress)
    gc.collect()
    assert capfd.readouterr() == ("", "")


def test_what_runs_long_is_described_in_plain_text(no_tqdm: None, capfd: pytest.CaptureFixture[str]) -> None:
    shown = {"scan": "20 B, 3 records, ", "copy": "4 B of 4 B, 100 %, 1 files, ", "clear": "3 records of 3 records, 100 %, "}
    for name, described in shown.items():
        LONG[name](True)
        gc.collect()
        out, errors = capfd.readouterr()
        assert out == "" and re.fullmatch(rf"{described}[0-9.]+ s\n", errors), (name, errors)


def test_text_has_measure_total_share_and_rate(
    no_tqdm: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    report = _progress.bar("files", "bytes", "total")
    assert capsys.readouterr().err == ""
    report(1, 500, 0)
    now += 9
    report(2, 1_000_000, 4_000_000)
    assert capsys.readouterr().err == "", "so soon nothing is said"
    now += 1
    report(1000, 2_000_000, 4_000_000)
    assert capsys.readouterr().err == "2.0 MB of 4.0 MB, 50 %, 1,000 files, 200.0 kB/s, 10.0 s\n"
    del report
    assert capsys.readouterr().err == "", "it was said"


def test_on_a_terminal_one_line_is_written_anew(no_tqdm: None, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    report = _progress.bar("records")
    now += 1
    report(1_000_000)
    report(1_000_001)
    now += 1
    report(5)
    del report
    assert terminal.getvalue() == "\r1,000,000 records, 1.0 s\r5 records, 2.0 s        \r5 records, 2.0 s\n"


def test_text_goes_nowhere_where_there_is_no_stderr(no_tqdm: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    report = _progress.bar("seconds")
    report(1.5)
    del report
    closed = io.StringIO()
    monkeypatch.setattr(sys, "stderr", closed)
    report = _progress.bar("seconds")
    report(1.5)
    closed.close()
    del report
