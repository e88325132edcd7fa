"""Records in a seeded order: every one once an epoch, by any other reader too."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stook


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("numbers") / "numbers.stook"
    with stook.Pack(path, "x") as pack:
        for number in range(700):
            pack.put(number, bytes([number % 256]) * 700, group="ab"[number % 2], attributes={"label": number % 10})
    return path


ONLY_FILES: list[Literal["file"]] = ["file"]


def keys(records: stook.StreamRecords) -> list[Any]:
    return [record.key for record in records]


stages = st.lists(
    st.tuples(st.integers(1, 4), st.integers(1, 4), st.lists(st.integers(0, 80), min_size=16, max_size=16)), max_size=3
)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(stages=stages, seed=st.integers(0, 2**64 - 1), epoch=st.integers(0, 3), lanes=st.integers(16, 64))
def test_every_record_comes_once_for_all_numbers_of_workers_and_ranks(
    numbers: Path, stages: list[tuple[int, int, list[int]]], seed: int, epoch: int, lanes: int
) -> None:
    stream = stook.Stream(numbers, seed=seed, lanes=lanes)
    seen: list[Any] = []
    state = stream.state(epoch)
    for world, workers, stops in stages:
        states = []
        for rank in range(world):
            for worker in range(workers):
                with stream.begin(state=state, rank=rank, world=world, worker=worker, workers=workers) as records:
                    stop = stops[rank * workers + worker]
                    seen += [record.key for _, record in zip(range(stop), records)]
                    # What was taken and not confirmed comes again.
                    records.take(7)
                    states.append(records.state())
        state = stook.Stream.merge(states)
        assert stook.Stream.describe(state) == {"epoch": epoch, "generation": stream.generation, "records": len(seen)}
    seen += keys(stream.begin(state=state))
    assert sorted(seen) == list(range(700))


def test_a_seed_and_an_epoch_are_an_order(numbers: Path) -> None:
    stream = stook.Stream(numbers, seed=1)
    orders = [keys(stream.begin(epoch)) for epoch in (0, 1, 0)]
    orders.append(keys(stook.Stream(numbers, seed=2).begin()))
    assert orders[0] == orders[2] and orders[0] not in (orders[1], orders[3]) and orders[1] != orders[3]
    in_order = stook.Stream(numbers, shuffle=False, lanes=1)
    assert keys(in_order.begin(5)) == [record.key for record in stook.Pack(numbers).scan()]
    assert (in_order.seed, in_order.lanes, stream.seed, len(stream)) == (None, 1, 1, 700)
    assert repr(stream) == f"<stook.Stream of 700 records of {numbers}>"


def test_a_selection_has_attributes_and_groups(numbers: Path) -> None:
    stream = stook.Stream(numbers, group="b", start=100, kinds=iter(ONLY_FILES))
    records = list(stream.begin())
    assert {record.key for record in records} == set(range(101, 700, 2)) and records[0].group == "b"
    assert all(record.attributes["label"] == record.key % 10 for record in records)
    assert sorted(keys(pickle.loads(pickle.dumps(stream)).begin())) == sorted(record.key for record in records)


def test_a_selection_by_attributes_is_that_of_scans_and_its_states_are_of_no_other(numbers: Path) -> None:
    some = stook.Stream(numbers, where={"label": [3, 5]})
    wanted = {number for number in range(700) if number % 10 in (3, 5)}
    epoch = some.begin()
    seen = [next(epoch).key for _ in range(50)]
    again = pickle.loads(pickle.dumps(some))
    rest = keys(again.begin(state=epoch.state()))
    assert sorted([*seen, *rest]) == sorted(wanted) and len(some) == len(again) == 140
    assert sorted(keys(stook.Stream(numbers, where={"label": 3}, keys=range(30)).begin())) == [3, 13, 23]
    for other in ({}, {"where": {"label": [3, 6]}}, {"where": {"label": [3]}}):
        with pytest.raises(stook.InvalidError, match="of another selection|number of records"):
            stook.Stream(numbers, **other).begin(state=epoch.state())  # type: ignore[arg-type]
    for hopeless in ({"lable": 3}, {"label": "3"}, {"key": 3}):
        with pytest.raises(stook.InvalidError):
            stook.Stream(numbers, where=hopeless)
    loader = stook.loader(numbers, batch=20, where={"label": 3}, decode=lambda record: record.attributes["label"])
    assert [set(batch) for batch in loader] == [{3}] * 4
    with pytest.raises(stook.AddressError):
        stook.Stream("s3://bucket/numbers.stook")
    with pytest.raises(stook.AddressError):
        stook.loader("s3://bucket/numbers.stook")


def test_keys_that_are_given_come_once_each(numbers: Path) -> None:
    stream = stook.Stream(numbers, keys=iter([5, 699, 7, 5]))
    assert sorted(keys(stream.begin())) == [5, 7, 699]
    assert sorted(keys(pickle.loads(pickle.dumps(stream)).begin(1))) == [5, 7, 699]
    assert keys(stook.Stream(numbers, keys=[5, 8], group="a").begin()) == [8]
    assert keys(stook.Stream(numbers, keys=[5, 8], kinds="directory").begin()) == []
    with pytest.raises(stook.InvalidError, match="no record id:700"):
        stook.Stream(numbers, keys=[5, 700])
    with pytest.raises(stook.InvalidError, match="split"):
        stook.Stream(numbers, keys=[5], split=stook.Pack(numbers).splits(2)[0])
    with pytest.raises(TypeError, match="keys"):
        stook.Stream(numbers, keys="5")


def test_ranks_have_the_same_number_of_records(numbers: Path) -> None:
    stream = stook.Stream(numbers, even=True)
    assert len(stream) == 640
    for world in (1, 2, 8, 64):
        assert [stream.count(rank=rank, world=world) for rank in range(world)] == [640 // world] * world
    assert len(keys(stream.begin(rank=3, world=8))) == 80


def test_what_makes_no_sense_is_refused(numbers: Path) -> None:
    stream = stook.Stream(numbers)
    wrong: list[tuple[str, Callable[[], object]]] = [
        ("lanes", lambda: stook.Stream(numbers, lanes=0)),
        ("argument 'lanes'", lambda: stook.Stream(numbers, lanes=-1)),
        ("window_bytes", lambda: stook.Stream(numbers, window_bytes=1)),
        ("argument 'seed'", lambda: stook.Stream(numbers, seed=-1)),
        ("group", lambda: stook.Stream(numbers, group="none")),
        ("on_damage", lambda: stook.Stream(numbers, on_damage="x")),  # type: ignore[arg-type]
        ("no rank 1 of 1", lambda: stream.begin(rank=1)),
        ("no worker 2 of 2", lambda: stream.begin(worker=2, workers=2)),
        ("lanes=65 or more", lambda: stream.begin(world=65)),
        ("threads", lambda: stream.begin(threads=0)),
        ("argument 'epoch'", lambda: stream.begin(-1)),
        ("one of epoch and state", lambda: stream.begin(1, state=stream.state())),
        ("shuffle", lambda: stream.begin(state="x")),
        ("seed", lambda: stream.begin(state=stook.Stream(numbers, seed=5).state())),
        ("merge those of all", lambda: stream.begin(state=stream.begin(world=2).state())),
        ("no state", lambda: stook.Stream.merge([])),
        ("epoch 0 and epoch 1", lambda: stook.Stream.merge([stream.state(0), stream.state(1)])),
    ]
    for word, call in wrong:
        with pytest.raises(stook.InvalidError, match=word):
            call()
    with pytest.raises(FileNotFoundError):
        stook.Stream("none.stook")
    with pytest.raises(TypeError):
        stook.Stream(numbers, shuffle="yes")  # type: ignore[arg-type]


def test_a_pack_that_grows_is_read_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "data.stook"
    with stook.Pack(path, "x") as pack:
        pack.update({number: b"old" for number in range(100)})
    stream = stook.Stream(path)
    records = stream.begin()
    seen = [record.key for _, record in zip(range(30), records)]
    state = records.state()
    with stook.Pack(path, "r+") as pack:
        pack.update({number: b"new" for number in range(50, 150)})
        pack.compact()
    later = stook.Stream(path)
    assert later.generation != stream.generation and len(later) == 150
    with pytest.raises(stook.InvalidError, match="generation"):
        later.begin(state=state)
    # The stream that began holds its generation.
    resumed = later.resumed(state)
    rest = list(resumed.begin(state=state))
    assert resumed.generation == stream.generation and {bytes(record) for record in rest} == {b"old"}
    assert sorted(seen + [record.key for record in rest]) == list(range(100))
    assert sorted(seen + keys(records)) == list(range(100))


def test_a_generation_that_is_gone_and_another_pack_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "data.stook"
    with stook.Pack(path, "x") as pack:
        pack.update({number: b"old" for number in range(100)})
    # Another process, so that none here holds the generation.
    begun = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", f"import stook; print(stook.Stream({str(path)!r}).state())"],
        capture_output=True, text=True, check=True,
    )
    state = begun.stdout.strip()
    for number in range(3):
        with stook.Pack(path, "r+") as pack:
            pack[number] = b"new"
            pack.compact()
    with pytest.raises(stook.NoSuchStateError, match="begin a new epoch"):
        stook.Stream(path).resumed(state)
    other = tmp_path / "other.stook"
    with stook.Pack(other, "x") as pack:
        pack.update({number: b"old" for number in range(100)})
    with pytest.raises(stook.InvalidError, match="is of the pack"):
        stook.Stream(other).resumed(state)


def test_a_state_is_continued_after_any_number_of_appends(tmp_path: Path) -> None:
    path = tmp_path / "data.stook"
    with stook.Pack(path, "x", segment_bytes=1 << 20) as pack:
        pack.update({number: bytes([number]) * 9000 for number in range(250)})
    stream = stook.Stream(path)
    records = stream.begin()
    seen = {record.key: bytes(record) for _, record in zip(range(90), records)}
    state, generation = records.state(), stream.generation
    kept = pickle.dumps(stream)
    records.close()
    del records, stream
    for number in range(4):
        with stook.Pack(path, "r+") as pack:
            pack.update({number: b"new", 1000 + number: b"new"})
            del pack[200 + number]
    with pytest.raises(stook.NoSuchStateError):
        stook.Pack(path, generation=generation)
    stream = stook.Stream(path).resumed(state)
    assert (stream.generation, len(stream)) == (generation, 250)
    for other in (stream, pickle.loads(kept), pickle.loads(pickle.dumps(stream))):
        rest = {record.key: bytes(record) for record in other.begin(state=state)}
        assert len(rest) == 160 and {**seen, **rest} == {number: bytes([number]) * 9000 for number in range(250)}


def test_messages_say_how_an_earlier_generation_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "data.stook"
    with stook.Pack(path, "x") as pack:
        pack.update({number: b"old" for number in range(10)})
    split, generation = stook.Pack(path).splits(1)[0], stook.Pack(path).info().generation
    with stook.Pack(path, "r+") as pack:
        del pack[3]
    selections: list[dict[str, Any]] = [{"split": split}, {"keys": [1, 3]}]
    for wrong in selections:
        with pytest.raises(stook.InvalidError, match="generation="):
            stook.Stream(path, **wrong)
    assert len(stook.Stream(path, split=split, generation=generation)) == 10
    assert len(stook.Stream(path, keys=[1, 3], generation=generation)) == 2


def flip_in_place(pack: Path, content: bytes) -> None:
    """Flips a bit of these bytes while others read the files."""
    for segment in pack.glob("segment-*"):
        at = segment.read_bytes().find(content)
        if at >= 0:
            with segment.open("r+b") as file:
                file.seek(at)
                file.write(bytes([content[0] ^ 1]))
            return
    raise AssertionError(f"{content!r} is in no segment")


def test_damaged_records_end_an_epoch_or_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "data.stook"
    with stook.Pack(path, "x") as pack:
        pack.update({f"{number}": b"<%d>" % number * 50 for number in range(100)})
    stream = stook.Stream(path)
    order = keys(stream.begin())
    records = stream.begin()
    seen = [next(records).key for _ in range(5)]
    # The last is not read ahead yet.
    broken = str(order[-1])
    flip_in_place(path, f"<{broken}>".encode() * 50)
    with pytest.raises(stook.DamagedError, match="of the selection") as raised:
        seen += [record.key for record in records]
    assert raised.value.key == broken and raised.value.file is not None
    rest = stream.begin(state=records.state())
    with pytest.raises(stook.DamagedError):
        seen += [record.key for record in rest]
    with pytest.raises(StopIteration):
        next(rest)
    stream = stook.Stream(path, on_damage="skip")
    records = stream.begin()
    assert sorted(keys(records)) == sorted(f"{number}" for number in range(100) if f"{number}" != broken)
    assert records.skipped == 1 and [damage.key for damage in records.damages] == [broken]
    assert stream.is_over(records.state()) and keys(stream.begin(state=records.state())) == []


def test_an_iteration_belongs_to_its_process(numbers: Path) -> None:
    stream = stook.Stream(numbers)
    records = stream.begin()
    next(records)
    child = os.fork()
    if child == 0:
        try:
            next(records)
        except stook.InvalidError:
            # Nothing that the parent has is touched when it is dropped.
            del records
            os._exit(0 if len(keys(stream.begin())) == 700 else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert len(keys(records)) == 699
