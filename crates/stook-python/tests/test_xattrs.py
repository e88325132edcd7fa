"""Extended attributes: what ``os`` says of a tree, and of what comes out of a pack of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Union

import pytest

import stook

pytestmark = pytest.mark.skipif(not hasattr(os, "setxattr"), reason="this system has no extended attributes")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree of a file with a note, in a directory with a label."""
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "noted").write_bytes(b"x")
    os.setxattr(tree / "noted", "user.note", b"dear \0\xff")
    os.setxattr(tree, "user.label", b"of a directory")
    return tree


def xattrs_of(pack: Path, key: str) -> dict[str, Union[bytes, None]]:
    """The extended attributes of a record."""
    with stook.Pack(pack) as opened:
        stat = opened.stat(key)
        assert stat is not None
        return stat.xattrs


def test_round_trip(tree: Path, tmp_path: Path) -> None:
    """They are packed and unpacked, unless they are to be left out."""
    report = stook.pack_tree(tree, tmp_path / "p.stook")
    assert (report.without_xattrs, report.lost_xattrs) == (0, {})
    unpacked = stook.unpack(tmp_path / "p.stook", tmp_path / "out")
    assert unpacked.unset_xattrs == 0
    assert os.getxattr(tmp_path / "out" / "noted", "user.note") == b"dear \0\xff"
    assert os.getxattr(tmp_path / "out", "user.label") == b"of a directory"
    stook.unpack(tmp_path / "p.stook", tmp_path / "bare", xattrs=False)
    assert "user.note" not in os.listxattr(tmp_path / "bare" / "noted")
    stook.pack_tree(tree, tmp_path / "q.stook", xattrs=False)
    assert xattrs_of(tmp_path / "q.stook", "noted") == {}


def test_through_a_tar(tree: Path, tmp_path: Path) -> None:
    """They go into a tar and come out of it."""
    stook.pack_tree(tree, tmp_path / "p.stook")
    assert xattrs_of(tmp_path / "p.stook", "noted") == {"user.note": b"dear \0\xff"}
    stook.unpack(tmp_path / "p.stook", tar=tmp_path / "t.tar")
    stook.pack_tree(tmp_path / "t.tar", tmp_path / "q.stook")
    assert xattrs_of(tmp_path / "q.stook", "noted") == {"user.note": b"dear \0\xff"}
