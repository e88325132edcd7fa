"""`stook://`: keys that are no paths, paths that could be read in two ways, and what is said of
damage.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

import fsspec
import pytest

import stook
from stook.fsspec import StookFileSystem

#: Each would lead elsewhere, or has the path of another key.
NO_PATHS = ["../../escaped", "..", ".", "", "/absolute", "ok/../up", "ok/./here", "ok//empty", "slash/", "./here", "ok/.."]
#: These only look like them.
PATHS = ["...", ".hidden", "a..b", "ok/...", "ok/.x", "ok/a", "ok/new\n", "ok/..x"]


@pytest.fixture
def fs() -> StookFileSystem:
    return StookFileSystem(skip_instance_cache=True)


@pytest.fixture(params=["evil.stook", "evil"])
def evil(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    path = tmp_path / request.param
    with stook.Pack(path, "x") as pack:
        pack.update({key: key.encode() for key in [*NO_PATHS, *PATHS]})
    return str(path)


def test_a_pack_writes_nothing_outside_of_where_it_is_copied_to(fs: StookFileSystem, evil: str, tmp_path: Path) -> None:
    for options in ({}, {"maxdepth": 5}):
        work = tmp_path / f"work-{len(options)}"
        out = work / "deep/deeper/out"
        fs.get(evil, str(out), recursive=True, **options)
        written = {str(path.relative_to(work)) for path in work.rglob("*") if path.is_file()}
        assert written == {f"deep/deeper/out/{key}" for key in PATHS}
        assert (out / "ok/a").read_bytes() == b"ok/a"
    with pytest.raises(FileNotFoundError):
        fs.get(f"{evil}//..", str(tmp_path / "work/out"), recursive=True)


def test_keys_that_are_no_paths_are_not_listed(fs: StookFileSystem, evil: str) -> None:
    wanted = sorted(f"{evil}//{key}" for key in PATHS)
    assert fs.find(evil) == wanted == sorted(fs.find(evil, detail=True)) == fs.find(evil, maxdepth=9)
    walked = [f"{where}{'/' if where != evil else '//'}{name}" for where, _, names in fs.walk(evil) for name in names]
    assert sorted(walked) == wanted
    assert {*fs.glob(f"{evil}//**")} - {evil} == {*wanted, f"{evil}//ok", f"{evil}//slash"}
    top = fs.ls(evil, detail=False)
    assert top == [f"{evil}//{name}" for name in ("...", ".hidden", "a..b", "ok", "slash")]
    assert fs.ls(f"{evil}//ok", detail=False) == [f"{evil}//ok/{name}" for name in ("...", "..x", ".x", "a", "new\n")]
    assert fs.ls(f"{evil}//slash") == [] == fs.find(f"{evil}//slash")
    assert fs.du(evil) == sum(map(len, PATHS))
    assert len(fs.cat(evil, recursive=True)) == len(PATHS)
    if evil.endswith(".stook"):
        assert sorted(fsspec.get_mapper(f"stook://{evil}")) == sorted(PATHS)


def test_keys_that_are_no_paths_are_not_found(fs: StookFileSystem, evil: str) -> None:
    with stook.Pack(evil) as pack:
        assert all(pack[key] == key.encode() for key in NO_PATHS)
    for key in ("../../escaped", "..", "ok/..", "ok/../up", ".", "ok/./here", "ok//empty", "../.."):
        path = f"{evil}//{key}"
        assert not fs.exists(path) and not fs.isdir(path) and not fs.isfile(path)
        assert fs.find(path) == [] == fs.find(path, maxdepth=1) == fs.glob(path) == list(fs.walk(path))
        calls: list[Callable[[str], Any]] = [fs.info, fs.ls, fs.cat, fs.cat_file, fs.open, lambda one: fs.cat([one])]
        for call in calls:
            with pytest.raises(FileNotFoundError):
                call(path)
    with pytest.raises(IsADirectoryError):
        fs.cat_file(evil)


def _check_all_open(fs: StookFileSystem, path: str, wanted: dict[str, bytes]) -> None:
    found = fs.find(path, detail=True)
    assert [name.rpartition(f"{path}//")[2] for name in found] == sorted(wanted)
    for name, info in found.items():
        value = wanted[name.rpartition(f"{path}//")[2]]
        assert fs.cat(name) == value == fs.cat([name])[name] and info == fs.info(name) and info["size"] == len(value)
        assert info in fs.ls(fs._parent(name)) and fs.isfile(name)
        with fsspec.open(f"stook://{name}") as file:
            assert file.read() == value


@pytest.mark.parametrize(
    "name", ["nosuffix", "a.stook", "dir/nosuffix", "dir//nosuffix", "dir//a.stook", "d.stook/nosuffix", "d.stook/a.stook"]
)
@pytest.mark.parametrize("root", ["absolute", "two slashes", "relative"])
def test_everything_that_is_found_can_be_opened(
    fs: StookFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, root: str
) -> None:
    monkeypatch.chdir(tmp_path)
    wanted = {key: key.encode() for key in ("x.stook/y", "plain", "d/x.stook", "x.stook/y.stook/z", "7")}
    (tmp_path / name).parent.mkdir(exist_ok=True)
    with stook.Pack(name, "x") as pack:
        pack.update(wanted)
    path = {"absolute": f"{tmp_path}/", "two slashes": f"/{tmp_path}/", "relative": ""}[root] + name
    if name in ("d.stook/nosuffix", "dir//nosuffix"):
        # Nothing shows that this is no key in a pack `d.stook`, or `dir`.
        assert fs.cat(f"{path}//x.stook/y") == b"x.stook/y"
        return
    _check_all_open(fs, path, wanted)
    assert fs.find(f"{path}//x.stook") == [f"{path}//x.stook/y", f"{path}//x.stook/y.stook/z"]
    assert fs.glob(f"{path}//*.stook/y") == [f"{path}//x.stook/y"]
    if path.endswith(".stook"):
        assert fs.cat(f"{path}/x.stook/y") == b"x.stook/y"


def test_what_is_not_there_is_named_as_it_looks(fs: StookFileSystem, tmp_path: Path) -> None:
    for path, pack in [("none//x.stook/y", "none//x.stook"), ("none.stook//x.stook/y", "none.stook"), ("none//x", "none")]:
        assert not fs.exists(f"{tmp_path}/{path}")
        with pytest.raises(FileNotFoundError, match=f"{tmp_path}/{pack}(:|/|'|$)"):
            fs.info(f"{tmp_path}/{path}")


def test_a_text_and_an_id_of_the_same_digits_are_one_path(fs: StookFileSystem, tmp_path: Path) -> None:
    path = str(tmp_path / "both.stook")
    with stook.Pack(path, "x") as pack:
        for number in range(12):
            pack[number] = b"id %d" % number
        pack["7"] = b"the text"
        pack["8/below"] = b"below"
        pack["1" * 5000] = b"many digits"
        # What is a directory, or a link, has the path too.
        pack.put("9", b"", attributes={"kind": "directory"})
        pack.put("10", b"7", attributes={"kind": "symlink"})
    wanted = {str(number): b"id %d" % number for number in (*range(7), 8, 11)}
    wanted.update({"7": b"the text", "8/below": b"below", "1" * 5000: b"many digits"})
    found = fs.find(path, detail=True)
    assert {name.partition("//")[2]: info["size"] for name, info in found.items()} == {
        key: len(value) for key, value in wanted.items()
    }
    assert fs.find(path) == list(found)
    assert {name.partition("//")[2]: value for name, value in fs.cat(list(found)).items()} == wanted
    for name, info in found.items():
        assert fs.info(name) == info and fs.cat(name) == wanted[name.partition("//")[2]]
    listed = {entry["name"].partition("//")[2]: (entry["type"], entry["size"]) for entry in fs.ls(path)}
    assert listed["7"] == ("file", 8) and listed["9"] == ("directory", 0) and listed["10"] == ("link", 1)
    assert listed["8"] == ("directory", 0), "as with a text of which others begin"
    assert fs.info(f"{path}//9")["type"] == "directory" and fs.info(f"{path}//10")["type"] == "link"


@pytest.fixture
def damaged(tmp_path: Path) -> str:
    path = tmp_path / "damaged"
    with stook.Pack(path, "x") as pack:
        pack["dir/a"] = b"1"
    next(path.glob("segment-*")).unlink()
    return str(path)


@pytest.mark.filterwarnings("ignore::stook.DamageWarning")
def test_damage_is_not_taken_for_nothing(fs: StookFileSystem, damaged: str) -> None:
    path = f"{damaged}//dir/a"
    calls: list[Callable[[str], Any]] = [fs.info, fs.exists, fs.lexists, fs.isfile, fs.isdir, fs.glob, fs.find]
    for call in calls:
        with pytest.raises(stook.DamagedError):
            call(path)
    with pytest.raises(stook.DamagedError):
        fs.find(path, maxdepth=1)
    for manifest in Path(damaged).glob("manifest-*"):
        manifest.unlink()
    (Path(damaged) / "segment-0000000000000001").touch()
    fs.invalidate_cache()
    for call in calls:
        with pytest.raises(stook.NotAPackError, match="segments, but no manifest"):
            call(path)


def test_wrong_options_are_not_taken_for_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "data.stook")
    with stook.Pack(path, "x") as pack:
        pack["a"] = b"1"
    for at, error in [("nonsense", stook.InvalidError), ("2001-01-01", stook.NoSuchStateError)]:
        fs = StookFileSystem(skip_instance_cache=True, at=at)
        for call in (fs.exists, fs.isfile, fs.isdir, fs.info):
            with pytest.raises(error):
                call(f"{path}//a")


def test_what_is_not_there_does_not_exist(fs: StookFileSystem, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1")
    (tmp_path / "plain.stook").mkdir()
    for name in ("none", "none//a", "file", "file//a", "file/x.stook//a", "plain.stook", "plain.stook//a", "plain.stook/a"):
        path = f"{tmp_path}/{name}"
        assert not fs.exists(path) and not fs.isfile(path) and not fs.isdir(path) and not fs.lexists(path)
