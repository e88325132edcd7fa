"""Notebooks print what they say that they print."""

from __future__ import annotations

import ast
import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[3] / "docs" / "notebooks").glob("*.ipynb"))


def run(source: str, names: dict[str, Any]) -> tuple[str, Any]:
    """What a cell prints, and the value of its last line, as a notebook has it."""
    body, value = ast.parse(source).body, None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
        exec(compile(ast.Module(body, []), "cell", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    return printed.getvalue(), value


def recorded(cell: dict[str, Any]) -> tuple[str, str]:
    """The same, as it is in the notebook."""
    printed = [output["text"] for output in cell["outputs"] if output["output_type"] == "stream"]
    values = [output["data"]["text/plain"] for output in cell["outputs"] if output["output_type"] == "execute_result"]
    return "".join(sum(printed, [])), "".join(sum(values, []))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: str(path.name))
def test_a_notebook_is_as_it_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.chdir(tmp_path)
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    names: dict[str, Any] = {}
    for cell in cells:
        printed, value = run("".join(cell["source"]), names)
        assert (printed, "" if value is None else repr(value)) == recorded(cell), "".join(cell["source"])


def test_there_are_notebooks() -> None:
    assert [path.name for path in NOTEBOOKS] == ["images.ipynb"]
