"""The package itself: version, command-line tool, documentation, measurements."""

from __future__ import annotations

import doctest
import html
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

import stook
import stubs

ROOT = Path(__file__).parents[3]
#: All that the package gives; modules of it are imported by name.
PUBLIC = ["__version__", *(name for name, thing in vars(stook).items() if name[0] != "_" and not inspect.ismodule(thing))]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-W", "ignore", *arguments], capture_output=True, text=True)


def test_the_version_is_that_of_the_workspace() -> None:
    manifest = (ROOT / "Cargo.toml").read_text()
    found = re.search(r'^version = "(.*)"', manifest, re.MULTILINE)
    assert found is not None and stook.__version__ == found[1]


def test_the_wheel_carries_the_command_line_tool(filled: Path) -> None:
    reported = run("-m", "stook", "--version")
    assert reported.stdout == f"stook {stook.__version__}\n"
    listed = run("-m", "stook", "ls", str(filled), "--json")
    assert listed.returncode == 0 and len(listed.stdout.splitlines()) >= 3
    assert run("-m", "stook", "ls", "none").returncode == 1


def test_a_debug_build_warns_on_import() -> None:
    reported = subprocess.run([sys.executable, "-c", "import stook"], capture_output=True, text=True)
    assert "stook is a debug build" in reported.stderr
    assert reported.returncode == 0


def test_everything_public_is_there_and_documented() -> None:
    assert {"Pack", "Archive", "SparseFile", "open", "InvalidError", "__version__"} <= set(PUBLIC)
    for name in PUBLIC:
        thing = getattr(stook, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert inspect.getdoc(thing), f"{name} has no documentation"
    assert stubs.differences() == []


def public_docs() -> list[tuple[str, str]]:
    found = []
    for name in PUBLIC:
        thing = getattr(stook, name)
        found.append((name, getattr(thing, "__doc__", None) or ""))
        if inspect.isclass(thing):
            found += [(f"{name}.{key}", getattr(value, "__doc__", None) or "") for key, value in vars(thing).items()]
    found += [(f"stitch.{name}", getattr(stook.stitch, name).__doc__) for name in stook.stitch.__all__]
    return [(name, doc) for name, doc in found if ">>>" in doc]


@pytest.mark.parametrize(("name", "doc"), public_docs())
def test_examples_in_the_documentation_run(name: str, doc: str) -> None:
    test = doctest.DocTestParser().get_doctest(inspect.cleandoc(doc), {}, name, None, None)
    reported: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(test, out=reported.append)
    assert not runner.failures, "".join(reported)


def python_blocks(path: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)


def test_the_readme_runs() -> None:
    from PIL import Image

    for name in ("cat/1.jpg", "dog/2.jpg"):
        path = Path("images") / name
        path.parent.mkdir(parents=True)
        Image.new("RGB", (300, 200)).save(path)
    blocks = python_blocks(ROOT / "README.md") + python_blocks(ROOT / "crates/stook-python/README.md")
    needs_more = re.findall(r"^```py\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 2 and len(needs_more) == 1
    blocks += needs_more
    for block in blocks:
        reported = run("-c", block)
        assert reported.returncode == 0, f"{block}\n{reported.stderr}"


def test_the_guide_runs_as_one_session() -> None:
    blocks = python_blocks(ROOT / "docs/guide/python.md")
    assert len(blocks) >= 8
    reported = run("-c", "\n".join(blocks))
    assert reported.returncode == 0, reported.stderr


def test_bench_gives_typed_cells(tmp_path: Path) -> None:
    result = stook.bench(
        tmp_path, rw=["randread"], block_size=["4K", 16384], depth=2, seconds=0.2, ramp_seconds=0.0, file_size="16M"
    )
    assert [(cell.rw, cell.block_size, cell.depth) for cell in result.cells] == [
        ("randread", 4096, 2),
        ("randread", 16384, 2),
    ]
    for cell in result.cells:
        assert cell.total.iops > 0 and cell.write is None and cell.read is not None
        assert cell.total.bandwidth_bytes_per_s == pytest.approx(cell.total.iops * cell.block_size)
        assert cell.total.latency_mean_ns and cell.total.latency_p99_ns
        # Measured for too short a time to be believed, whatever else is found.
        assert cell.state in ("unverified", "invalid") and cell.reasons, cell
        assert f"state='{cell.state}'" in repr(cell)
    page = result._repr_html_()
    assert page.count("<tr>") == 3 and "4,096" in page
    for cell in result.cells:
        assert f"<td>{cell.state}: {html.escape('; '.join(cell.reasons))}</td>" in page
    assert result.document["schema"] == "stook.bench/1"
    wrong: Any
    for wrong in ({"block_size": "x"}, {"rw": "x"}, {"seconds": -1}, {"file_size": "x"}, {"depth": -1}):
        with pytest.raises(stook.InvalidError) as refused:
            stook.bench(tmp_path, **wrong)
        assert next(iter(wrong)) in str(refused.value) and "--" not in str(refused.value), str(refused.value)
    with pytest.raises(ValueError, match="is no workload"):
        stook.bench(tmp_path, rw="sideways")  # type: ignore[arg-type]
    with pytest.raises(stook.MeasurementError, match="No such file"):
        stook.bench(tmp_path / "none" / "file")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"seconds": -1}, "argument 'seconds': 0 s or more is wanted, not -1 s"),
        ({"ramp_seconds": -0.5}, "argument 'ramp_seconds': 0 s or more is wanted, not -0.5 s"),
        ({"seconds": float("nan")}, "argument 'seconds': 0 s or more is wanted, not nan s"),
        ({"seconds": "10s"}, "argument 'seconds': a number of seconds is wanted, not '10s'"),
        ({"ramp_seconds": None}, "argument 'ramp_seconds': a number of seconds is wanted, not None"),
    ],
)
def test_seconds_that_make_no_sense_are_shown_as_they_were_given(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(stook.InvalidError) as refused:
        stook.bench(".", **wrong)
    assert str(refused.value) == message


def test_study_gives_a_page(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("# a trace; file size 100000\n0,10\n10,10\n90000,100\n")
    result = stook.study("sparse-file", options=["--trace", str(trace), "--latency", "1ms"])
    assert result.document["schema"] == "stook.study/1"
    assert result.document["replay"]["bytes_asked"] == 120
    assert "<iframe" in result._repr_html_()
    with pytest.raises(ValueError, match="'many-small-files', 'ssd-profile', 'bulk-copy', 'solid-reads', 'sparse-file' is wanted, not 'nothing'"):
        stook.study("nothing")  # type: ignore[arg-type]
    with pytest.raises(stook.InvalidError, match="unexpected argument .--nothing"):
        stook.study("sparse-file", options=["--nothing"])


def test_the_study_of_sparse_files_makes_its_calls_with_this_package() -> None:
    script = (ROOT / "crates/stook-study/src/sparse_file/python.py").read_text()
    blocks = {"count": 64, "stride": 9, "len": 8}
    plan = {"before": None, "call": "write", "calls": blocks, "repeats": 1, "threads": None}
    questions: list[dict[str, Any]] = [
        {"plan": plan, "check": True},
        {"plan": {**plan, "before": blocks, "call": "read"}, "check": True},
        {"plan": {**plan, "before": blocks, "call": "need", "repeats": 3}, "check": True},
        *({"plan": {**plan, "threads": {"count": 4, "share": share}}, "check": True} for share in ("all", "part", "own")),
        {"hold": blocks},
    ]
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, "stook"],
        input="".join(json.dumps(question) + "\n" for question in questions),
        capture_output=True, text=True,
    )
    assert ended.returncode == 0, ended.stderr
    greeting, *answers = map(json.loads, ended.stdout.splitlines())
    assert greeting["version"] == stook.__version__
    *times, memory = answers
    assert len(times) == 6 and all(time["took_s"] > 0 for time in times)
    assert [time["idle_s"] is None for time in times] == [False, False, False, True, True, True]
    assert memory["memory_bytes"] >= 64 * 8


def test_the_studies_are_those_of_the_command_line() -> None:
    shown = subprocess.run([sys.executable, "-m", "stook", "study", "--help"], capture_output=True, text=True, check=True)
    commands = shown.stdout.split("Commands:")[1].split("Options:")[0]
    found = re.findall(r"^  ([a-z-]+)", commands, re.MULTILINE)
    assert set(found) - {"help", "all"} == set(get_args(stook.StudyName))
