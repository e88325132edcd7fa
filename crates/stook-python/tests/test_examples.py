"""The examples of remote files run as they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("remote_parquet.py", ["200,000 rows of ['column_3', 'column_7']", "\n  0 requests, 0.0 MB"]),
        ("remote_tiff.py", ["a region of (512, 512)"]),
    ],
)
def test_an_example_runs(name: str, reported: list[str]) -> None:
    command = [sys.executable, "-W", "ignore", str(EXAMPLES / name)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    for text in reported:
        assert text in run.stdout, run.stdout
