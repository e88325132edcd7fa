"""Consumers of Arrow that do not keep to the interface, and those who drop what they were given."""

from __future__ import annotations

import ctypes
import errno
import gc
import threading
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int64, c_void_p
from pathlib import Path
from typing import Any, Callable

import pyarrow
import pytest

import stook
from memory_use import resident_bytes


class Schema(Structure):
    _fields_ = [
        ("format", c_char_p), ("name", c_char_p), ("metadata", c_char_p), ("flags", c_int64), ("n_children", c_int64),
        ("children", c_void_p), ("dictionary", c_void_p), ("release", c_void_p), ("private_data", c_void_p),
    ]


class Array(Structure):
    _fields_ = [
        ("length", c_int64), ("null_count", c_int64), ("offset", c_int64), ("n_buffers", c_int64), ("n_children", c_int64),
        ("buffers", c_void_p), ("children", POINTER(c_void_p)), ("dictionary", c_void_p), ("release", c_void_p),
        ("private_data", c_void_p),
    ]


class Stream(Structure):
    pass


# Threads of Python call these, without the interpreter.
GET_SCHEMA = CFUNCTYPE(c_int, POINTER(Stream), POINTER(Schema))
GET_NEXT = CFUNCTYPE(c_int, POINTER(Stream), POINTER(Array))
GET_LAST_ERROR = CFUNCTYPE(c_char_p, POINTER(Stream))
RELEASE_STREAM = CFUNCTYPE(None, POINTER(Stream))
RELEASE = CFUNCTYPE(None, c_void_p)
Stream._fields_ = [
    ("get_schema", GET_SCHEMA), ("get_next", GET_NEXT), ("get_last_error", GET_LAST_ERROR),
    ("release", RELEASE_STREAM), ("private_data", c_void_p),
]


def stream_of(capsule: Any) -> Any:
    """A pointer to the stream in a capsule."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = c_void_p, [ctypes.py_object, c_char_p]
    return ctypes.cast(pointer(capsule, b"arrow_array_stream"), POINTER(Stream))


def address(function: Any) -> int:
    """Where a function is."""
    found = ctypes.cast(function, c_void_p).value
    assert found is not None
    return found


def drop(structure: Any) -> None:
    """Releases an array or a schema."""
    RELEASE(structure.release)(ctypes.addressof(structure))


@pytest.fixture
def scan(tmp_path: Path) -> stook.Scan:
    with stook.Pack(tmp_path / "data.stook", "x") as writer:
        for number in range(20_000):
            writer.put(f"{number:05}", b"%d" % number, attributes={"number": number})
    return stook.Pack(tmp_path / "data.stook").scan()


def test_by_hand(scan: stook.Scan) -> None:
    capsule = scan.__arrow_c_stream__()
    stream = stream_of(capsule)
    schema = Schema()
    assert stream.contents.get_schema(stream, ctypes.byref(schema)) == 0
    assert (schema.format, schema.n_children) == (b"+s", 3)
    rows = 0
    while True:
        array = Array()
        assert stream.contents.get_next(stream, ctypes.byref(array)) == 0
        if not array.release:
            break
        assert (array.n_children, array.null_count, array.offset) == (3, 0, 0)
        rows += array.length
        drop(array)
        assert not array.release
    assert rows == 20_000
    # After the end there is nothing, as often as it is asked.
    array = Array()
    assert stream.contents.get_next(stream, ctypes.byref(array)) == 0 and not array.release
    drop(schema)


def test_released_early_and_twice(scan: stook.Scan) -> None:
    capsule = scan.__arrow_c_stream__()
    stream = stream_of(capsule)
    # Copies: what ctypes shows of a structure changes with it.
    get_schema, get_next = GET_SCHEMA(address(stream.contents.get_schema)), GET_NEXT(address(stream.contents.get_next))
    get_last_error = GET_LAST_ERROR(address(stream.contents.get_last_error))
    release = RELEASE_STREAM(address(stream.contents.release))
    array, schema = Array(), Schema()
    assert get_next(stream, ctypes.byref(array)) == 0 and array.length == 8192
    release(stream)
    for _ in range(2):
        release(stream)
        assert get_schema(stream, ctypes.byref(schema)) == errno.EINVAL
        assert get_next(stream, ctypes.byref(Array())) == errno.EINVAL
        assert get_last_error(stream) is None
    # What was handed out stays, and may be released twice, too.
    releases = RELEASE(array.release)
    assert array.length == 8192 and ctypes.cast(array.children, c_void_p).value
    for _ in range(2):
        releases(ctypes.addressof(array))
    release(None)
    releases(None)
    assert get_schema(None, ctypes.byref(schema)) == get_next(None, None) == errno.EINVAL
    del capsule
    gc.collect()


def test_null_out_is_refused(scan: stook.Scan) -> None:
    capsule = scan.__arrow_c_stream__()
    stream = stream_of(capsule)
    assert stream.contents.get_schema(stream, None) == errno.EINVAL
    assert stream.contents.get_next(stream, None) == errno.EINVAL


def test_read_and_released_by_other_threads(scan: stook.Scan) -> None:
    capsule = scan.__arrow_c_stream__()
    stream = stream_of(capsule)
    lengths: list[int] = []

    def read() -> None:
        while True:
            array = Array()
            assert stream.contents.get_next(stream, ctypes.byref(array)) == 0
            if not array.release:
                return
            lengths.append(array.length)
            drop(array)

    # Two at once are against the interface, and yet each batch comes once.
    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(lengths) == 20_000
    thread = threading.Thread(target=lambda: stream.contents.release(stream))
    thread.start()
    thread.join()
    assert not ctypes.cast(stream.contents.release, c_void_p).value


def test_capsules_that_are_dropped_keep_nothing(tmp_path: Path) -> None:
    with stook.Pack(tmp_path / "long.stook", "x") as writer:
        writer.update((number, bytes(200_000)) for number in range(20))
    scan = stook.Pack(tmp_path / "long.stook").scan()

    def begin(times: int) -> None:
        for _ in range(times):
            # The first batch has been read when the capsule is there.
            scan.__arrow_c_stream__()
            pyarrow.RecordBatchReader.from_stream(scan).read_next_batch()

    begin(5)
    before = resident_bytes()
    begin(40)
    # All of it would be 320 MB.
    assert resident_bytes() - before < 60 << 20


def test_batches_outlive_their_stream_and_their_pack(scan: stook.Scan) -> None:
    reader = pyarrow.RecordBatchReader.from_stream(scan)
    batch = reader.read_next_batch()
    value = batch["value"]
    del reader, scan, batch
    gc.collect()
    assert value.to_pylist() == [b"%d" % number for number in range(8192)]


def test_a_capsule_is_consumed_once(scan: stook.Scan) -> None:
    capsule = scan.__arrow_c_stream__()
    taken = pyarrow.RecordBatchReader._import_from_c_capsule(capsule)
    assert taken.read_all().num_rows == 20_000
    with pytest.raises(pyarrow.ArrowInvalid, match="released"):
        pyarrow.RecordBatchReader._import_from_c_capsule(capsule)

    class Again:
        def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
            return capsule

    with stook.Pack("other.stook", "x") as pack:
        with pytest.raises(stook.InvalidError, match="consumed already"):
            pack.from_arrow(Again())
        assert len(pack) == 0


def test_an_error_stays_an_error(tmp_path: Path, damage: Callable[[Path, bytes], None]) -> None:
    with stook.Pack(tmp_path / "data.stook", "x") as writer:
        writer.update({"a": b"first", "b": b"that is damaged"})
        writer.compact()
    damage(tmp_path / "data.stook", b"that is damaged")
    capsule = stook.Pack(tmp_path / "data.stook").scan().__arrow_c_stream__()
    stream = stream_of(capsule)
    array = Array()
    assert stream.contents.get_next(stream, ctypes.byref(array)) == 0 and array.length == 1
    drop(array)
    assert stream.contents.get_next(stream, ctypes.byref(array)) == errno.EIO
    text = stream.contents.get_last_error(stream)
    assert b"record b" in text and b"data.stook" in text
    # It does not go on after it.
    assert stream.contents.get_next(stream, ctypes.byref(array)) == 0 and not array.release
    assert stream.contents.get_last_error(stream) == text


def test_what_is_no_schema_is_refused(scan: stook.Scan) -> None:
    wrong: Any
    for wrong in (1, "key", scan.__arrow_c_stream__()):
        with pytest.raises(TypeError, match="requested_schema"):
            scan.__arrow_c_stream__(wrong)
    with pytest.raises(stook.InvalidError, match="no struct of columns"):
        scan.__arrow_c_stream__(pyarrow.int64().__arrow_c_schema__())
