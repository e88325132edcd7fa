"""`stook://` over packed trees: fsspec's own tests of copying out, and what its listings and maps
say.
"""

from __future__ import annotations

import os
import posixpath
from pathlib import Path, PurePosixPath
from typing import Any, Callable

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.tests.abstract import AbstractFixtures, AbstractGetTests

import stook
from stook.fsspec import StookFileSystem

Join = Callable[..., str]


class PackedFixtures(AbstractFixtures):  # type: ignore[misc]
    """What those tests begin with, packed."""

    @pytest.fixture
    def fs(self) -> StookFileSystem:
        return StookFileSystem(skip_instance_cache=True)

    @pytest.fixture
    def fs_join(self) -> Join:
        return posixpath.join

    @pytest.fixture(params=["a directory of a pack", "the pack itself", "two slashes"])
    def packed(self, request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Any], str]:
        def pack(make: Any) -> str:
            folder = str(tmp_path / "in")
            make(LocalFileSystem(auto_mkdir=True), os.path.join, folder)
            if request.param == "the pack itself":
                stook.pack_tree(f"{folder}/source", tmp_path / "tree.stook")
                return str(tmp_path / "tree.stook")
            stook.pack_tree(folder, tmp_path / "tree.stook")
            return f"{tmp_path}/tree.stook{'//' if request.param == 'two slashes' else '/'}source"

        return pack

    @pytest.fixture
    def fs_path(self, fs: Any, tmp_path: Path) -> str:
        (tmp_path / "in/src").mkdir(parents=True)
        (tmp_path / "in/src/file").touch()
        stook.pack_tree(tmp_path / "in", tmp_path / "tree.stook")
        # The only test that asks for it would make that there.
        fs.mkdir = fs.touch = lambda path: None
        return str(tmp_path / "tree.stook")

    @pytest.fixture
    def fs_bulk_operations_scenario_0(self, packed: Callable[[Any], str]) -> str:
        return packed(self._bulk_operations_scenario_0)

    @pytest.fixture
    def fs_glob_edge_cases_files(self, packed: Callable[[Any], str]) -> str:
        return packed(self._glob_edge_cases_files)

    @pytest.fixture
    def fs_dir_and_file_with_same_name_prefix(self, packed: Callable[[Any], str]) -> str:
        return packed(self._dir_and_file_with_same_name_prefix)

    @pytest.fixture
    def fs_10_files_with_hashed_names(self, packed: Callable[[Any], str]) -> str:
        return packed(self._10_files_with_hashed_names)


class TestGet(PackedFixtures, AbstractGetTests):  # type: ignore[misc]
    """Copying out of packs."""


@pytest.fixture
def tree(tmp_path: Path) -> str:
    root = tmp_path / "tree"
    (root / "d/deep").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / "a.txt").write_bytes(b"aaa")
    (root / "d/b.txt").write_bytes(b"bb" * 5000)
    (root / "d/deep/c.txt").write_bytes(b"c")
    os.link(root / "a.txt", root / "z.txt")
    (root / "link").symlink_to("d/b.txt")
    stook.pack_tree(root, tmp_path / "tree.stook")
    return str(tmp_path / "tree.stook")


def test_listings_tell_kinds_and_sizes(tree: str) -> None:
    fs = StookFileSystem(skip_instance_cache=True)

    def reported(path: str) -> dict[str, tuple[str, int]]:
        return {entry["name"].removeprefix(tree): (entry["type"], entry["size"]) for entry in fs.ls(path)}

    assert reported(tree) == {
        "//a.txt": ("file", 3),
        "//d": ("directory", 0),
        "//empty": ("directory", 0),
        "//link": ("link", 7),
        "//z.txt": ("file", 3),
    }
    assert reported(f"{tree}//d") == {"//d/b.txt": ("file", 10_000), "//d/deep": ("directory", 0)}
    assert reported(f"{tree}//empty") == {} and reported(f"{tree}//z.txt") == {"//z.txt": ("file", 3)}
    assert fs.info(f"{tree}//link")["destination"] == "d/b.txt"
    for directory in (tree, f"{tree}//d", f"{tree}//empty", f"{tree}//d/deep"):
        assert fs.isdir(directory) and not fs.isfile(directory) and fs.exists(directory)
    assert fs.isfile(f"{tree}//z.txt") and fs.size(f"{tree}//d/b.txt") == 10_000 and fs.du(tree) == 10_007
    files = [f"{tree}//{name}" for name in ("a.txt", "d/b.txt", "d/deep/c.txt", "z.txt")]
    directories = [f"{tree}//{name}" for name in ("d", "d/deep", "empty")]
    assert fs.find(tree) == files == fs.glob(f"{tree}//**/*.txt")
    assert fs.find(tree, withdirs=True) == sorted([tree, *files, *directories])
    assert {name: info["size"] for name, info in fs.find(tree, detail=True).items()} == dict(zip(files, (3, 10_000, 1, 3)))
    assert fs.find(f"{tree}//d/b.txt") == files[1:2] and fs.find(f"{tree}//none") == []
    walked = list(fs.walk(tree))
    assert [path for path, _, _ in walked] == [tree, f"{tree}//d", f"{tree}//d/deep", f"{tree}//empty"]
    assert walked[0][1:] == (["d", "empty"], ["a.txt", "link", "z.txt"])
    assert fs.glob(f"{tree}//*") == [f"{tree}//{name}" for name in ("a.txt", "d", "empty", "z.txt")]


def test_names_are_read_as_files(tree: str) -> None:
    fs = StookFileSystem(skip_instance_cache=True)
    assert fs.cat(f"{tree}//z.txt") == b"aaa" == fs.cat_file(f"{tree}//z.txt") and fs.head(f"{tree}//d/b.txt", 3) == b"bbb"
    assert {name.removeprefix(tree): len(value) for name, value in fs.cat(tree, recursive=True).items()} == {
        "//a.txt": 3,
        "//d/b.txt": 10_000,
        "//d/deep/c.txt": 1,
        "//z.txt": 3,
    }
    with pytest.raises(IsADirectoryError):
        fs.cat_file(f"{tree}//d")
    for read in (fs.open, fs.cat_file):
        with pytest.raises(stook.InvalidError, match="is a link to d/b.txt"):
            read(f"{tree}//link")
    with pytest.raises(FileNotFoundError):
        fs.open(f"{tree}//none")


def test_a_tree_is_copied_out(tree: str, tmp_path: Path) -> None:
    fs = StookFileSystem(skip_instance_cache=True)
    fs.get(tree, str(tmp_path / "out"), recursive=True)
    out = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*")}
    assert out == {"a.txt", "d", "d/b.txt", "d/deep", "d/deep/c.txt", "empty", "z.txt"}
    assert (tmp_path / "out/z.txt").read_bytes() == b"aaa" and (tmp_path / "out/d/b.txt").stat().st_size == 10_000


def test_as_a_map(tree: str) -> None:
    for root in (f"stook://{tree}", f"stook://{tree}//", f"stook://{tree}/"):
        mapper = fsspec.get_mapper(root)
        assert {name: len(value) for name, value in mapper.items()} == {
            "a.txt": 3,
            "d/b.txt": 10_000,
            "d/deep/c.txt": 1,
            "z.txt": 3,
        }
        assert mapper["d/deep/c.txt"] == b"c" and "d/none" not in mapper and len(mapper) == 4
        assert mapper.getitems(["a.txt", "none"], on_error="omit") == {"a.txt": b"aaa"}
    below = fsspec.get_mapper(f"stook://{tree}//d")
    assert sorted(below) == ["b.txt", "deep/c.txt"] and below["b.txt"][:2] == b"bb"


def test_paths_that_were_normalised(tree: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fs = StookFileSystem(skip_instance_cache=True)
    wanted = f"{tree}//d/deep/c.txt"
    path: Any
    for path in (
        f"stook://{tree}//d/deep/c.txt",
        f"{tree}/d/deep/c.txt",
        str(PurePosixPath(f"stook://{tree}//d/deep/c.txt")),
        PurePosixPath(wanted),
    ):
        assert fs._strip_protocol(path) == wanted and fs.cat_file(path) == b"c"
    monkeypatch.chdir(Path(tree).parent)
    path = str(PurePosixPath("stook://tree.stook//d/deep/c.txt"))
    assert path == "stook:/tree.stook/d/deep/c.txt" and fs.cat_file(path) == b"c"
    with fsspec.open("stook://tree.stook/d/deep/c.txt") as file:
        assert file.read() == b"c"


class Counting:
    """A pack that notes which of its methods were called."""

    def __init__(self, pack: stook.Pack) -> None:
        self.pack, self.called = pack, set[str]()

    def __getattr__(self, name: str) -> Any:
        self.called.add(name)
        return getattr(self.pack, name)


def test_looking_reads_no_values(tree: str) -> None:
    fs = StookFileSystem(skip_instance_cache=True)
    counting = Counting(fs._open_pack(tree))
    fs._packs[tree] = counting  # type: ignore[assignment]
    for path in (tree, f"{tree}//d", f"{tree}//z.txt", f"{tree}//none"):
        fs.exists(path)
        fs.isdir(path)
        fs.isfile(path)
    fs.size(f"{tree}//d/b.txt")
    fs.ls(f"{tree}//d")
    fs.find(f"{tree}//d", detail=True)
    assert counting.called - {"closed"} == {"stats", "listdir", "keys"}
