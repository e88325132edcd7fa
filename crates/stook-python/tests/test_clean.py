"""The wheel alone, in a clean virtual environment, where there is no Rust."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from test_package import ROOT, python_blocks


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel and nothing else."""
    (wheel,) = (ROOT / "target" / "wheels" / "debug").glob("stook-*.whl")
    folder = tmp_path_factory.mktemp("clean") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "pip"), "install", "--quiet", "--no-index", str(wheel)]
    subprocess.run(pip, check=True, env={"PATH": "/nowhere"}, stderr=subprocess.PIPE)
    return folder


def run(clean: Path, *command: str) -> subprocess.CompletedProcess[str]:
    # Nothing of this environment reaches it.
    environment = {"PATH": str(clean / "bin"), "HOME": str(clean)}
    command = (str(clean / "bin" / command[0]), *command[1:])
    return subprocess.run(command, capture_output=True, text=True, env=environment)


@pytest.mark.parametrize("page", ["README.md", "crates/stook-python/README.md"])
def test_the_examples_of_the_readme_run(clean: Path, page: str) -> None:
    blocks = python_blocks(ROOT / page)
    assert blocks
    for block in blocks:
        reported = run(clean, "python", "-W", "ignore", "-c", block)
        assert reported.returncode == 0, f"{block}\n{reported.stderr}"


def test_the_command_line_tool_comes_with_it(clean: Path) -> None:
    version = run(clean, "python", "-W", "ignore", "-m", "stook", "--version")
    assert version.returncode == 0 and version.stdout.startswith("stook ")
    assert run(clean, "stook", "--version").stdout == version.stdout


def test_what_other_packages_are_for_says_so(clean: Path) -> None:
    reported = run(clean, "python", "-W", "ignore", "-c", "import stook.torch")
    assert reported.returncode == 1 and "torch" in reported.stderr
    reported = run(clean, "python", "-W", "ignore", "-c", "import stook.fsspec")
    assert reported.returncode == 1 and "fsspec" in reported.stderr
