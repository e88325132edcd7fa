"""Packs that are filled from tables of Arrow."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas
import polars
import pyarrow
import pytest

import stook

KEYS = ["a", "longer than twelve bytes", "c"]
VALUES = [b"1", b"a value that is longer than twelve bytes", b""]


@pytest.fixture
def pack(tmp_path: Path) -> Iterator[stook.Pack]:
    with stook.Pack(tmp_path / "data.stook", "x") as pack:
        yield pack


@pytest.mark.parametrize("keys", [pyarrow.binary(), pyarrow.large_binary(), pyarrow.string(), pyarrow.large_string(), pyarrow.string_view(), pyarrow.binary_view()])
@pytest.mark.parametrize("values", [pyarrow.binary(), pyarrow.large_binary(), pyarrow.binary_view()])
def test_types_of_keys_and_values(pack: stook.Pack, keys: pyarrow.DataType, values: pyarrow.DataType) -> None:
    columns = [pyarrow.array([key.encode() for key in KEYS]).cast(keys), pyarrow.array(VALUES).cast(values)]
    table = pyarrow.table(columns, ["name", "data"])
    # Slices have offsets, and tables several batches.
    for some in (table, pyarrow.concat_tables([table.slice(1), table.slice(0, 1)])):
        assert pack.from_arrow(some, key="name", value="data") == 3
        assert dict(pack.items()) == dict(zip(KEYS, VALUES))
    batch = table.to_batches()[0].slice(1, 1)
    assert pack.from_arrow(pyarrow.RecordBatchReader.from_batches(batch.schema, [batch]), key="name", value="data") == 1
    structs = pyarrow.StructArray.from_arrays(columns, ["name", "data"]).slice(2)
    reader = pyarrow.RecordBatchReader.from_batches(table.schema, [pyarrow.RecordBatch.from_struct_array(structs)])
    assert pack.from_arrow(reader, key="name", value="data") == 1
    assert dict(pack.items()) == dict(zip(KEYS, VALUES))


@pytest.mark.parametrize("numbers", [pyarrow.uint8(), pyarrow.int16(), pyarrow.uint32(), pyarrow.int64(), pyarrow.uint64()])
def test_numbers_are_ids(pack: stook.Pack, numbers: pyarrow.DataType) -> None:
    table = pyarrow.table([pyarrow.array([1, 2, 127], numbers), pyarrow.array(["x", "y", "z"])], ["key", "value"])
    assert pack.from_arrow(table) == 3 and dict(pack.items()) == {1: b"x", 2: b"y", 127: b"z"}
    if str(numbers)[0] == "i":
        with pytest.raises(stook.InvalidError, match="row 1 has the id -2"):
            pack.from_arrow(pyarrow.table([pyarrow.array([1, -2], numbers), pyarrow.array(["", ""])], ["key", "value"]))


def test_other_columns_are_attributes(pack: stook.Pack) -> None:
    when = datetime.datetime(2026, 11, 21, tzinfo=datetime.timezone.utc)
    table = pyarrow.table({
        "key": ["a", "b"],
        "value": [b"1", b"2"],
        "label": pyarrow.array(["cat", None]).dictionary_encode(),
        "width": pyarrow.array([640, -1], pyarrow.int16()),
        "mtime": pyarrow.array([when, None], pyarrow.timestamp("s", "UTC")),
        "mode": pyarrow.array([0o640, None], pyarrow.uint32()),
        "kind": ["file", None],
        "digest": pyarrow.array([b"1234", b"5678"], pyarrow.binary(4)),
        "attributes.key": [None, "odd"],
        "attributes.200": [7, None],
    })
    assert pack.from_arrow(table, group="images") == 2
    first, second = pack.record("a"), pack.record("b")
    assert first is not None and second is not None and first.group == "images"
    assert first.attributes == {
        "label": "cat", "width": 640, "mtime_ns": int(when.timestamp()) * 10**9, "mode": 0o640, "kind": "file",
        "digest": b"1234", 200: 7,
    }
    assert second.attributes == {"width": -1, "digest": b"5678", "key": "odd"}


def test_what_a_scan_gives_comes_back(tmp_path: Path, pack: stook.Pack) -> None:
    (tmp_path / "t/d").mkdir(parents=True)
    (tmp_path / "t/a.jpg").write_bytes(b"picture")
    (tmp_path / "t/d/link").symlink_to("../a.jpg")
    stook.pack_tree(tmp_path / "t", tmp_path / "t.stook")
    tree = stook.Pack(tmp_path / "t.stook")
    assert pack.from_arrow(tree.scan(kinds="all")) == 4
    for key in tree:
        there, here = tree.record(key), pack.record(key)
        assert there is not None and here is not None
        assert (there.attributes, bytes(there)) == (here.attributes, bytes(here))
    # It may be of the same pack.
    assert pack.from_arrow(pack.scan(columns=["key", "value"])) == 1


def test_from_other_libraries(pack: stook.Pack) -> None:
    frame = polars.DataFrame({"key": KEYS, "value": VALUES, "n": [1, None, 3]})
    assert pack.from_arrow(frame) == 3 and dict(pack.items()) == dict(zip(KEYS, VALUES))
    assert pack.from_arrow(pandas.DataFrame({"key": ["p"], "value": ["text"]}), group="") == 1
    relation = duckdb.sql("select range as key, 'v' || range as value from range(3000)")
    assert relation is not None and pack.from_arrow(relation) == 3000
    assert (pack["p"], pack[2999], len(pack)) == (b"text", b"v2999", 3004)


class Failing:
    """A stream that ends with an error after some batches."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        schema = pyarrow.schema([("key", pyarrow.string()), ("value", pyarrow.binary())])

        def batches() -> Iterator[pyarrow.RecordBatch]:
            yield pyarrow.record_batch([["good"], [b"1"]], schema=schema)
            raise RuntimeError("the cable was pulled")

        return pyarrow.RecordBatchReader.from_batches(schema, batches()).__arrow_c_stream__()


def test_all_or_nothing(pack: stook.Pack) -> None:
    pack["before"] = b"1"

    def table(**columns: Any) -> pyarrow.Table:
        return pyarrow.table({"key": ["good", "x"], "value": [b"1", b"2"], **columns})

    def enough(records: int) -> None:
        raise KeyboardInterrupt

    wrong: list[tuple[Any, dict[str, Any], type[BaseException], str]] = [
        (table(key=["good", None]), {}, stook.InvalidError, "row 1 has no key; nothing was put"),
        (table(value=[b"1", None]), {}, stook.InvalidError, "row 1 has no value; nothing was put"),
        (table(kind=["file", "hard_link"]), {}, stook.InvalidError, "row 1 is a hard link"),
        (table(mode=[1, -1]), {}, stook.InvalidError, "row 1 has in mode not a number of 32 bits"),
        (table(kind=["file", "door"]), {}, stook.InvalidError, "row 1 has in kind not one of file"),
        (table(f=[1.5, 2.5]), {}, stook.InvalidError, 'the column "f" has cells that are floating point numbers.*Int64'),
        (table(f=[None, None]), {}, stook.InvalidError, "leave the column out"),
        (table(f=[[1], [2]]), {}, stook.InvalidError, "lists, which packs do not have"),
        (table(f=[datetime.date(2026, 1, 1)] * 2), {}, stook.InvalidError, "dates, which .* timestamp"),
        (table(f=[True, False]), {}, stook.InvalidError, '"f" has cells that are booleans'),
        (table(size=[1, 2]), {}, stook.InvalidError, "leave it out, or call it attributes.size"),
        (table(key=[1.5, 2.5]), {}, stook.InvalidError, "bytes, text or numbers are wanted"),
        (table(value=[1, 2]), {}, stook.InvalidError, "bytes or text are wanted"),
        (table(mtime=[1, 2], mtime_ns=[1, 2]), {}, stook.InvalidError, "two columns are of the attribute mtime_ns"),
        (table(), {"key": "name"}, stook.InvalidError, "no column is called \"name\"; there are: key, value"),
        (table(), {"value": "key"}, stook.InvalidError, "another column than that of the keys"),
        (pyarrow.table([["a"], ["b"], ["c"]], ["key", "key", "value"]), {}, stook.InvalidError, "two columns are called"),
        (table(), {"progress": enough}, KeyboardInterrupt, "^$"),
        (Failing(), {}, OSError, "the cable was pulled"),
        (5, {}, TypeError, "an object with __arrow_c_stream__ is wanted"),
        (pyarrow.chunked_array([[1, 2]]), {}, stook.InvalidError, "no struct of columns"),
        (table(), {"key": 5}, TypeError, "argument 'key'"),
    ]
    for stream, options, error, message in wrong:
        with pytest.raises(error, match=message):
            pack.from_arrow(stream, **options)
        assert dict(pack.items()) == {"before": b"1"}, message
    with stook.Pack(pack.path) as reader:
        with pytest.raises(stook.InvalidError, match="open to be read"):
            reader.from_arrow(table())
    seen: list[int] = []
    assert pack.from_arrow(table(), progress=seen.append) == 2 and seen[-1] == 2


def test_the_last_row_of_a_key_counts(pack: stook.Pack) -> None:
    assert pack.from_arrow(pyarrow.table({"key": ["a", "a"], "value": [b"1", b"2"]})) == 2
    assert dict(pack.items()) == {"a": b"2"}


def test_a_row_that_is_null_as_a_whole_has_no_key(pack: stook.Pack) -> None:
    columns = [pyarrow.array(["a", "b", "c"]), pyarrow.array([b"1", b"2", b"3"])]
    rows = pyarrow.StructArray.from_arrays(columns, ["key", "value"], mask=pyarrow.array([False, False, True]))
    with pytest.raises(stook.InvalidError, match="row 2 has no key; nothing was put"):
        pack.from_arrow(pyarrow.chunked_array([rows]))
    assert len(pack) == 0
    assert pack.from_arrow(pyarrow.chunked_array([rows.slice(1, 1)])) == 1 and dict(pack.items()) == {"b": b"2"}
