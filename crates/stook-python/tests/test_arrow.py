"""Scans as tables of Arrow: columns, filters, and those who read them."""

from __future__ import annotations

import datetime
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Callable

import duckdb
import pandas
import polars
import pyarrow
import pytest

import stook
from test_package import python_blocks

LABELS = ("cat", "dog", "cow")


@pytest.fixture
def pack(tmp_path: Path) -> stook.Pack:
    """300 records with attributes, 100 of them in a group, every seventh deleted."""
    with stook.Pack(tmp_path / "data.stook", "x") as writer:
        for number in range(300):
            attributes: dict[str, stook.Attribute] = {"label": LABELS[number % 3], "number": number - 5}
            group = "third" if number % 3 == 0 else ""
            writer.put(f"{number % 2}/{number:03}", b"%d" % number * number, attributes=attributes, group=group)
        for number in range(0, 300, 7):
            del writer[f"{number % 2}/{number:03}"]
    return stook.Pack(tmp_path / "data.stook")


def rows(table: Any) -> list[dict[str, Any]]:
    """The rows of a table in the order of keys."""
    found: list[dict[str, Any]] = table.to_pylist()
    return sorted(found, key=lambda row: row["key"])


def wanted(pack: stook.Pack) -> list[dict[str, Any]]:
    """The same, by iterating over records."""
    found = []
    for record in pack.scan():
        row: dict[Any, Any] = {"key": os.fsencode(str(record.key)), "value": bytes(record), "group": record.group}
        found.append({**row, **record.attributes})
    return sorted(found, key=lambda row: row["key"])


def test_a_table_has_what_the_records_have(pack: stook.Pack) -> None:
    scan = pack.scan()
    types = {"key": "binary", "value": "binary", "group": "string", "label": "string", "number": "int64"}
    assert scan.column_types() == types
    table = scan.to_table()
    table.validate(full=True)
    assert table.schema.types == [
        pyarrow.large_binary(), pyarrow.large_binary(), pyarrow.large_string(), pyarrow.large_string(), pyarrow.int64(),
    ]
    assert rows(table) == wanted(pack) and table.num_rows == len(pack)
    # A scan may be read again, and whatever was iterated over.
    next(scan)
    assert rows(scan.to_table()) == wanted(pack)


def test_batches_are_bounded(tmp_path: Path) -> None:
    with stook.Pack(tmp_path / "many.stook", "x") as writer:
        writer.update((number, b"") for number in range(20_000))
        writer.update((f"{number:02}", bytes([number]) * (1 << 20)) for number in range(20))
        writer["long"] = bytes(range(256)) * (100 << 10)
    pack = stook.Pack(tmp_path / "many.stook")
    batches = pyarrow.RecordBatchReader.from_stream(pack.scan(columns=["key", "id", "value"])).read_all().to_batches()
    assert sum(batch.num_rows for batch in batches) == 20_021
    assert max(batch.num_rows for batch in batches) <= 8192
    sizes = [len(value.as_buffer()) for batch in batches for value in batch["value"]]
    assert sum(sizes) == (20 << 20) + (25 << 20)
    assert all(batch.nbytes <= 10 << 20 or any(len(value.as_buffer()) > 8 << 20 for value in batch["value"]) for batch in batches)
    assert pack.scan(prefix="long", columns="value").to_table()["value"][0].as_py() == pack["long"]


def test_filters(pack: stook.Pack) -> None:
    everything = wanted(pack)
    cases: list[tuple[dict[str, Any], Callable[[dict[str, Any]], bool]]] = [
        ({"prefix": "1/"}, lambda row: row["key"].startswith(b"1/")),
        ({"start": "0/100", "end": "1/050"}, lambda row: b"0/100" <= row["key"] < b"1/050"),
        ({"group": "third"}, lambda row: row["group"] == "third"),
        ({"where": {"label": "cat"}}, lambda row: row["label"] == "cat"),
        ({"where": {"label": ("cat", "cow"), "number": list(range(40))}}, lambda row: row["label"] != "dog" and 0 <= row["number"] < 40),
        ({"kinds": "directory"}, lambda row: False),
    ]
    names = list(everything[0])
    for options, is_wanted in cases:
        expected = [row for row in everything if is_wanted(row)]
        assert rows(pack.scan(columns={**dict.fromkeys(names), "label": "string", "number": "int64"}, **options).to_table()) == expected, options
        without = [{name: row[name] for name in ("key", "label")} for row in expected]
        assert rows(pack.scan(columns={"key": None, "label": "string"}, **options).to_table()) == without, options
        assert sorted(os.fsencode(str(record.key)) for record in pack.scan(**options)) == [row["key"] for row in expected]


def test_conditions_are_on_attributes_as_their_columns_are_called(tmp_path: Path) -> None:
    with stook.Pack(tmp_path / "data.stook", "x") as writer:
        writer.put("a", b"12345", attributes={"label": "cat", "key": "own", "n": 7, "mtime_ns": 5, 200: 1}, group="g")
        writer["b"] = b"none"
    pack = stook.Pack(tmp_path / "data.stook")
    fitting: list[dict[Any, Any]] = [
        {"label": "cat"}, {"attributes.label": "cat"}, {"attributes.key": "own"}, {"mtime": 5}, {"mtime_ns": 5},
        {"attributes.200": 1}, {200: 1}, {"n": ["x", 7]}, {"kind": "file", "n": 7},
    ]
    for condition in fitting:
        for columns in (None, ["key"]):
            assert pack.scan(where=condition, columns=columns).to_table()["key"].to_pylist() == [b"a"], condition
        assert [record.key for record in pack.scan(where=condition)] == ["a"]
        assert len(pack.ordinals(where=condition)) == 1
    at_once: list[tuple[dict[Any, Any], str]] = [
        ({"key": "a"}, "prefix, start and end; an attribute that is called so is attributes.key"),
        ({"group": "g"}, "with group; .*attributes.group"),
        ({"size": 5}, "column of a table"),
        ({"label": []}, "the condition on label has one value, or several, not none"),
        ({"kind": "directory"}, "left out by kinds"),
        ({"n": 1.5}, "argument 'where': attributes are int, str or bytes"),
        ({7: 1}, "argument 'where': .* from 128 to 255"),
    ]
    for condition, message in at_once:
        with pytest.raises((stook.InvalidError, TypeError), match=message):
            pack.scan(where=condition)
        with pytest.raises((stook.InvalidError, TypeError), match=message):
            pack.ordinals(where=condition)


def test_a_condition_that_no_record_can_meet_selects_nothing_loudly(pack: stook.Pack) -> None:
    hopeless: list[tuple[dict[str, Any], str]] = [
        ({"lable": "cat"}, "no record of this pack has the attribute lable"),
        ({"label": "cat", "mtime": 5}, "no record of this pack has the attribute mtime"),
        ({"number": "5"}, "the condition on number wants text, and records have a number there"),
        ({"label": b"cat"}, "the condition on label wants bytes, and records have text there"),
    ]
    for condition, message in hopeless:
        for ask in (
            lambda: pack.scan(where=condition).to_table(), lambda: pack.scan(where=condition, columns=["key"]).to_table(),
            lambda: list(pack.scan(where=condition)), lambda: list(pack.scan(where=condition, order="key", prefix="1/")),
            lambda: pack.ordinals(where=condition), lambda: pack.scan(where=condition).column_types(),
            lambda: [part for split in pack.splits(3) for part in pack.scan(split=split, where=condition)],
        ):
            with pytest.raises(stook.InvalidError, match=message):
                ask()
    # What could be there, and is not: also in a part without such an attribute, and in a pack
    # without records.
    assert pack.scan(where={"label": "horse"}).to_table().num_rows == 0 == len(list(pack.scan(where={"number": 5000})))
    with stook.Pack("other.stook", "x") as other:
        assert list(other.scan(where={"lable": 1})) == []
        other["0"] = b""
        other.put("1", b"", attributes={"rare": 1}, group="g")
    other = stook.Pack("other.stook")
    assert list(other.scan(where={"rare": 1}, prefix="0")) == [] == list(other.scan(where={"rare": 1}, group=""))
    assert sum(len(list(other.scan(where={"rare": 1}, split=split))) for split in other.splits(2)) == 1


def test_a_damaged_record_that_may_be_meant_is_no_misspelling(tmp_path: Path, damage: Callable[[Path, bytes], None]) -> None:
    with stook.Pack(tmp_path / "data.stook", "x") as writer:
        writer.put("a", b"1" * 500, attributes={"rare": "only here"})
        writer["b"] = b"2" * 500
        writer.compact()
    damage(tmp_path / "data.stook", b"only here")
    scan = stook.Pack(tmp_path / "data.stook").scan(where={"rare": "x"}, on_damage="skip", columns=["key"])
    assert scan.to_table().num_rows == 0 and len(scan.damages) == 1


def test_an_empty_selection_has_its_columns(pack: stook.Pack) -> None:
    types = {"key": pyarrow.large_binary(), "label": pyarrow.large_string(), "number": pyarrow.int64(), "size": pyarrow.uint64()}
    selections: list[dict[str, Any]] = [{"where": {"label": "horse"}}, {"prefix": "none/"}]
    for options in selections:
        for names in (["key", "label", "number", "size"], ["key", "label", "number", "size", "value"]):
            table = pack.scan(columns=names, **options).to_table()
            assert table.num_rows == 0 and {name: table.schema.field(name).type for name in types} == types
    with pytest.raises(stook.InvalidError, match="no record of this pack has the attribute lable: is it misspelt?"):
        pack.scan(columns=["lable"], prefix="none/").to_table()
    with stook.Pack("empty.stook", "x") as empty:
        assert empty.scan(columns=["key", "label"]).to_table().column_names == ["key", "label"]


def test_a_stream_that_is_interrupted_says_so(pack: stook.Pack) -> None:
    def interrupt(*_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(OSError, match="KeyboardInterrupt"):
        pyarrow.RecordBatchReader.from_stream(pack.scan(progress=interrupt)).read_all()
    with pytest.raises(KeyboardInterrupt):
        pack.scan(progress=interrupt).to_table()


def test_a_damaged_record_is_counted_once(tmp_path: Path) -> None:
    path = tmp_path / "data.stook"
    with stook.Pack(path, "x") as writer:
        writer.update((f"{number:03}", b"x" * 5000) for number in range(100))
        writer.compact()
    record = stook.Pack(path).record("050")
    assert record is not None
    (segment,) = [file for file in path.iterdir() if file.name.startswith("segment")]
    with open(segment, "r+b") as file:
        file.seek(record.offset + 30)
        file.write(b"ZZZZ")
    pack = stook.Pack(path)
    for ask in (list, lambda scan: scan.to_table().to_pylist()):
        scan = pack.scan(on_damage="skip")
        assert len(ask(scan)) == 99 and [damage.key for damage in scan.damages] == ["050"]


def test_splits_and_cursors_give_their_parts(pack: stook.Pack) -> None:
    columns = ["key", "value", "label"]
    for chosen in (columns, ["key", "label"], ["key"]):
        parts = [pack.scan(split=split, columns=chosen).to_table() for split in pack.splits(5)]
        assert len(parts) > 1
        assert rows(pyarrow.concat_tables(parts)) == [{name: row[name] for name in chosen} for row in wanted(pack)]
    scan = pack.scan()
    passed = [os.fsencode(str(next(scan).key)) for _ in range(100)]
    rest = pack.scan(cursor=scan.cursor(), columns=columns).to_table()
    assert sorted(passed + rest["key"].to_pylist()) == [row["key"] for row in wanted(pack)]


def test_a_table_without_values_reads_none(tmp_path: Path, damage: Callable[[Path, bytes], None]) -> None:
    """Damage of a value does not matter where no value is asked for."""
    with stook.Pack(tmp_path / "data.stook", "x") as writer:
        writer.put("a", b"the value that is damaged" * 300, attributes={"label": "x"})
        writer["b"] = b"another"
        writer.compact()
    damage(tmp_path / "data.stook", b"value that is damaged")
    pack = stook.Pack(tmp_path / "data.stook")
    table = pack.scan(columns=["key", "size", "label", "group", "sequence", "time"]).to_table()
    assert table["size"].to_pylist() == [25 * 300, 7] and table["label"].to_pylist() == ["x", None]
    assert table["time"].type == pyarrow.timestamp("ns", "UTC")
    with pytest.raises(stook.DamagedError, match="record a") as raised:
        pack.scan().to_table()
    assert raised.value.key == "a" and str(tmp_path / "data.stook") in str(raised.value)
    scan = pack.scan(on_damage="skip", columns=["key", "value"])
    assert scan.damages == [] and scan.to_table()["key"].to_pylist() == [b"b"]
    assert [found.key for found in scan.damages] == ["a"]


def test_an_error_in_the_middle_comes_after_what_is_before_it(tmp_path: Path, damage: Callable[[Path, bytes], None]) -> None:
    with stook.Pack(tmp_path / "data.stook", "x") as writer:
        writer.update((f"{number:05}", b"value %05d." % number) for number in range(10_000))
        writer.compact()
    damage(tmp_path / "data.stook", b"value 09000.")
    reader = pyarrow.RecordBatchReader.from_stream(stook.Pack(tmp_path / "data.stook").scan())
    keys = []
    with pytest.raises(OSError, match="data.stook.*record 09000"):
        for batch in reader:
            keys += batch["key"].to_pylist()
    assert keys == [b"%05d" % number for number in range(9000)]


def test_a_tree(tmp_path: Path) -> None:
    (tmp_path / "t/d").mkdir(parents=True)
    (tmp_path / "t/a.jpg").write_bytes(b"picture")
    (tmp_path / "t/z.jpg").hardlink_to(tmp_path / "t/a.jpg")
    (tmp_path / "t/d/link").symlink_to("../a.jpg")
    os.utime(tmp_path / "t/a.jpg", ns=(0, 1_700_000_000_123_456_789))
    os.chmod(tmp_path / "t/a.jpg", 0o640)
    stook.pack_tree(tmp_path / "t", tmp_path / "t.stook")
    pack = stook.Pack(tmp_path / "t.stook")
    table = pack.scan().to_table()
    assert table["value"].to_pylist() == [b"picture", b"picture"]
    assert table["mode"].to_pylist() == [0o640, 0o640] and table["mode"].type == pyarrow.uint32()
    assert [when.value for when in table["mtime"]] == [1_700_000_000_123_456_789] * 2
    everything = pack.scan(kinds="all", columns=["key", "kind", "size"]).to_table().to_pylist()
    assert [(row["key"], row["kind"], row["size"]) for row in everything] == [
        (b"", "directory", 0), (b"a.jpg", "file", 7), (b"d", "directory", 0), (b"d/link", "symlink", 8), (b"z.jpg", "hard_link", 7),
    ]
    assert pack.scan(kinds="all", where={"kind": ["symlink"]}, columns="value").to_table()["value"].to_pylist() == [b"../a.jpg"]


def test_keys_and_types(filled: Path) -> None:
    pack = stook.Pack(filled)
    table = pack.scan(order="key").to_table()
    assert table["key"].to_pylist() == [b"a", b"g", None] and table["id"].to_pylist() == [None, None, 7]
    text = pyarrow.schema([("key", pyarrow.large_string()), ("value", pyarrow.string())])
    reader = pyarrow.RecordBatchReader.from_stream(pack.scan(order="key"), schema=None)
    assert reader.schema.field("key").type == pyarrow.large_binary()
    capsule = pack.scan(order="key").__arrow_c_stream__(text.__arrow_c_schema__())
    asked = pyarrow.RecordBatchReader._import_from_c_capsule(capsule).read_all()
    assert asked["key"].to_pylist() == ["a", "g", None] and asked["value"].to_pylist() == ["alpha", "in a group", "seven"]
    typed = pack.scan(columns={"number": "timestamp", "key": "string", "label": "binary"}, start="b").to_table()
    assert typed.column_names == ["number", "key", "label"] and typed["label"].to_pylist()[0] == b"x"
    assert typed["number"][0].value == -3
    assert pack.scan(columns={"number": "int64"}).column_types() == {"number": "int64"}


def test_nothing_is_left_out_in_silence(tmp_path: Path) -> None:
    with stook.Pack(tmp_path / "data.stook", "x") as writer:
        writer.update((f"{number:05}", b"") for number in range(9000))
        writer.put("last", b"", attributes={"rare": 1})
        writer.put("other", b"", attributes={"rare": "text"})
    pack = stook.Pack(tmp_path / "data.stook")
    with pytest.raises(stook.InvalidError, match="last has the attribute rare, and none of the first records has one"):
        pack.scan().to_table()
    with pytest.raises(stook.InvalidError, match="none of the first 8192 records has the attribute rare"):
        pack.scan(columns=["key", "rare"]).to_table()
    with pytest.raises(stook.InvalidError, match='other has the text "text" in the column rare, which has the type int64'):
        pack.scan(columns={"key": None, "rare": "int64"}).to_table()
    with pytest.raises(stook.InvalidError, match="has the type int64 in last and string in other"):
        pack.scan(start="last").to_table()
    assert pack.scan(columns={"rare": "int64"}, end="other").to_table()["rare"].null_count == 9000
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"columns": []}, "one column or more"),
        ({"columns": ["key", "key"]}, "asked for twice"),
        ({"columns": {"key": "uint64"}}, "cannot have uint64"),
        ({"columns": {"key": "float"}}, "not \"float\""),
        ({"columns": ["key", 5]}, "columns are names"),
        ({"columns": ""}, "empty"),
        ({"where": "label"}, "argument 'where'"),
        ({"where": {"label": 1.5}}, "attributes are int, str or bytes"),
    ]
    for options, message in wrong:
        with pytest.raises((stook.InvalidError, TypeError), match=message):
            pack.scan(**options).to_table()


def test_an_empty_pack_is_an_empty_table(tmp_path: Path) -> None:
    with stook.Pack(tmp_path / "empty.stook", "x"):
        pass
    table = stook.Pack(tmp_path / "empty.stook").scan().to_table()
    assert table.num_rows == 0 and table.column_names == ["key", "value"]


def test_progress_and_damage_are_those_of_tables_too(pack: stook.Pack) -> None:
    seen: list[tuple[int, int]] = []
    pack.scan(progress=lambda records, size: seen.append((records, size))).to_table()
    assert seen[-1] == (len(pack), sum(len(value) for value in pack.values()))

    def raises(records: int, size: int) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        pack.scan(progress=raises).to_table()
    # A consumer that lets go of the interpreter, in a thread of its own.
    reader = pyarrow.RecordBatchReader.from_stream(pack.scan(progress=lambda *numbers: None))
    thread = threading.Thread(target=reader.read_all)
    thread.start()
    thread.join()


def test_without_pyarrow_it_is_said(pack: stook.Pack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match="to_table makes a table of pyarrow"):
        pack.scan().to_table()


def test_ctrl_c_ends_a_table(tmp_path: Path) -> None:
    with stook.Pack(tmp_path / "data.stook", "x") as writer:
        writer.update((f"{number:04}", bytes(1 << 16)) for number in range(2000))
    scan = stook.Pack(tmp_path / "data.stook").scan(progress=lambda records, size: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        scan.to_table()


def test_polars_reads_a_pack(pack: stook.Pack) -> None:
    frame = polars.DataFrame(pack.scan())
    assert frame.shape == (len(pack), 5) and frame.schema["value"] == polars.Binary
    counted = frame.group_by("label").len().sort("label")
    assert counted["label"].to_list() == sorted(LABELS) and counted["len"].sum() == len(pack)
    assert rows(frame.to_arrow()) == wanted(pack)


def test_duckdb_reads_a_pack(pack: stook.Pack) -> None:
    scan = pack.scan(columns=["key", "value", "label"])
    relation = duckdb.sql("select label, count(*), sum(octet_length(value)) from scan group by label order by label")
    expected = [
        (label, len(some), sum(len(row["value"]) for row in some))
        for label in sorted(LABELS)
        for some in [[row for row in wanted(pack) if row["label"] == label]]
    ]
    assert relation is not None and relation.fetchall() == expected
    # The same object again: every query begins a stream.
    again = duckdb.sql("select count(*) from scan")
    assert again is not None and again.fetchall() == [(len(pack),)]


def test_pandas_reads_a_pack(pack: stook.Pack) -> None:
    frame = pandas.DataFrame.from_arrow(pack.scan())
    assert len(frame) == len(pack) and sorted(set(frame["label"])) == sorted(LABELS)
    assert sorted(frame["key"]) == [row["key"] for row in wanted(pack)]


def test_hugging_face_datasets_read_a_pack(pack: stook.Pack) -> None:
    # In a process of its own: a module of these tests has the same name.
    script = f"""
import datasets, stook
dataset = datasets.Dataset(stook.Pack({str(pack.path)!r}).scan().to_table())
cats = dataset.filter(lambda label: label == "cat", input_columns="label")
print(dataset.num_rows, cats.num_rows, sum(map(len, cats["value"])))
"""
    reported = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True)
    cats = [row for row in wanted(pack) if row["label"] == "cat"]
    expected = f"{len(pack)} {len(cats)} {sum(len(row['value']) for row in cats)}"
    assert reported.stdout.splitlines()[-1:] == [expected], reported.stderr


def test_a_forked_child_is_refused(pack: stook.Pack) -> None:
    reader = pyarrow.RecordBatchReader.from_stream(pack.scan())
    script = f"""
import os, sys, stook
scan = stook.Pack({str(pack.path)!r}).scan()
child = os.fork()
if child == 0:
    try:
        scan.__arrow_c_stream__()
    except stook.InvalidError as error:
        os._exit(7 if "forked" in str(error) else 1)
    os._exit(2)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", script]).returncode == 7
    assert reader.read_all().num_rows == len(pack)


def test_the_guide_runs_as_one_session(tmp_path: Path) -> None:
    blocks = python_blocks(Path(__file__).parents[3] / "docs/guide/arrow.md")
    assert len(blocks) >= 3
    reported = subprocess.run([sys.executable, "-W", "ignore", "-c", "\n".join(blocks)], capture_output=True, text=True)
    assert reported.returncode == 0, reported.stderr


def test_times_are_times(filled: Path) -> None:
    before = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=1)
    times = stook.Pack(filled).scan(columns="time").to_table()["time"].to_pandas()
    assert (times > before).all()
