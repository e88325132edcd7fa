"""`stookcache::` and the rest of `fsspec`: what is inherited shows no secrets, and chains with
archives.
"""

from __future__ import annotations

import traceback
import zipfile
from pathlib import Path
from typing import Any

import fsspec
import pytest
from addressed import Addressed
from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

import stook
from stook.fsspec import StookCacheFileSystem

ADDRESSES = [
    "signed://me:word@host/none?sig=SECX&x=1",
    "signed://me:word@host/it's none?sig=SECX",
    'signed://host/"none" there?sig=SECX',
]


class Signed(Addressed, MemoryFileSystem):  # type: ignore[misc]
    """Has one file, and names whole addresses in its errors."""

    protocol = "signed"
    store: dict[str, Any] = {}
    pseudo_dirs = [""]
    #: Whether errors name the address themselves, or what they came of does.
    is_shown_by_cause = False

    def info(self, path: str, **_options: Any) -> dict[str, Any]:
        """What is known of the one that there is."""
        if "there.bin" in path:
            return {"name": path, "size": 5, "type": "file", "ETag": "abc"}
        if not self.is_shown_by_cause:
            raise FileNotFoundError(path)
        try:
            raise ValueError(f"404, url={path}")
        except ValueError as error:
            raise FileNotFoundError("not found") from error

    def ls(self, path: str, detail: bool = True, **_options: Any) -> Any:
        """There are no directories."""
        raise FileNotFoundError([path])

    def glob(self, path: str, maxdepth: Any = None, **_options: Any) -> list[str]:
        """A question mark is no pattern here."""
        return [path] if "there.bin" in path else []

    def cat_file(self, path: str, start: Any = None, end: Any = None, **_options: Any) -> bytes:
        """The one that there is."""
        return b"01234"[start:end]


@pytest.fixture
def signed() -> StookCacheFileSystem:
    fsspec.register_implementation("signed", Signed, clobber=True)
    return StookCacheFileSystem(fs=Signed(skip_instance_cache=True), skip_instance_cache=True)


def _reported(error: BaseException) -> str:
    """All that is shown of an error and of what it came of."""
    reported = "".join(traceback.format_exception(type(error), error, None))
    met: list[Any] = [error]
    for one in met:
        # They point at themselves nowhere here.
        met += [more for more in (one.__cause__, one.__context__) if more is not None]
        reported += f"{one} {one!r} {one.args!r}"
    return reported


@pytest.mark.parametrize("is_shown_by_cause", [False, True])
@pytest.mark.parametrize("address", ADDRESSES)
def test_nothing_that_is_inherited_shows_secrets(
    signed: StookCacheFileSystem, tmp_path: Path, address: str, is_shown_by_cause: bool
) -> None:
    signed.fs.is_shown_by_cause = is_shown_by_cause
    out = str(tmp_path / "out")
    calls: dict[str, tuple[Any, ...]] = {
        "cat": (address,),
        "cat_file": (address,),
        "get": (address, out),
        "get_file": (address, out),
        "download": (address, out),
        "expand_path": (address,),
        "open": (address,),
        "info": (address,),
        "size": (address,),
        "sizes": ([address],),
        "checksum": (address,),
        "head": (address,),
        "tail": (address,),
        "read_block": (address, 0, 10),
        "read_text": (address,),
        "read_bytes": (address,),
        "ls": (address,),
        "listdir": (address,),
        "stat": (address,),
    }
    for name, arguments in calls.items():
        with pytest.raises(FileNotFoundError) as raised:
            getattr(signed, name)(*arguments)
        reported = _reported(raised.value)
        assert "SECX" not in reported and "word" not in reported, (name, reported)
    lists: dict[str, tuple[Any, ...]] = {"cat": (), "get": (out,), "expand_path": ()}
    for name, more in lists.items():
        with pytest.raises(FileNotFoundError) as raised:
            getattr(signed, name)([address, address + "2"], *more)
        assert "SECX" not in _reported(raised.value), name
    for options in ({"recursive": True}, {"recursive": True, "maxdepth": 2}):
        with pytest.raises(FileNotFoundError) as raised:
            signed.get(rpath=address, lpath=out, **options)
        assert "SECX" not in _reported(raised.value)
    with pytest.raises(FileNotFoundError) as raised:
        list(signed.walk(address, on_error="raise"))
    assert "SECX" not in _reported(raised.value)
    assert signed.glob(address) == [] == signed.find(address) and signed.du(address) == 0
    (error,) = signed.cat_ranges([address], [0], [3])
    assert isinstance(error, FileNotFoundError) and "SECX" not in _reported(error)


def test_signed_addresses_are_read_by_what_is_inherited(signed: StookCacheFileSystem, tmp_path: Path) -> None:
    # A question mark would be a pattern to what is inherited; the other file system knows that it
    # is none.
    address = "signed://host/there.bin?sig=SECX"
    assert signed.cat(address) == b"01234" == signed.cat([address])[address]
    assert signed.expand_path(address) == [address] == signed.glob(address)
    assert signed.head(address, 2) == b"01" and signed.tail(address, 2) == b"34"
    signed.get([address], [str(tmp_path / "out")])
    assert (tmp_path / "out").read_bytes() == b"01234"


def test_patterns_are_those_of_the_other_file_system(tmp_path: Path) -> None:
    for name in ("a.bin", "b.bin", "c.txt"):
        (tmp_path / name).write_bytes(name.encode())
    fs = StookCacheFileSystem(fs=LocalFileSystem(), skip_instance_cache=True)
    wanted = [f"{tmp_path}/{name}.bin" for name in "ab"]
    for root in (f"{tmp_path}", f"stookcache::file://{tmp_path}"):
        assert fs.glob(f"{root}/?.bin") == wanted == list(fs.glob(f"{root}/*.bin", detail=True))
    assert fs.cat(f"{tmp_path}/*.bin") == {name: Path(name).read_bytes() for name in wanted}
    fs.get(f"{tmp_path}/*.bin", str(tmp_path / "out") + "/")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a.bin", "b.bin"]


def test_errors_without_secrets_stay_what_they_are(signed: StookCacheFileSystem) -> None:
    cause = ValueError("why")

    class Odd(Signed):
        def info(self, path: str, **_options: Any) -> dict[str, Any]:
            raise PermissionError("not for you") from cause

    fs = StookCacheFileSystem(fs=Odd(skip_instance_cache=True), skip_instance_cache=True)
    with pytest.raises(PermissionError, match="^not for you$") as raised:
        fs.info("signed://host/x")
    assert raised.value.__cause__ is cause
    with pytest.raises(stook.InvalidError):
        signed.cat_ranges(["x"], [0], [1], max_gap=5)


def test_archives_after_and_before_it(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("a", b"in an archive")
    # `fsspec` closes an archive as soon as nothing holds its file system, over every other one:
    # it is kept here.
    with fsspec.open(f"zip://a::stookcache::file://{tmp_path}/x.zip") as file:
        assert file.read() == b"in an archive"
    kept = fsspec.open(f"zip://a::stookcache::file://{tmp_path}/x.zip")
    assert kept.open().read() == b"in an archive"
    kept.close()
    assert fsspec.open(f"stookcache::zip://a::file://{tmp_path}/x.zip").open().read() == b"in an archive"
    fs, _ = fsspec.url_to_fs(f"zip://::stookcache::file://{tmp_path}/x.zip")
    assert fs.cat("a") == b"in an archive"


def test_what_writes_is_done_by_the_other_file_system_and_read_anew(tmp_path: Path) -> None:
    fs = StookCacheFileSystem(fs=LocalFileSystem(), skip_instance_cache=True)
    root = str(tmp_path / "d")
    fs.makedirs(f"{root}/deep")
    fs.mkdir(f"stookcache::file://{root}/empty")
    fs.pipe(f"{root}/a", b"1")
    assert fs.cat_file(f"{root}/a") == b"1"
    fs.pipe({f"{root}/a": b"22", f"{root}/b": b"3"})
    assert fs.cat_file(f"{root}/a") == b"22" and fs.cat_file(f"{root}/b") == b"3"
    fs.cp_file(f"{root}/a", f"{root}/c")
    fs.cp(f"{root}/a", f"{root}/e")
    fs.mv(f"{root}/b", f"{root}/deep/b")
    fs.touch(f"{root}/t")
    fs.put(f"{root}/e", f"{root}/deep/")
    assert sorted(fs.find(root)) == [f"{root}/{name}" for name in ("a", "c", "deep/b", "deep/e", "e", "t")]
    assert fs.modified(f"{root}/a") is not None and fs.created(f"{root}/a") is not None
    fs.rm_file(f"{root}/c")
    fs.rmdir(f"{root}/empty")
    fs.rm([f"{root}/e", f"{root}/t"])
    assert sorted(fs.find(root)) == [f"{root}/{name}" for name in ("a", "deep/b", "deep/e")]
    fs.rm(root, recursive=True)
    assert not Path(root).exists()


def test_what_the_other_file_system_does_not_do_is_reported() -> None:
    with pytest.raises(NotImplementedError, match="cp_file: Bare does not do this"):
        StookCacheFileSystem(fs=Bare(skip_instance_cache=True), skip_instance_cache=True).cp_file("a", "b")


class Bare(AbstractFileSystem):  # type: ignore[misc]
    """Does nothing."""

    protocol = "bare"


@pytest.mark.parametrize("mode", ["open", "cat_file"])
def test_a_directory_is_not_opened(tmp_path: Path, mode: str) -> None:
    fs = StookCacheFileSystem(fs=LocalFileSystem(), skip_instance_cache=True)
    with pytest.raises(IsADirectoryError, match=str(tmp_path)):
        getattr(fs, mode)(str(tmp_path))
