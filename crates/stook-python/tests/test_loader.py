"""Batches in one line: in order, resumed exactly, ended at once."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from pathlib import Path
from typing import Any, Callable, NamedTuple, Optional

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stook
from memory_use import resident_bytes
from stook._collate import collate


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("images") / "images.stook"
    with stook.Pack(path, "x") as pack:
        for number in range(500):
            pack.put(number, bytes([number % 256]) * 300, attributes={"label": number % 10})
    return path


def decoded(record: stook.Record) -> tuple[np.ndarray, int]:
    array = np.frombuffer(record.value, dtype=np.uint8).reshape(10, 30)
    return array, int(record.attributes["label"])


def number_of(record: stook.Record) -> int:
    assert isinstance(record.key, int)
    return record.key


def threads_of_loaders() -> tuple[int, int]:
    """How many threads read, and how many decode."""
    names = []
    for path in Path("/proc/self/task").iterdir():
        # One that has just ended has none.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            names.append(path.joinpath("comm").read_text())
    decoding = [thread.name for thread in threading.enumerate()].count("stook-decode")
    return sum(name.startswith("stook-shuffle") for name in names), decoding


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < end, "it never was"
        time.sleep(0.01)


def test_one_line_gives_shuffled_batches_of_arrays(images: Path) -> None:
    loader = stook.loader(images, batch=64, decode=decoded)
    assert len(loader) == 8 and repr(loader) == f"<stook.Loader of 500 records of {images}>"
    orders = []
    for epoch in range(3):
        assert loader.epoch == epoch
        numbers: list[int] = []
        for pictures, labels in loader:
            assert pictures.shape[1:] == (10, 30) and pictures.dtype == np.uint8 and labels.dtype == np.int64
            assert len(pictures) == len(labels)
            numbers += pictures[:, 0, 0].tolist()
        assert sorted(numbers) == sorted(number % 256 for number in range(500))
        orders.append(numbers)
    assert orders[0] != orders[1] != orders[2]
    loader.set_epoch(1)
    assert [number for pictures, _ in loader for number in pictures[:, 0, 0]] == orders[1]


def test_what_no_array_holds_is_a_list() -> None:
    assert collate([b"a", "b", None]) == [b"a", "b", None] and collate([1 << 70, 2]) == [1 << 70, 2]
    of_fields = collate([{"x": 1.5, "y": "a"}, {"x": 2, "y": None}])
    assert of_fields["x"].tolist() == [1.5, 2.0] and of_fields["y"] == ["a", None]
    mixed: Any = collate([True, 2]), collate([np.int8(1), 2]), collate([True, False]), collate([np.float32(1)] * 2)
    assert [batch.dtype.name for batch in mixed] == ["int64", "int64", "bool", "float32"]

    class Labelled(NamedTuple):
        image: Any
        label: Any

    batch = collate([Labelled(np.zeros(2), 1), Labelled(np.ones(2), 2)])
    assert type(batch) is Labelled and batch.image.shape == (2, 2) and batch.label.tolist() == [1, 2]


def test_a_batch_does_not_change_its_type_with_its_content(images: Path) -> None:
    wrong: list[tuple[str, list[Any]]] = [
        (r"sample 0 has an array of \(2,\), float64, sample 2 an array of \(3,\)", [np.zeros(2), np.zeros(2), np.zeros(3)]),
        ("float32", [np.zeros(2), np.zeros(2, np.float32)]),
        ("a int, sample 1 a str", [1, "a"]),
        ("a tuple of 2, sample 1 a tuple of 1", [(1, 2), (1,)]),
        ("a NoneType", [(1, 2), None]),
        ("a dict with 'x'", [{"x": 1}, {"x": 1, "y": 2}]),
        ("a tuple", [[1], (1,)]),
    ]
    for text, samples in wrong:
        with pytest.raises(stook.InvalidError, match=text):
            collate(samples)

    def ragged(record: stook.Record) -> tuple[np.ndarray, int]:
        return np.zeros(3 if record.key == 7 else 2), 0

    with pytest.raises(stook.InvalidError, match="the record 0 has an array .* the record 7 an array"):
        list(stook.loader(images, batch=100, shuffle=False, decode=ragged))
    assert len(next(iter(stook.loader(images, batch=100, shuffle=False, decode=ragged, collate=list)))) == 100


def test_the_type_of_a_batch_does_not_depend_on_imports(images: Path) -> None:
    script = f"""
        import stook
        batch = next(iter(stook.loader({str(images)!r}, batch=4, decode=lambda record: 1)))
        print(type(batch).__module__, type(batch).__name__)
    """
    run = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout == "numpy ndarray\n"


def test_batches_are_in_order_whatever_decodes_first(images: Path) -> None:
    def slow(record: stook.Record) -> int:
        time.sleep(0.002 if number_of(record) % 3 == 0 else 0)
        return number_of(record)

    options: dict[str, Any] = {"batch": 32, "shuffle": False, "prefix": None}
    wanted = [number_of(record) for record in stook.Pack(images).scan()]
    for threads, ahead in ((1, 0), (4, 2), (7, 5)):
        loader = stook.loader(images, decode=slow, threads=threads, ahead=ahead, readers=2, **options)
        assert [number for batch in loader for number in batch.tolist()] == wanted
    assert [record.key for batch in stook.loader(images, **options) for record in batch] == wanted
    assert [record.key for record in stook.loader(images, shuffle=False)] == wanted
    full = stook.loader(images, batch=64, drop_last=True)
    assert [len(batch) for batch in full] == [64] * 7 and len(full) == 7


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    stages=st.lists(st.tuples(st.integers(1, 4), st.lists(st.integers(0, 9), min_size=4, max_size=4)), max_size=3),
    batch=st.integers(1, 40),
    is_decoded=st.booleans(),
)
def test_an_epoch_is_continued_exactly(
    images: Path, stages: list[tuple[int, list[int]]], batch: int, is_decoded: bool
) -> None:
    seen: list[int] = []

    def begun(rank: int, world: int, states: list[Any]) -> stook.Loader:
        loader = stook.loader(
            images, batch=batch, seed=3, decode=number_of if is_decoded else None, threads=2, rank=rank, world=world
        )
        if states:
            loader.load_state_dict(states)
        return loader

    def numbers(samples: Any) -> list[int]:
        return samples.tolist() if is_decoded else [record.key for record in samples]

    states: list[Any] = []
    for world, stops in stages:
        begin, states = states, []
        for rank in range(world):
            loader = begun(rank, world, begin)
            batches = iter(loader)
            for _, samples in zip(range(stops[rank]), batches):
                seen += numbers(samples)
            states.append(loader.state_dict())
            loader.close()
            assert loader.state_dict() == states[-1]
        if len(seen) == 500:
            break
    loader = begun(0, 1, states)
    if loader.epoch == 0:
        seen += [number for samples in loader for number in numbers(samples)]
    assert sorted(seen) == list(range(500))


def test_a_state_continues_the_same_order_and_then_the_next_epoch(images: Path) -> None:
    def begun() -> stook.Loader:
        return stook.loader(images, batch=30, decode=number_of)

    whole = begun()
    epochs = [[batch.tolist() for batch in whole] for _ in range(2)]
    first = begun()
    batches = iter(first)
    some = [next(batches).tolist() for _ in range(5)]
    state = first.state_dict()
    assert first.state_dict() == state
    second = begun()
    second.load_state_dict({"loader": state, "model": [1, 2]})
    assert second.state_dict()["stook.Stream"] == state["stook.Stream"]
    assert some + [batch.tolist() for batch in second] == epochs[0]
    assert second.epoch == 1 and [batch.tolist() for batch in second] == epochs[1]
    # After the last batch the next epoch comes, whether its end was seen or not.
    for steps in (17, 18):
        at_end = stook.loader(images, batch=30, decode=number_of, drop_last=steps == 18)
        batches = iter(at_end)
        for _ in range(steps):
            next(batches, None)
        third = begun()
        third.load_state_dict(at_end.state_dict())
        assert third.epoch == 1 and [batch.tolist() for batch in third] == epochs[1]
    # So it does after one that was left.
    next(iter(third))
    assert third.epoch == 2 and next(iter(third)).tolist() != epochs[0][0] and third.epoch == 3
    for wrong in ({}, {"stook.Stream": 5}, [1], stook.loader(images, seed=9).state_dict()):
        with pytest.raises(stook.InvalidError):
            third.load_state_dict(wrong)


def test_a_decoder_that_raises_gives_its_error_with_the_key(images: Path) -> None:
    def picky(record: stook.Record) -> int:
        if record.key == 321:
            raise ValueError("no picture")
        return number_of(record)

    whole = [batch.tolist() for batch in stook.loader(images, batch=20, decode=number_of)]
    loader = stook.loader(images, batch=20, decode=picky, threads=3)
    batches, seen = iter(loader), []
    with pytest.raises(stook.DecodeError, match="record 321 was not decoded: ValueError: no picture") as raised:
        while True:
            seen.append(next(batches).tolist())
    assert raised.value.key == 321 and isinstance(raised.value.__cause__, ValueError)
    # All before it came, and the state is there.
    assert seen == whole[: len(seen)] and 321 in whole[len(seen)]
    with pytest.raises(StopIteration):
        next(batches)
    mended = stook.loader(images, batch=20, decode=number_of)
    mended.load_state_dict(loader.state_dict())
    assert seen + [batch.tolist() for batch in mended] == whole

    def broken(samples: Any) -> Any:
        raise RuntimeError("collate")

    with pytest.raises(RuntimeError, match="collate"):
        next(iter(stook.loader(images, batch=2, decode=number_of, collate=broken)))


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    bad=st.sets(st.integers(0, 499), max_size=60), batch=st.none() | st.integers(1, 40), stop=st.integers(0, 30),
    shuffle=st.booleans(), drop_last=st.booleans(),
)
def test_records_that_are_not_decoded_are_passed_over(
    images: Path, bad: set[int], batch: Optional[int], stop: int, shuffle: bool, drop_last: bool
) -> None:
    def picky(record: stook.Record) -> int:
        if record.key in bad:
            raise ValueError(f"no picture {record.key}")
        return number_of(record)

    def begun() -> stook.Loader:
        return stook.loader(
            images, batch=batch, shuffle=shuffle, decode=picky, on_error="skip", threads=2, drop_last=drop_last
        )

    def numbers(samples: Any) -> list[int]:
        return [samples] if batch is None else samples.tolist()

    good = 500 - len(bad)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        loader = begun()
        batches = iter(loader)
        some = [numbers(samples) for samples in batches]
    assert [w.category for w in warned] == [stook.DecodeWarning] * bool(bad)
    sizes = [len(one) for one in some]
    whole, rest = divmod(good, batch or 1)
    assert sizes == [batch or 1] * whole + ([rest] if rest and not drop_last else [])
    assert batches.failed == len(bad) == loader.state_dict()["failed"] and len(batches.errors) == min(16, len(bad))
    assert {error.key for error in batches.errors} <= bad
    # All was handed out: what failed, too.
    assert stook.Stream.describe(loader.state_dict()["stook.Stream"])["records"] == 500
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = begun()
        seen = [number for _, samples in zip(range(stop), first) for number in numbers(samples)]
        second = begun()
        second.load_state_dict(first.state_dict())
        first.close()
        if second.epoch == 0:
            seen += [number for samples in second for number in numbers(samples)]
    assert seen == [number for one in some for number in one]


def test_only_exceptions_are_passed_over(images: Path) -> None:
    def leaving(record: stook.Record) -> int:
        raise SystemExit(3)

    with pytest.raises(stook.DecodeError, match="SystemExit"):
        next(iter(stook.loader(images, batch=2, decode=leaving, on_error="skip")))
    with pytest.raises(stook.InvalidError, match="on_error is 'raise' or 'skip'"):
        stook.loader(images, on_error="ignore")  # type: ignore[arg-type]


def test_an_unshuffled_epoch_is_continued_by_another_number_of_ranks(images: Path) -> None:
    def begun(rank: int, world: int) -> stook.Loader:
        return stook.loader(images, batch=10, shuffle=False, decode=number_of, rank=rank, world=world)

    one = begun(0, 1)
    seen = [number for _, batch in zip(range(7), one) for number in batch.tolist()]
    assert seen == [number_of(record) for record in stook.Pack(images).scan()][:70]
    states: Any = one.state_dict()
    for world in (2, 1, 3):
        loaders = [begun(rank, world) for rank in range(world)]
        for loader in loaders:
            loader.load_state_dict(states)
            seen += [number for _, batch in zip(range(3), loader) for number in batch.tolist()]
        states = [loader.state_dict() for loader in loaders]
    last = begun(0, 1)
    last.load_state_dict(states)
    seen += [number for batch in last for number in batch.tolist()]
    assert sorted(seen) == list(range(500))


def test_nothing_to_read_is_refused(images: Path) -> None:
    selections: list[dict[str, Any]] = [{"prefix": "dgo/"}, {"keys": []}, {"kinds": "symlink"}]
    for selection in selections:
        with pytest.raises(stook.InvalidError, match=f"nothing to read in .*{next(iter(selection))}="):
            stook.loader(images, **selection)
    with pytest.raises(stook.InvalidError, match="even=True"):
        stook.loader(images, even=True, lanes=501)
    # One of many splits of a small pack may have nothing.
    splits = stook.Pack(images).splits(8)
    assert sum(len(list(stook.loader(images, split=split))) for split in splits) == 500


def test_damage_comes_after_what_is_whole_or_is_skipped(tmp_path: Path, damage: Callable[[Path, bytes], None]) -> None:
    path = tmp_path / "data.stook"
    with stook.Pack(path, "x") as pack:
        pack.update({number: b"<%d>" % number * 50 for number in range(100)})
    damage(path, b"<70>" * 50)
    seen: list[int] = []
    with pytest.raises(stook.DamagedError):
        for batch in stook.loader(path, batch=8, shuffle=False, decode=number_of):
            seen += batch.tolist()
    # Damage that is known when the pack is opened is said at once, as scans do.
    assert seen in ([], list(range(64)))
    skipping = stook.loader(path, batch=8, shuffle=False, decode=number_of, on_damage="skip")
    batches = iter(skipping)
    assert [number for batch in batches for number in batch.tolist()] == [*range(70), *range(71, 100)]
    assert batches.skipped == 1 and [error.key for error in batches.damages] == [70]


def test_closing_frees_threads_and_so_does_dropping(images: Path) -> None:
    gc.collect()

    def are_gone() -> bool:
        return threads_of_loaders() == (0, 0)

    wait_until(are_gone)
    with stook.loader(images, batch=8, decode=number_of, threads=5, readers=3) as loader:
        next(iter(loader))
        wait_until(lambda: 1 <= threads_of_loaders()[0] <= 3 and threads_of_loaders()[1] == 5)
    wait_until(are_gone)
    loader = stook.loader(images, batch=8, decode=number_of, threads=5, readers=3)
    batches = iter(loader)
    next(batches)
    del loader, batches
    gc.collect()
    wait_until(are_gone)
    for batch in stook.loader(images, batch=8, decode=number_of, threads=5):
        break
    gc.collect()
    wait_until(are_gone)


def test_memory_stays_over_twenty_epochs(tmp_path: Path) -> None:
    path = tmp_path / "data.stook"
    with stook.Pack(path, "x") as pack:
        pack.update((number, bytes([number % 256]) * 20_000) for number in range(800))
    loader = stook.loader(path, batch=50, decode=lambda record: len(record.value), threads=2, window_bytes=1 << 20)
    used = []
    for epoch in range(20):
        assert sum(int(batch.sum()) for batch in loader) == 16_000_000
        used.append(resident_bytes())
    # It would be 16 MB an epoch.
    assert used[-1] - used[4] < 16_000_000, used


def test_ctrl_c_works_at_once_and_the_program_ends(images: Path) -> None:
    script = f"""
        import os, time, stook
        def slow(record):
            # In one piece: two threads print.
            os.write(1, b"begun\\n")
            time.sleep(600)
        try:
            for batch in stook.loader({str(images)!r}, batch=4, decode=slow, threads=2):
                pass
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """
    program = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "begun\n"
            process.send_signal(signal.SIGINT)
            # It would be ten minutes.
            rest, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert rest.endswith("interrupted\n") and process.returncode == 0


def test_whole_numbers_are_never_rounded() -> None:
    for numbers, dtype in ([[1, -2], "int64"], [[2**63, 1], "uint64"]):
        array = collate(numbers)
        assert array.dtype == dtype and array.tolist() == numbers
    assert collate([2**64, -1]) == [2**64, -1] and collate([2**63, -1]) == [2**63, -1]


def test_threads_share_an_iteration(images: Path) -> None:
    batches, seen = iter(stook.loader(images, batch=7, decode=number_of)), list[int]()

    def read() -> None:
        seen.extend(int(number) for batch in batches for number in batch)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(seen) == list(range(500))


def test_an_iteration_that_was_ended_does_not_look_complete(images: Path) -> None:
    loader = stook.loader(images, batch=10)
    first = iter(loader)
    next(first)
    second = iter(loader)
    with pytest.raises(stook.InvalidError, match="another one was begun"):
        next(first)
    assert sum(map(len, second)) == 500
    with pytest.raises(StopIteration):
        next(second)


def test_closing_from_another_thread_ends_one_that_waits(images: Path) -> None:
    may_end, begun = threading.Event(), threading.Event()

    def slow(record: stook.Record) -> None:
        begun.set()
        may_end.wait(60)

    loader, errors = stook.loader(images, batch=10, decode=slow, threads=2), []

    def read() -> None:
        try:
            list(loader)
        except stook.InvalidError as error:
            errors.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    begun.wait(60)
    loader.close()
    may_end.set()
    reader.join(60)
    assert not reader.is_alive() and len(errors) == 1


def test_ctrl_c_while_a_batch_is_made_loses_nothing(images: Path) -> None:
    calls = []

    def interrupted(samples: Any) -> list[int]:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return [record.key for record in samples]

    loader = stook.loader(images, batch=10, collate=interrupted)
    batches, seen = iter(loader), list[int]()
    while len(calls) < 6:
        with contextlib.suppress(KeyboardInterrupt):
            seen += next(batches)
    again = stook.loader(images, batch=10)
    again.load_state_dict(loader.state_dict())
    seen += [record.key for batch in again for record in batch]
    assert sorted(seen) == list(range(500))


def test_a_state_of_one_rank_is_no_state_of_all(images: Path) -> None:
    ranks = [stook.loader(images, batch=10, rank=rank, world=2) for rank in range(2)]
    seen = sum(map(len, ranks[0])) + len(next(iter(ranks[1])))
    one = stook.loader(images, batch=10)
    one.load_state_dict(ranks[0].state_dict())
    assert one.epoch == 0
    for _ in range(2):
        with pytest.raises(stook.InvalidError, match="merge those of all"):
            iter(one)
    one.load_state_dict([rank.state_dict() for rank in ranks])
    one.set_epoch(0)
    assert one.epoch == 0 and seen + sum(map(len, one)) == 500


def test_a_pack_that_lacks_records_is_no_whole_epoch(tmp_path: Path) -> None:
    path = tmp_path / "p.stook"
    with stook.Pack(path, "x") as pack:
        for group in "abc":
            for number in range(50):
                pack.put(f"{group}{number}", b"x" * 500, group=group)
        pack.compact()
    sorted(path.glob("segment*"))[1].rename(tmp_path / "gone")
    with pytest.raises(stook.DamagedError):
        stook.loader(path, batch=10)
    batches = iter(stook.loader(path, batch=10, on_damage="skip"))
    assert sum(map(len, batches)) == 100 and batches.damages
    with pytest.warns(stook.DamageWarning), stook.Pack(path) as pack:
        with pytest.raises(stook.DamagedError):
            pack.ordinals()
        assert len(pack.ordinals(on_damage="skip")) == 100


def test_a_fork_begins_again(images: Path) -> None:
    loader = stook.loader(images, batch=10, decode=number_of)
    batches = iter(loader)
    next(batches)
    child = os.fork()
    if child == 0:
        try:
            next(batches)
        except stook.InvalidError:
            own = stook.loader(images, batch=10, decode=number_of)
            os._exit(0 if sum(len(batch) for batch in own) == 500 and sum(map(len, loader)) == 500 else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert sum(len(batch) for batch in batches) == 490


def test_what_makes_no_sense_is_refused(images: Path, tmp_path: Path) -> None:
    wrong: list[dict[str, Any]] = [
        {"batch": 0}, {"batch": -1}, {"threads": 0}, {"readers": 0}, {"ahead": -1}, {"rank": 1}, {"world": 0},
        {"rank": -1}, {"lanes": 0}, {"seed": -1},
    ]
    for options in wrong:
        with pytest.raises(stook.InvalidError, match=next(iter(options))):
            stook.loader(images, **options)
    of_types: list[dict[str, Any]] = [
        {"batch": "8"}, {"batch": True}, {"decode": 5}, {"decode": "PIL"}, {"collate": False}, {"drop_last": "x"},
    ]
    for options in of_types:
        with pytest.raises(TypeError, match=f"argument '{next(iter(options))}'"):
            stook.loader(images, **options)
    with pytest.raises(stook.InvalidError, match="'readers': 1 to 64"):
        stook.loader(images, readers=65)
    with pytest.raises(FileNotFoundError):
        stook.loader(tmp_path / "none.stook")
    with pytest.raises(stook.AddressError, match="is an address"):
        stook.loader("s3://bucket/key.stook")
    empty = tmp_path / "empty.stook"
    stook.Pack(empty, "x").close()
    with pytest.raises(stook.InvalidError, match="nothing to read"):
        stook.loader(empty, batch=3)
