"""Records by number."""

from __future__ import annotations

import array
import pickle
import random
from pathlib import Path

import pytest

import stook


@pytest.fixture
def pack(tmp_path: Path) -> stook.Pack:
    with stook.Pack(tmp_path / "data.stook", "x") as writer:
        for number in range(300):
            writer.put(f"{number % 3}/{number:03}", b"%d" % number, group="ab"[number % 2], attributes={"label": number})
        for number in range(0, 300, 7):
            del writer[f"{number % 3}/{number:03}"]
    return stook.Pack(tmp_path / "data.stook")


def test_every_record_has_one_number_and_comes_in_any_order(pack: stook.Pack) -> None:
    keys = [record.key for record in pack.scan()]
    ordinals = pack.ordinals()
    assert len(ordinals) == len(keys) == len(pack) and repr(ordinals) == f"<stook.Ordinals of {len(keys)} records>"
    assert ordinals.memory_bytes < 4096 and ordinals.damages == []
    numbers = list(range(len(keys)))
    random.Random(7).shuffle(numbers)
    for given in (numbers, array.array("q", numbers), iter(numbers)):
        assert [record.key for record in pack.get_many_at(given)] == [keys[number] for number in numbers]
    record = pack.at(-1)
    assert (record.key, record.attributes["label"]) == (keys[-1], int(bytes(record)))
    again = pickle.loads(pickle.dumps(ordinals))
    assert [record.key for record in pack.get_many_at([5, 5, 0], again)] == [keys[5], keys[5], keys[0]]


def test_a_selection_has_numbers_of_its_own(pack: stook.Pack) -> None:
    some = pack.ordinals(prefix="1/", group="a", kinds="all")
    keys = {record.key for record in pack.get_many_at(range(len(some)), some)}
    assert keys == {record.key for record in pack.scan(prefix="1/", group="a")}
    splits = [pack.ordinals(split=split) for split in pack.splits(4)]
    assert sum(map(len, splits)) == len(pack)


def test_what_is_wrong_is_said(pack: stook.Pack, tmp_path: Path) -> None:
    ordinals = pack.ordinals()
    for number in (len(ordinals), -len(ordinals) - 1, 1 << 62, 1 << 63, -(1 << 70)):
        with pytest.raises(IndexError, match=f"there is no record {number}"):
            pack.at(number)
        with pytest.raises(IndexError):
            pack.get_many_at([0, number], ordinals)
    for wrong in ("a", 1.5, None):
        with pytest.raises(TypeError):
            pack.at(wrong)  # type: ignore[arg-type]
    with pytest.raises(stook.InvalidError, match="group"):
        pack.ordinals(group="none")
    with pytest.raises(stook.InvalidError):
        stook.Ordinals._from_bytes(b"nothing")  # type: ignore[attr-defined]
    with stook.Pack(tmp_path / "data.stook", "r+") as writer:
        writer["new"] = b"1"
    with pytest.raises(stook.InvalidError, match="begin again"):
        stook.Pack(tmp_path / "data.stook").at(0, ordinals)
    assert bytes(pack.at(0, ordinals)) == b"2"


def test_a_writer_numbers_what_it_wrote(tmp_path: Path) -> None:
    with stook.Pack(tmp_path / "data.stook", "x") as pack:
        with pytest.raises(IndexError):
            pack.at(0)
        for number in range(3):
            pack[number] = b"%d" % number
            assert bytes(pack.at(-1)) == b"%d" % number
