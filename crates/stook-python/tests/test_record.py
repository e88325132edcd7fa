"""Records as values of Python: buffers, compared, pickled; attributes of other libraries."""

from __future__ import annotations

import copy
import datetime
import pickle
from pathlib import Path
from typing import Any

import numpy
import pytest

import stook

LONG = bytes(range(256)) * 4096


@pytest.fixture
def record() -> stook.Record:
    attributes: dict[str, stook.Attribute] = {"label": "x", "number": -3, "kind": "file"}
    with stook.Pack("r.stook", "x") as pack:
        pack.put("k", LONG, attributes=attributes, group="g")
        found = pack.record("k")
    assert found is not None
    return found


def test_a_record_is_a_buffer_of_its_value(record: stook.Record) -> None:
    view = memoryview(record)
    assert view.readonly and view.nbytes == len(record) == len(LONG) and view == LONG == bytes(record)
    array: Any = numpy.frombuffer(record, dtype="<u4")  # type: ignore[call-overload, unused-ignore]
    assert array.tobytes() == LONG and not array.flags.writeable
    # It is the memory that the record holds, and stays when nobody else holds it.
    assert array.__array_interface__["data"][0] == numpy.frombuffer(record.value, "u1").__array_interface__["data"][0]
    del record
    assert view[5:9].tobytes() == LONG[5:9]
    with pytest.raises(TypeError, match="read-only"):
        view[0] = 1
    with stook.Pack("copy.stook", "x") as other:
        other["k"] = view
        other.update({"l": array})
        assert other["k"] == other["l"] == LONG


def test_records_are_equal_by_key_value_and_attributes() -> None:
    with stook.Pack("p.stook", "x") as pack:
        in_order: list[tuple[str, stook.Attribute]] = [("a", 1), ("b", "x")]
        pack.put("k", b"1", attributes=dict(in_order))
        one = pack.record("k")
        pack.put("k", b"1", attributes=dict(reversed(in_order)), group="elsewhere")
        same = pack.record("k")
        others: list[Any] = []
        both = dict(in_order)
        one_only: dict[str, stook.Attribute] = {"a": 1}
        for key, value, attributes in [("l", b"1", both), ("k", b"2", both), ("k", b"1", one_only)]:
            pack.put(key, value, attributes=attributes)
            others.append(pack.record(key))
    assert one is not None and same is not None
    assert one == same and not one != same and hash(one) == hash(same) and one.sequence != same.sequence
    assert all(one != other and not one == other for other in [*others, b"1", None])
    assert len({one, same, *others}) == 4


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_record_comes_out_of_a_pickle_as_it_went_in(record: stook.Record, protocol: int) -> None:
    again = pickle.loads(pickle.dumps(record, protocol))
    assert again == record and bytes(again) == LONG and type(again) is stook.Record
    for name in ("key", "attributes", "group", "kind", "sequence", "time_ns", "segment", "offset"):
        assert getattr(again, name) == getattr(record, name)
    assert repr(again) == repr(record) == "<stook.Record 'k': 1048576 bytes>"


def test_a_value_is_pickled_out_of_band_without_a_copy(record: stook.Record) -> None:
    buffers: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(record, 5, buffer_callback=buffers.append)
    (buffer,) = buffers
    assert len(pickled) < 1000 and memoryview(buffer) == LONG
    # What may be changed is copied, what cannot be is held.
    changed = bytearray(LONG)
    again = pickle.loads(pickled, buffers=[changed])
    changed[:] = bytes(len(LONG))
    assert again == record
    held = bytes(LONG)
    again = pickle.loads(pickled, buffers=[held])
    ours, theirs = (numpy.frombuffer(one, "u1").__array_interface__["data"][0] for one in (again.value, held))
    assert again == record and ours == theirs
    assert copy.copy(record) is record and copy.deepcopy([record])[0] is record


def test_what_is_no_pickled_record_is_refused(record: stook.Record) -> None:
    make, ((key, attributes, group, place), value) = record.__reduce_ex__(4)  # type: ignore[misc]
    assert make((key, attributes, group, place), value) == record
    with pytest.raises(stook.InvalidError, match="not pickled as a record"):
        make((b"\x07k", attributes, group, place), value)
    with pytest.raises(stook.InvalidError):
        make((key, b"\xff\xff\xff", group, place), value)
    with pytest.raises(TypeError, match="a bytes-like object is wanted"):
        make((key, attributes, group, place), "text")


def test_numbers_and_texts_of_other_libraries_are_attributes() -> None:
    given: dict[str, Any] = {
        "int64": numpy.int64(-5), "uint64": numpy.uint64(2**64 - 1), "int8": numpy.int8(3), "array": numpy.array(7),
        "str": numpy.str_("ü"), "bytes": numpy.bytes_(b"\xff"), "mode": numpy.int32(0o644), "mtime_ns": numpy.int64(-1),
    }
    expected = {
        "int64": -5, "uint64": 2**64 - 1, "int8": 3, "array": 7, "str": "ü", "bytes": b"\xff", "mode": 0o644, "mtime_ns": -1,
    }
    Path("tree").mkdir()
    Path("tree/a").write_bytes(b"")
    with stook.Pack("p.stook", "x") as pack:
        pack.put("a", b"", attributes=given)
        pack.append(b"", attributes=given)
        with pack.batch() as batch:
            batch.put("b", b"", attributes=given)
        for record in pack.scan():
            assert record.attributes == expected
            assert {type(value) for value in record.attributes.values()} == {int, str, bytes}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (numpy.float32(1.5), "x is float32: give str(value), or its bytes"),
        (numpy.float64(1.5), "x is float64: give str(value), or its bytes"),
        (1.5, "x is float: give str(value), or its bytes"),
        (True, "x is bool: give int(value), 0 or 1"),
        (numpy.bool_(True), "give int(value), 0 or 1"),
        (numpy.datetime64("2026-11-28"), "x is datetime64: give nanoseconds as an int"),
        (numpy.timedelta64(1, "s"), "x is timedelta64: give nanoseconds as an int"),
        (datetime.datetime(2026, 11, 28), "x is datetime: give nanoseconds as an int"),
        (numpy.array([1, 2]), "x is ndarray"),
        (None, "x is NoneType"),
        ([1], "x is list"),
    ],
)
def test_what_attributes_cannot_be_is_refused_with_what_to_give(value: Any, message: str) -> None:
    with stook.Pack("p.stook", "x") as pack:
        with pytest.raises(TypeError) as refused:
            pack.put("k", b"", attributes={"x": value})
        assert str(refused.value).startswith("attributes are int, str or bytes; ") and message in str(refused.value)
        with pytest.raises(stook.InvalidError, match="the attribute mode is a number"):
            pack.put("k", b"", attributes={"mode": value})
        with pytest.raises(stook.InvalidError, match="does not fit into 64 bits"):
            pack.put("k", b"", attributes={"x": 2**64})
        assert "k" not in pack
