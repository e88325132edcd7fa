"""``**options``: typed, and refused with the name of the one that was probably meant."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

import pytest

import stook
import stook.fsspec
from stook import _options
from stook._typing import FileSystemOptions, PackFileSystemOptions, SparseFileOptions


CALLS: dict[str, Callable[..., object]] = {
    "open": lambda **options: stook.open("file", **options),
    "record": lambda **options: stook.open("filled.stook//a", **options),
    "file": lambda **options: stook.SparseFile("file", **options),
    "fetch": lambda **options: stook.SparseFile.from_fetch(lambda start, end: bytes(end - start), 5, **options),
    "cache": lambda **options: stook.fsspec.StookCacheFileSystem(
        "file", skip_instance_cache=True, sparse_options=options
    ),
    "buffer": lambda **options: stook.fsspec.StookCache(5, lambda start, end: bytes(end - start), 5, **options),
}


@pytest.fixture(autouse=True)
def things(filled: Path) -> None:
    Path("file").write_bytes(b"12345")


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("value", [5, None])
@pytest.mark.parametrize(
    ("name", "meant"),
    [("cahe", "cache"), ("Cache", "cache"), ("memory_byte", "memory_bytes"), ("setting", "settings"), ("maxgap", "max_gap")],
)
def test_a_typing_error_in_an_option_is_named(call: str, value: Any, name: str, meant: str) -> None:
    with pytest.raises(TypeError) as refused:
        CALLS[call](**{name: value})
    assert str(refused.value) == f"argument '{name}': this is not among the options; did you mean '{meant}'?"
    with pytest.raises(TypeError) as refused:
        CALLS[call](colour=value)
    assert str(refused.value) == "argument 'colour': this is not among the options"


def test_file_systems_name_what_was_meant() -> None:
    with pytest.raises(TypeError, match="argument 'acess': .* access and at; did you mean 'access'"):
        stook.fsspec.StookFileSystem(acess="direct")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="argument 'max_path': .* sparse_options=; did you mean 'max_paths'"):
        stook.fsspec.StookCacheFileSystem("file", max_path=5)  # type: ignore[call-arg]
    assert PackFileSystemOptions.__annotations__.keys() - FileSystemOptions.__annotations__.keys() == {"map", "access", "at"}


def test_the_options_that_are_typed_are_those_that_are_taken() -> None:
    given: dict[str, Any] = {
        "cache": "cache", "memory_bytes": 1 << 20, "max_gap": 0, "allowance": 0, "max_window": 0, "requests": 1,
        "max_request_bytes": 1, "tries": 1, "deadline": 1.0, "stall": 1.0, "whole_file": False, "settings": {}, "headers": {},
    }
    in_store = {"store": stook.SparseStore(), "store_name": "x"}
    assert given.keys() | in_store.keys() == SparseFileOptions.__annotations__.keys()
    for options in (given, {**given, "memory_bytes": None, "cache": None, **in_store}):
        with stook.SparseFile("file", **options) as file:
            assert file.read(0, 5) == b"12345"


WRONG = """
import stook, stook.dask, stook.fsspec
stook.open("file", cahe=5)
stook.open("file", cache=5)
stook.SparseFile("file", cahe=5)
stook.fsspec.StookFileSystem(mpa=True)
stook.open("file", cache="folder", memory_bytes=5)
stook.dask.read_pack("pack", colums=["key"])
stook.dask.read_pack("pack", columns=["key"], where={"label": "cat"}, access="direct", on_damage="skip")
"""


def test_a_typing_error_in_an_option_fails_for_the_type_checker(tmp_path: Path) -> None:
    (program := tmp_path / "program.py").write_text(WRONG)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(tmp_path / "mypy")]
    configured = [*command, "--follow-imports", "silent", "--ignore-missing-imports", str(program)]
    checked = subprocess.run(configured, capture_output=True, text=True, cwd=tmp_path)
    lines = [line.split(": ", 1) for line in checked.stdout.splitlines() if ": error: " in line]
    assert [where.rpartition(":")[2] for where, _ in lines] == ["3", "4", "5", "6", "8"], checked.stdout + checked.stderr
    for (_, message), name in zip(lines, ["cahe", "cache", "cahe", "mpa", "colums"]):
        assert f'"{name}"' in message, message


def test_of_several_the_nearest_is_meant() -> None:
    assert str(_options.unknown("x", ["cache"])) == "argument 'x': this is not among the options"
    assert str(_options.unknown("stal", ["tries", "stall", "settings"])).endswith("did you mean 'stall'?")
