from __future__ import annotations

from pathlib import Path
from typing import Callable, Iterator

import pytest

import stook


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """A pack of three records, one of them in a group."""
    path = tmp_path / "filled.stook"
    with stook.Pack(path, "x") as pack:
        pack["a"] = b"alpha"
        pack[7] = b"seven"
        attributes: dict[str, stook.Attribute] = {"label": "x", "number": -3}
        pack.put("g", b"in a group", attributes=attributes, group="second")
    return path


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield


@pytest.fixture
def damage() -> Callable[[Path, bytes], None]:
    """Flips a bit of the first place of some bytes in the segments of a pack."""

    def flip(pack: Path, content: bytes) -> None:
        for segment in sorted(pack.glob("*.seg*")) or sorted(pack.iterdir()):
            data = bytearray(segment.read_bytes())
            at = data.find(content)
            if at >= 0:
                data[at] ^= 1
                segment.write_bytes(data)
                return
        raise AssertionError(f"{content!r} is in no file of {pack}")

    return flip
