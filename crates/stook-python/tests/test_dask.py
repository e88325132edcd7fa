"""Packs as data frames of Dask, whose scheduler runs in threads of this process."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import stook
import stook.dask


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "data.stook"
    with stook.Pack(path, "x") as pack:
        for number in range(3000):
            attributes: dict[str, stook.Attribute] = {"label": ("cat", "dog")[number % 2]} if number % 5 else {"label": "", "rare": number}
            pack.put(f"{number:04}", bytes(number % 700), attributes=attributes)
    return path


def test_every_record_comes_once(path: Path) -> None:
    frame = stook.dask.read_pack(path, partition_bytes=100_000)
    assert frame.npartitions > 5 and list(frame.columns) == ["key", "value", "label", "rare"]
    read = frame.compute()  # type: ignore[no-untyped-call]
    assert Counter(zip(read["key"], map(len, read["value"]))) == Counter((b"%04d" % number, number % 700) for number in range(3000))
    assert read["rare"].isna().sum() == 2400 and str(read["rare"].dtype) == "int64[pyarrow]"


def test_only_what_is_used_is_read(path: Path, damage: Any) -> None:
    with stook.Pack(path, "r+") as pack:
        pack.put("damaged", b"this value is damaged" * 500, attributes={"label": "cat"})
        pack.compact()
    damage(path, b"this value is damaged")
    frame = stook.dask.read_pack(path, partition_bytes=100_000)
    assert dict(frame["label"].value_counts().compute()) == {"cat": 1201, "dog": 1200, "": 600}
    with pytest.raises(OSError, match="record damaged"):
        frame.compute()  # type: ignore[no-untyped-call]
    cats = stook.dask.read_pack(path, columns=["key", "size"], where={"label": "cat"}, prefix="0")
    assert len(cats) == sum(number % 2 == 0 and number % 5 != 0 for number in range(1000))


def test_nothing_is_an_empty_frame(path: Path) -> None:
    assert len(stook.dask.read_pack(path, prefix="none/")) == 0
    with stook.Pack("empty.stook", "x"):
        pass
    assert len(stook.dask.read_pack("empty.stook")) == 0


def test_keys_and_attributes_that_the_first_records_lack_are_no_nulls(tmp_path: Path) -> None:
    mixed, late = tmp_path / "mixed.stook", tmp_path / "late.stook"
    with stook.Pack(mixed, "x") as pack:
        pack.update((f"{number:05}", b"a" * 1000) for number in range(9000))
        pack.update((number, b"b" * 1000) for number in range(9000))
    with stook.Pack(late, "x") as pack:
        pack.update((f"{number:05}", b"a" * 1000) for number in range(9000))
        pack.put("late", b"", attributes={"late": 1})
    for path, message in ((mixed, "has a number as its key.*columns="), (late, "late has the attribute late.*columns=")):
        frame = stook.dask.read_pack(path, partition_bytes=4 << 20)
        assert frame.npartitions > 1
        with pytest.raises(stook.InvalidError, match=message):
            frame.compute(scheduler="sync")  # type: ignore[no-untyped-call]
    with pytest.raises(stook.InvalidError, match="has a number as its key"):
        stook.dask.read_pack(mixed, partition_bytes=4 << 20)["key"].compute(scheduler="sync")
    read = stook.dask.read_pack(mixed, columns=["key", "id"], partition_bytes=4 << 20).compute(scheduler="sync")  # type: ignore[no-untyped-call]
    assert (read["key"].isna() != read["id"].isna()).all() and len(read) == 18000


def test_a_damaged_record_is_an_error_or_counted(tmp_path: Path, damage: Any) -> None:
    path = tmp_path / "hit.stook"
    with stook.Pack(path, "x") as pack:
        pack.update((f"{number:03}", b"value %03d." % number * 100) for number in range(200))
        pack.compact()
    damage(path, b"value 150.")
    with pytest.raises(stook.DamagedError, match="record 150") as raised:
        stook.dask.read_pack(path).compute(scheduler="sync")  # type: ignore[no-untyped-call]
    assert raised.value.key == "150"
    with pytest.warns(stook.DamageWarning, match="1 damaged records of a part of .*hit.stook were passed over.*150"):
        read = stook.dask.read_pack(path, on_damage="skip").compute(scheduler="sync")  # type: ignore[no-untyped-call]
    assert len(read) == 199


def test_a_task_can_be_pickled_and_keeps_to_its_generation(path: Path) -> None:
    frame = stook.dask.read_pack(path, partition_bytes=1 << 30)
    with stook.Pack(path, "r+") as pack:
        pack["new"] = b"x"
    assert len(pickle.loads(pickle.dumps(frame))) == 3000


def test_what_is_wrong_is_refused(path: Path) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"partition_bytes": 0}, "'partition_bytes': 1 or more is wanted, not 0"),
        ({"partition_bytes": "64MB"}, "'partition_bytes': a whole number is wanted, not str"),
        ({"acess": "direct"}, "did you mean 'access'"),
        ({"colums": ["key"]}, "did you mean 'columns'"),
        ({"where": {"lable": "cat"}}, "no record of this pack has the attribute lable"),
        ({"mode": "r+"}, "argument 'mode': a data set only reads"),
        ({"group": "none"}, "group"),
        ({"columns": ["none"]}, "none of the first"),
    ]
    for options, message in wrong:
        with pytest.raises((stook.InvalidError, TypeError), match=message):
            stook.dask.read_pack(path, **options)
