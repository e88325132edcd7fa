"""`stook.SparseBuffer`: every method, what it refuses, and all of it against a flat array."""

from __future__ import annotations

import gc
import pickle
import sys
import threading
from array import array
from typing import Any, Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stook
from memory_use import resident_bytes
from stook import SparseBuffer


def test_write_and_read() -> None:
    buffer = SparseBuffer()
    assert buffer.write(100, b"head") == 4
    assert buffer.write(104, bytearray(b"er")) == 2
    assert buffer.write(106, memoryview(b"__tail")[2:]) == 4
    assert buffer.write(110, array("H", [0x4241])) == 2
    numbers: Any = np.arange(2, dtype="<u4")
    assert buffer.write(112, numbers) == 8
    assert buffer.read(100, 12) == b"headertailAB"
    assert buffer.read(112, 8) == bytes([0, 0, 0, 0, 1, 0, 0, 0])
    assert buffer.read(100, 0) == b"" == buffer.read(5, 0)
    assert (buffer.end, buffer.held_bytes, buffer.extents()) == (120, 20, [(100, 120)])
    assert "20 bytes in 1 ranges" in repr(buffer)


@pytest.mark.parametrize("length", [1, 64, 65, 4096, 4097, 65536, 65537, 3_000_000])
def test_lengths_on_both_sides_of_every_way_of_copying(length: int) -> None:
    data = np.random.default_rng(length).bytes(length)
    for given_as in (bytes, bytearray, memoryview):
        buffer = SparseBuffer()
        assert buffer.write(7, given_as(data)) == length
        assert buffer.read(7, length) == data
        out = bytearray(length)
        assert buffer.readinto(7, out) == length
        assert out == data
        assert buffer.view(7, length) == data


def test_what_differs_is_written_as_the_policy_says() -> None:
    buffer = SparseBuffer()
    buffer.write(0, b"abc")
    with pytest.raises(stook.DiffersError, match="the byte at 1 is held already") as raised:
        buffer.write(0, b"aXcd")
    assert raised.value.offset == 1
    assert isinstance(raised.value, ValueError)
    assert buffer.extents() == [(0, 3)], "nothing was written"
    assert buffer.write(0, b"aXcd", "keep") == 1
    assert buffer.read(0, 4) == b"abcd"
    assert buffer.write(0, b"aXcd", on_difference="replace") == 0
    assert buffer.read(0, 4) == b"aXcd"


def test_what_is_not_held_is_reported_with_the_first_gap() -> None:
    buffer = SparseBuffer()
    buffer.write(10, b"ab")
    for length in (1, 5, 10_000, 1 << 60):
        with pytest.raises(stook.NotHeldError) as raised:
            buffer.read(11, 1 + length)
        assert raised.value.gap == (12, 12 + length)
        assert isinstance(raised.value, LookupError)
    out = bytearray(b"....")
    with pytest.raises(stook.NotHeldError, match="is not held"):
        buffer.readinto(10, out)
    assert out == b"...."
    with pytest.raises(stook.NotHeldError):
        buffer.view(0, 12)


@pytest.mark.parametrize("holder", ["buffer", "store", "file"])
def test_adopted_objects_are_let_go_with_what_held_them(holder: str) -> None:
    data: Any = np.ones(100_000, np.uint8)
    data.flags.writeable = False
    references = sys.getrefcount(data)
    if holder == "store":
        store: Any = stook.SparseStore()
        store.get_or_create("x").adopt(0, data)
    elif holder == "file":
        store = stook.SparseFile.from_fetch(lambda start, end: b"", len(data))
        store.buffer.adopt(0, data)
        assert store.read(0, 5) == b"\1" * 5
    else:
        store = SparseBuffer()
        store.adopt(0, data)
    assert sys.getrefcount(data) > references
    del store
    assert sys.getrefcount(data) == references


def test_adopted_objects_are_kept_without_a_copy_and_let_go() -> None:
    buffer = SparseBuffer()
    data = bytes(bytearray(range(256)) * 400)
    before = sys.getrefcount(data)
    assert buffer.adopt(5, data) == len(data)
    assert sys.getrefcount(data) == before + 1
    view = buffer.view(5, len(data))
    assert np.frombuffer(view, np.uint8).ctypes.data == np.frombuffer(data, np.uint8).ctypes.data
    buffer.clear()
    assert view == data, "a view outlives what it was of"
    del view
    buffer.erase(0, 1)
    assert sys.getrefcount(data) == before
    # What may be written to is copied.
    array_ = bytearray(data)
    buffer.adopt(0, array_)
    array_[0] = 99
    assert buffer.read(0, 1) == b"\0"
    # A read-only array is kept, through a view.
    numbers: Any = np.arange(20_000)
    numbers.flags.writeable = False
    before = sys.getrefcount(numbers)
    buffer.adopt(1 << 40, numbers)
    assert sys.getrefcount(numbers) > before
    assert buffer.read((1 << 40) + 8, 8) == numbers[1:2].tobytes()
    buffer.clear()
    assert sys.getrefcount(numbers) == before


def test_has_gaps_and_needs() -> None:
    buffer = SparseBuffer()
    buffer.write(100, b"x" * 100)
    buffer.write(300, b"x" * 100)
    assert buffer.has(100, 100) and not buffer.has(100, 101) and buffer.has(7, 0)
    assert buffer.gaps(0, 500) == [(0, 100), (200, 300), (400, 500)]
    assert buffer.need(0, 500) == [(0, 100), (200, 300), (400, 500)]
    assert buffer.need(0, 500, max_gap=100) == [(0, 500)]
    assert buffer.need(150, 100, min_len=512) == [(200, 712)]
    assert buffer.need(150, 100, min_len=512, end=600) == [(200, 600)]
    assert buffer.need(150, 100, alignment=64) == [(192, 256)]
    assert buffer.need(200, 100, max_len=60) == [(200, 260), (260, 300)]
    assert buffer.need_many([(410, 420), (0, 20), (15, 30)]) == [(0, 30), (410, 420)]
    lists: Any = iter([[0, 20], (100, 200)])
    assert buffer.need_many(lists, max_gap=50) == [(0, 20)]
    extent = buffer.extent_at(350)
    assert extent is not None and (extent.start, extent.end, extent.segments) == (300, 400, 1)
    assert buffer.extent_at(200) is None
    assert [segment[:2] for segment in buffer.segments()] == [(100, 200), (300, 400)]


def test_erase_evict_pin_and_touch() -> None:
    buffer = SparseBuffer(grain=100)
    for start in range(0, 1000, 100):
        buffer.write(start, b"x" * 100)
    assert buffer.erase(250, 100) == 100
    assert buffer.gaps(0, 1000) == [(250, 350)]
    with buffer.pin(0, 100) as pin:
        assert pin.range == (0, 100)
        assert "released" not in repr(pin)
        buffer.touch(500, 100)
        assert buffer.evict_to(200) == 700
        assert buffer.extents() == [(0, 100), (500, 600)], "what is pinned and what was touched last"
    assert "released" in repr(pin)
    pin.release()
    assert buffer.evict_to(0) == 200
    assert buffer.clear() == 0
    counters = buffer.counters()
    assert (counters.writes, counters.written_bytes) == (10, 1000)
    assert (counters.erased_bytes, counters.evicted_bytes) == (100, 900)
    assert counters.last_write_ns is not None and counters.last_read_ns is None


def test_whole_extents_are_found_erased_and_evicted() -> None:
    buffer = SparseBuffer(exact=True, grain=10)
    assert (buffer.exact, buffer.wipe, buffer.next_touch, buffer.extent_count) == (True, False, 1, 0)
    assert buffer.extent_before(5) is None is buffer.extent_after(5)
    for start in (300, 0, 100, 200):
        buffer.write(start, b"x" * 50)
    buffer.read(300, 1)
    assert buffer.extents_touched() == [(0, 50, 2), (100, 150, 3), (200, 250, 4), (300, 350, 5)]
    assert (buffer.next_touch, buffer.extent_count) == (6, 4)
    before, after = buffer.extent_before(99), buffer.extent_after(50)
    assert before is not None and after is not None
    assert (before.start, before.end, after.start) == (0, 50, 100)
    assert buffer.erase_extent(1) is None
    assert buffer.erase_extent(0) == 50
    with buffer.pin(120, 1):
        assert buffer.evict_extents(0, keep=2) == (1, 50)
        assert buffer.extents() == [(100, 150), (300, 350)], "what is pinned and what was touched last"
        assert buffer.evict_extents(60) == (1, 50)
    with pytest.raises(stook.DiffersError) as raised:
        buffer.write(100, b"xyz")
    assert (raised.value.offset, raised.value.held) == (101, ord("x"))
    assert buffer.next_touch == 6, "what was refused is no touch"
    buffer.modified_ns = 7
    assert buffer.reset() == 50
    assert (buffer.next_touch, buffer.extents(), buffer.modified_ns) == (1, [], 7)
    assert buffer.counters() == SparseBuffer().counters()


def test_options_are_kept_in_the_serialised_form() -> None:
    buffer = SparseBuffer(exact=True, wipe=True)
    buffer.write(0, b"x")
    again = pickle.loads(pickle.dumps(buffer))
    assert (again.exact, again.wipe, again.next_touch) == (True, True, 2)
    assert stook.SparseStore(exact=True).get_or_create("x").exact


def test_a_budget_is_kept_and_pins_are_over_it() -> None:
    buffer = SparseBuffer(budget_bytes=1 << 20)
    assert buffer.budget_bytes == 1 << 20
    assert SparseBuffer().budget_bytes is None
    pin = buffer.pin(0, 1 << 20)
    for start in range(0, 4 << 20, 1 << 16):
        buffer.write(start, bytes(1 << 16))
    assert buffer.has(0, 1 << 20)
    del pin
    gc.collect()
    assert buffer.held_bytes <= 1 << 20


def test_the_serialised_form_and_pickles() -> None:
    buffer = SparseBuffer(grain=1000, budget_bytes=10**6, adopt_min=5000)
    buffer.write(5, b"some bytes")
    buffer.read(5, 1)
    buffer.modified_ns = 17
    for again in (SparseBuffer.from_bytes(buffer.to_bytes()), pickle.loads(pickle.dumps(buffer))):
        assert again.read(5, 10) == b"some bytes"
        assert (again.grain, again.budget_bytes, again.adopt_min, again.modified_ns) == (1000, 10**6, 5000, 17)
        assert again.counters().writes == 1
        assert again != buffer
    buffer.modified_ns = None
    assert buffer.modified_ns is None
    damaged = bytearray(buffer.to_bytes())
    damaged[-30] ^= 1
    with pytest.raises(stook.DamagedError, match="checksum"):
        SparseBuffer.from_bytes(damaged)
    with pytest.raises(stook.DamagedError, match="ends before"):
        SparseBuffer.from_bytes(buffer.to_bytes()[:-1])
    with pytest.raises(stook.UnsupportedError, match="no sparse file"):
        SparseBuffer.from_bytes(b"something else altogether")


def test_what_it_was_made_with_and_what_it_moved() -> None:
    buffer = SparseBuffer(first_touch=1 << 40)
    assert (buffer.first_touch, buffer.grain, buffer.adopt_min) == (1 << 40, 65_536, 16_384)
    assert buffer.work() == (0, 0)
    for position in range(0, 100_000, 50):
        buffer.write(100_000 - position, b"x")
    assert buffer.work()[1] > 0
    assert buffer.segments()[0][2] >= 1 << 40


def test_equality_is_being_the_same_buffer() -> None:
    store = stook.SparseStore()
    one = store.get_or_create("a")
    assert one == store["a"] and hash(one) == hash(store["a"])
    assert one != store.get_or_create("b") and one != 5
    assert len({one, store["a"], store["b"]}) == 2


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda b: b.write("0", b"x"), TypeError, "'str' object"),
        (lambda b: b.write(0, "x"), TypeError, "a bytes-like object is wanted, not str"),
        (lambda b: b.write(-1, b"x"), stook.InvalidError, "from 0 on .* not -1"),
        (lambda b: b.write(0, b"x", "maybe"), stook.InvalidError, "'error', 'keep', 'replace', not \"maybe\""),
        (lambda b: b.write(2**64 - 1, b"x"), stook.InvalidError, "past the last position"),
        (lambda b: b.write(0, np.zeros((4, 4))[:, 1]), BufferError, "in one piece"),
        (lambda b: b.adopt(0, 5), TypeError, "a bytes-like object is wanted, not int"),
        (lambda b: b.read(0, -1), stook.InvalidError, "from 0 on .* not -1"),
        (lambda b: b.read(0, 2.5), TypeError, "'float' object"),
        (lambda b: b.read(2**64 - 2, 2), stook.InvalidError, "past the last position"),
        (lambda b: b.readinto(0, b"x"), BufferError, "may not be written"),
        (lambda b: b.readinto(0, "x"), TypeError, "a writable bytes-like object is wanted, not str"),
        (lambda b: b.need(0, 1, alignment=3), stook.InvalidError, "not a power of two"),
        (lambda b: b.need(0, 1, max_len=0), stook.InvalidError, "max_len"),
        (lambda b: b.need_many([(5, 3)]), stook.InvalidError, r"\(5, 3\)"),
        (lambda b: b.need_many([5]), TypeError, "a range is .start, end., not 5"),
        (lambda b: b.need_many([(1, 2, 3)]), TypeError, "a range is .start, end."),
        (lambda b: b.need_many(5), TypeError, "not iterable"),
        (lambda b: b.pin(2**64 - 1, 1), stook.InvalidError, "past the last position"),
        (lambda b: SparseBuffer(grain=0), stook.InvalidError, "grain is 0"),
        (lambda b: SparseBuffer(adopt_min=1), stook.InvalidError, "adopt_min is 1"),
        (lambda b: type(b)(5), TypeError, "positional"),
    ],
)
def test_bad_arguments(call: Callable[[Any], object], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call(SparseBuffer())


SPACE = 300

Operation = st.one_of(
    st.tuples(
        st.sampled_from(["write", "adopt"]),
        st.integers(0, SPACE),
        st.binary(max_size=60),
        st.sampled_from(["error", "keep", "replace"]),
    ),
    st.tuples(st.just("erase"), st.integers(0, SPACE), st.integers(0, 60)),
    st.tuples(st.sampled_from(["evict", "pickle"])),
)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(Operation, max_size=30), st.tuples(st.integers(0, SPACE), st.integers(0, 80)))
def test_it_is_what_an_array_with_marks_is(operations: list[tuple[Any, ...]], asked: tuple[int, int]) -> None:
    buffer = SparseBuffer(grain=16)
    model: dict[int, int] = {}
    for operation in operations:
        if operation[0] in ("write", "adopt"):
            name, position, data, policy = operation
            held = {place for place in range(position, position + len(data)) if place in model}
            new = dict(zip(range(position, position + len(data)), data))
            differing = sorted(place for place in held if model[place] != new[place])
            if policy == "error" and differing:
                with pytest.raises(stook.DiffersError) as raised:
                    getattr(buffer, name)(position, data, policy)
                assert raised.value.offset == differing[0]
                continue
            assert getattr(buffer, name)(position, data, policy) == len(data) - len(held)
            model = {**model, **new} if policy == "replace" else {**new, **model}
        elif operation[0] == "erase":
            _, position, length = operation
            gone = [place for place in model if position <= place < position + length]
            assert buffer.erase(position, length) == len(gone)
            for place in gone:
                del model[place]
        elif operation[0] == "evict":
            target = len(model) // 2
            buffer.evict_to(target)
            assert buffer.held_bytes <= target
            model = {place: byte for place, byte in model.items() if buffer.has(place, 1)}
        else:
            buffer = pickle.loads(pickle.dumps(buffer))
    assert buffer.held_bytes == len(model)
    assert {place for start, end in buffer.extents() for place in range(start, end)} == set(model)
    position, length = asked
    wanted = range(position, position + length)
    assert buffer.has(position, length) == all(place in model for place in wanted)
    if buffer.has(position, length):
        assert buffer.read(position, length) == bytes(model[place] for place in wanted)
    else:
        first = next(place for place in wanted if place not in model)
        with pytest.raises(stook.NotHeldError) as not_held:
            buffer.read(position, length)
        assert not_held.value.gap[0] == first


def test_threads_share_a_buffer() -> None:
    buffer = SparseBuffer()
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            block = bytes([number]) * 100_000
            for turn in range(20):
                position = (turn * 8 + number) * 100_000
                buffer.write(position, block)
                assert buffer.read(position, 100_000) == block
                assert buffer.read(position + turn, 10) == block[:10]
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert buffer.extents() == [(0, 16_000_000)]


def test_a_million_operations_leak_nothing() -> None:
    buffer = SparseBuffer()
    data = b"0123456789abcdef"
    out = bytearray(16)

    def round_(count: int) -> None:
        for number in range(count):
            position = number % 1000 * 16
            buffer.write(position, data)
            buffer.read(position, 16)
            buffer.readinto(position, out)
            buffer.has(position, 16)
            if number % 10 == 0:
                buffer.need(position, 40)
                buffer.adopt(1 << 20, data, "replace")
                buffer.pin(position, 5).release()

    round_(20_000)
    gc.collect()
    references, resident = sys.getrefcount(data), resident_bytes()
    round_(230_000)
    gc.collect()
    assert abs(sys.getrefcount(data) - references) <= 2
    assert resident_bytes() - resident < 4 << 20


def test_failures_leak_nothing() -> None:
    buffer = SparseBuffer()
    buffer.write(0, b"x")

    def round_(count: int) -> None:
        for _ in range(count):
            for call in (lambda: buffer.read(0, 5), lambda: buffer.write(0, b"y"), lambda: buffer.need_many([(5, 3)])):
                try:
                    call()
                except (stook.Error, TypeError):
                    pass

    round_(1000)
    gc.collect()
    resident = resident_bytes()
    round_(10_000)
    gc.collect()
    assert resident_bytes() - resident < 4 << 20
