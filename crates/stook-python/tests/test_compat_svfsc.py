"""``stook.compat.svfsc`` beside svfsc: the same programs of calls, and what differs on purpose."""

from __future__ import annotations

import datetime
import pickle
import re
import subprocess
import sys
import threading
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest
import svfsc as theirs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stook
from stook.compat import svfsc as ours

ROOT = Path(__file__).parents[3]
GUIDE = (ROOT / "docs/guide/svfsc.md").read_text()
#: What every file of the programs has at its positions: no byte is 0, at which svfsc cuts messages.
CONTENT = bytes(range(1, 256)) * 6000
#: Positions and lengths are multiplied with one of these: blocks of one segment or many.
SCALES = (1, 3000)

COUNTERS = (
    "count_write", "count_read", "bytes_write", "bytes_read",
    "blocks_erased", "bytes_erased", "blocks_punted", "bytes_punted",
)
STATE = ("id", "file_mod_time", "num_bytes", "num_blocks", "last_file_position", "block_touch", "blocks", *COUNTERS)
STATE_BY_ID = ("file_mod_time", "num_bytes", "num_blocks", "blocks", *COUNTERS[:4])


def outcome(call: Callable[[], Any]) -> Any:
    """What a call gives, with its type, or what it raises, with the message."""
    try:
        given = call()
    except Exception as error:
        return type(error), str(error)
    return type(given), given


def assert_alike(mine: Any, yours: Any, method: str, *arguments: Any, **named: Any) -> Any:
    """Calls both, and compares."""
    results = [outcome(partial(getattr(one, method), *arguments, **named)) for one in (mine, yours)]
    assert results[0] == results[1], (method, arguments, named)
    return results[0]


def assert_same_state(mine: Any, yours: Any, *of: str) -> None:
    for method in STATE_BY_ID if of else STATE:
        assert_alike(mine, yours, method, *of)
    touches = [list(one.block_touches(*of).items()) for one in (mine, yours)]
    assert touches[0] == touches[1]
    for method in ("time_read", "time_write"):
        given = [getattr(one, method)(*of) for one in (mine, yours)]
        assert type(given[0]) is type(given[1])


POSITION, LENGTH, GREEDY = st.integers(0, 300), st.integers(1, 60), st.sampled_from([0, 1, 20, 64, 200, 1000])
Call = st.one_of(
    st.tuples(st.just("write"), POSITION, LENGTH),
    st.tuples(st.just("write"), POSITION, LENGTH),
    st.tuples(st.just("differ"), POSITION, LENGTH),
    st.tuples(st.just("read"), POSITION, LENGTH),
    st.tuples(st.just("read_block"), st.integers(0, 10), st.integers(0, 5)),
    st.tuples(st.just("has_data"), POSITION, LENGTH),
    st.tuples(st.just("need"), POSITION, LENGTH, GREEDY),
    st.tuples(st.just("need_many"), st.lists(st.tuples(POSITION, LENGTH), max_size=6), GREEDY),
    st.tuples(st.just("erase"), POSITION),
    st.tuples(st.just("erase_block"), st.integers(0, 10)),
    st.tuples(st.just("lru_punt"), st.integers(0, 400)),
    st.tuples(st.sampled_from(["clear", "pickle"])),
)


def without_a_gap(blocks: tuple[tuple[int, int], ...], position: int, length: int) -> tuple[int, int]:
    """A write, made longer at its front where it would begin in a gap between two blocks and reach
    the second: svfsc then leaves blocks that touch or overlap.
    """
    reaches = any(position < start <= position + length for start, _length in blocks)
    ends = [start + size for start, size in blocks if start <= position]
    if reaches and ends and ends[-1] < position:
        return ends[-1], position + length - ends[-1]
    return position, length


def call_both(mine: Any, yours: Any, call: tuple[Any, ...], scale: int, of: tuple[str, ...], compares: bool) -> None:
    """Does one call of a program to both. Those that change nothing of svfsc by accident are all
    there are: what does is in ``DIFFERENCES``.
    """
    name, *numbers = call
    blocks = yours.blocks(*of) if not of or yours.has(*of) else ()
    if name in ("write", "differ"):
        position, length = without_a_gap(blocks, *(number * scale for number in numbers))
        data = CONTENT[position : position + length]
        if name == "differ":
            if not (compares and any(start <= position < start + size for start, size in blocks)):
                return
            data = bytes([data[0] ^ 0x80 or 1]) + data[1:]
        assert_alike(mine, yours, "write", *of, position, data)
    elif name in ("read_block", "erase_block"):
        if not blocks:
            return
        position, length = blocks[numbers[0] % len(blocks)]
        if name == "erase_block":
            assert_alike(mine, yours, "erase", *of, position)
        else:
            skipped = min(numbers[1], length - 1)
            assert_alike(mine, yours, "read", *of, position + skipped, length - skipped)
    elif name == "need_many":
        ranges = [(position * scale, length * scale) for position, length in numbers[0]]
        assert_alike(mine, yours, name, *of, ranges, numbers[1] * scale)
        assert_alike(mine, yours, name, *of, seek_reads=ranges)
    elif name == "need":
        assert_alike(mine, yours, name, *of, *(number * scale for number in numbers))
    else:
        assert_alike(mine, yours, name, *of, *(number * scale for number in numbers))


@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(Call, max_size=40), st.sampled_from(SCALES), st.booleans())
def test_programs_of_calls_of_a_file(calls: list[tuple[Any, ...]], scale: int, compares: bool) -> None:
    mine: Any = ours.cSVF("a file", 1.5, compare_for_diff=compares)
    yours: Any = theirs.cSVF("a file", 1.5, compare_for_diff=compares)
    for call in calls:
        if call == ("pickle",):
            # svfsc forgets what it was made with, and counts a read of every block.
            if compares:
                mine, yours = (pickle.loads(pickle.dumps(one)) for one in (mine, yours))
        else:
            call_both(mine, yours, call, scale, (), compares)
        assert_same_state(mine, yours)
    assert mine.config() == yours.config() == {"compare_for_diff": compares, "overwrite_on_exit": False}


Ids = st.sampled_from(["a", "b", "c"])
CallOfMany = st.one_of(
    st.tuples(st.sampled_from(["insert", "insert", "remove", "has"]), Ids),
    st.tuples(st.just("lru_punt_all"), st.integers(0, 400)),
    st.tuples(Ids, Call),
    st.tuples(Ids, Call),
    st.tuples(Ids, Call),
)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(CallOfMany, max_size=40), st.sampled_from(SCALES), st.booleans())
def test_programs_of_calls_of_many_files(calls: list[tuple[Any, Any]], scale: int, compares: bool) -> None:
    mine: Any = ours.cSVFS(False, compares)
    yours: Any = theirs.cSVFS(False, compares)
    for number, (name, argument) in enumerate(calls):
        if name == "insert":
            assert_alike(mine, yours, name, argument, float(number))
        elif name in ("remove", "has"):
            assert_alike(mine, yours, name, argument)
        elif name == "lru_punt_all":
            assert_alike(mine, yours, name, argument * scale)
        elif argument[0] not in ("clear", "pickle"):
            call_both(mine, yours, argument, scale, (name,), compares)
        assert len(mine) == len(yours)
        assert sorted(mine.keys()) == sorted(yours.keys())
        for method in ("total_bytes", "total_blocks"):
            assert_alike(mine, yours, method)
        for one in mine.keys():
            assert_same_state(mine, yours, one)
    assert mine.config() == yours.config()


def public(thing: Any) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_")}


def test_every_name_of_svfsc_is_here() -> None:
    assert version("svfsc") == ours.SVFS_CPP_VERSION
    constants = {name for name in public(theirs) if not isinstance(getattr(theirs, name), type)}
    assert constants | {"cSVF", "cSVFS"} == set(ours.__all__)
    for name in constants:
        assert getattr(ours, name) == getattr(theirs, name), name
    for name in ("cSVF", "cSVFS"):
        assert public(getattr(ours, name)) == public(getattr(theirs, name))
    assert {"__len__"} <= set(dir(ours.cSVFS))


def test_everything_can_be_given_by_name() -> None:
    both = [module.cSVF(id="x", mod_time=2, overwrite_on_exit=1, compare_for_diff=0) for module in (ours, theirs)]
    assert_alike(*both, "config")
    assert_alike(*both, "file_mod_time")
    assert_alike(*both, "write", file_position=5, data=b"abc")
    assert_alike(*both, "read", file_position=5, length=2)
    assert_alike(*both, "has_data", file_position=5, length=4)
    assert_alike(*both, "need", file_position=5, length=4, greedy_length=10)
    assert_alike(*both, "need_many", seek_reads=[(5, 4)], greedy_length=10)
    assert_alike(*both, "file_mod_time_matches", file_mod_time=2.0)
    assert_alike(*both, "lru_punt", cache_size_upper_bound=10)
    assert_alike(*both, "erase", file_position=5)
    many = [module.cSVFS(overwrite_on_exit=True, compare_for_diff=False) for module in (ours, theirs)]
    assert_alike(*many, "config")
    assert_alike(*many, "insert", id="x", mod_time=2)
    assert_alike(*many, "file_mod_time", id="x")
    assert_alike(*many, "file_mod_time_matches", id="x", file_mod_time=2.5)
    assert_alike(*many, "write", id="x", file_position=5, data=b"abc")
    assert_alike(*many, "read", id="x", file_position=5, length=2)
    assert_alike(*many, "need_many", id="x", seek_reads=[(5, 4)], greedy_length=10)
    assert_alike(*many, "lru_punt", id="x", cache_size_upper_bound=10)
    assert_alike(*many, "lru_punt_all", cache_size_upper_bound=10)
    assert_alike(*many, "erase", id="x", file_position=5)
    assert_alike(*many, "remove", id="x")


def test_an_id_that_is_not_there_is_reported_as_by_svfsc() -> None:
    both = ours.cSVFS(), theirs.cSVFS()
    for method in sorted(public(theirs.cSVFS) - {"config", "insert", "keys", "lru_punt_all", "total_size_of"}):
        if method.startswith("total"):
            continue
        arguments: tuple[Any, ...] = {
            "read": (0, 1), "has_data": (0, 1), "need": (0, 1), "write": (0, b"x"), "erase": (0,),
            "need_many": ([(0, 1)],), "lru_punt": (5,), "file_mod_time_matches": (0.0,),
        }.get(method, ())
        kind, _message = assert_alike(*both, method, "größe", *arguments)
        assert kind is (bool if method == "has" else IndexError)
    for one in both:
        one.insert("größe", 0.0)
    assert_alike(*both, "insert", "größe", 0.0)
    assert_alike(*both, "read", "größe", 0, 1)
    for one in both:
        one.write("größe", 5, b"abc")
    for method, argument in (("write", b"x"), ("read", 10)):
        assert_alike(*both, method, "größe", 5, argument)
    assert_alike(*both, "erase", "größe", 6)


#: Calls with arguments of a wrong type, on a module: svfsc's text is that of the interpreter.
WRONG: list[Callable[[Any], Any]] = [
    lambda module: module.cSVF(),
    lambda module: module.cSVF(5),
    lambda module: module.cSVF(b"x"),
    lambda module: module.cSVF("x", "1.0"),
    lambda module: module.cSVF("x", 1.0, False, True, 5),
    lambda module: module.cSVF("x", color=5),
    lambda module: module.cSVF("x\0y"),
    lambda module: module.cSVF("x").write(0),
    lambda module: module.cSVF("x").write("0", b"x"),
    lambda module: module.cSVF("x").write("0", b""),
    lambda module: module.cSVF("x").write(0, "x"),
    lambda module: module.cSVF("x").write(0, None),
    lambda module: module.cSVF("x").write(1, []),
    lambda module: module.cSVF("x").write(1, ""),
    lambda module: module.cSVF("x").write(1, {}),
    lambda module: module.cSVF("x").write(1, 5),
    lambda module: module.cSVF("x").write(0, b"x", 5),
    lambda module: module.cSVF("x").read(0.0, 5),
    lambda module: module.cSVF("x").read(0, None),
    lambda module: module.cSVF("x").has_data(0),
    lambda module: module.cSVF("x").need(0, 5, "x"),
    lambda module: module.cSVF("x").erase(None),
    lambda module: module.cSVF("x").lru_punt("5"),
    lambda module: module.cSVF("x").lru_punt(5.5),
    lambda module: module.cSVF("x").file_mod_time_matches("5"),
    lambda module: module.cSVF("x").id(5),
    lambda module: module.cSVF("x").__setstate__([]),
    lambda module: module.cSVF("x").__setstate__({}),
    lambda module: module.cSVF("x").__setstate__({"pickle_version": 2}),
    lambda module: module.cSVF("x").__setstate__({"pickle_version": 1}),
    lambda module: module.cSVF("x").__setstate__({"pickle_version": 1, "id": "x", "file_mod_time": 1.0}),
    lambda module: module.cSVF("x").__setstate__(
        {"pickle_version": 1, "id": "x", "file_mod_time": 1.0, "blocks": [(1, b"x")]}
    ),
    lambda module: module.cSVFS().insert(5, 0.0),
    lambda module: module.cSVFS().insert("x", "0"),
    lambda module: module.cSVFS().has(None),
    lambda module: module.cSVFS().read(5, 0, 1),
    lambda module: module.cSVFS(1, 2, 3),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_arguments_of_a_wrong_type_raise_the_same(number: int) -> None:
    results = [outcome(partial(WRONG[number], module)) for module in (ours, theirs)]
    assert results[0][0] is results[1][0], results
    assert issubclass(results[0][0], Exception)


@pytest.mark.parametrize("wrong", [5, ((0, 1),), [[0, 1]], [(0, 1), (0, 1, 2)], [(0, "1")], [(0, 1), (None, 1)]])
def test_lists_of_needs_that_are_none(wrong: Any) -> None:
    assert assert_alike(ours.cSVF("x"), theirs.cSVF("x"), "need_many", wrong)[0] is TypeError


def test_times_are_of_the_last_calls_and_in_utc() -> None:
    file = ours.cSVF("x")
    both: tuple[Any, Any] = file, theirs.cSVF("x")
    for one in both:
        for _ in range(3):
            one.write(0, b"x")
        one.read(0, 1)
    for method in ("time_write", "time_read"):
        mine, yours = (getattr(one, method)() for one in both)
        assert mine.tzinfo is None is yours.tzinfo
        # The clocks are asked one after the other; in another time zone it were hours.
        assert abs(mine - yours) < datetime.timedelta(minutes=5)
    earlier = file.time_read()
    assert earlier is not None
    while (later := file.time_read()) == earlier:
        file.read(0, 1)
    assert later is not None and later > earlier


def test_states_of_svfsc_can_be_taken_over() -> None:
    old = theirs.cSVF("x", 7.5)
    for position in (5, 100, 30):
        old.write(position, CONTENT[position : position + 20])
    new = ours.cSVF("")
    new.__setstate__(old.__getstate__())
    assert (new.id(), new.file_mod_time(), new.blocks()) == ("x", 7.5, ((5, 20), (30, 20), (100, 20)))
    assert new.read(30, 20) == CONTENT[30:50]
    # And the other way round.
    back = theirs.cSVF("")
    back.__setstate__({key: value for key, value in new.__getstate__().items() if key != "config"})
    assert back.blocks() == new.blocks()


def test_classes_can_be_derived_from() -> None:
    for module in (ours, theirs):
        class Named(module.cSVF):  # type: ignore[misc, name-defined]
            def __init__(self, path: str, *, color: str) -> None:
                super().__init__(path, mod_time=5.0)
                self.color = color

        named = Named("x", color="red")
        named.write(0, b"abc")
        assert (named.color, named.id(), named.read(1, 1)) == ("red", "x", b"b")


def test_threads_share_a_file_and_every_call_counts() -> None:
    svfs = ours.cSVFS()
    svfs.insert("x", 0.0)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(50):
                position = (turn * 8 + number) * 1000
                svfs.write("x", position, CONTENT[position : position + 1000])
                assert svfs.read("x", position, 1000) == CONTENT[position : position + 1000]
                svfs.need("x", position, 5000)
                svfs.block_touches("x")
                if turn % 10 == 0:
                    svfs.insert(f"{number}-{turn}", 0.0)
                    svfs.write(f"{number}-{turn}", 0, b"x")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert svfs.blocks("x") == ((0, 400_000),)
    assert (svfs.count_write("x"), svfs.count_read("x")) == (400, 400)
    assert max(svfs.block_touches("x")) == 799
    assert len(svfs) == 41


def written(module: Any, *writes: tuple[int, bytes], **options: Any) -> Any:
    """A file with this in it."""
    file = module.cSVF("x", **options)
    for position, data in writes:
        file.write(position, data)
    return file


def after(file: Any, position: int, data: bytes) -> Any:
    """What one more write raises, and what is held then."""
    result = outcome(lambda: file.write(position, data))
    message = re.sub("^.* ERROR: SparseVirtualFile::write.*: Difference", "Difference", result[1] or "")
    return message, file.blocks(), file.num_bytes(), file.block_touch()


def differs_late(module: Any) -> Any:
    file = written(module, (0, b"abc"))
    return after(file, 0, b"aXc"), file.read(0, 3)


def differs_in_front(module: Any) -> Any:
    file = written(module, (5, b"fgh"))
    return after(file, 3, b"defXh"), file.read(5, 3)


def refused_in_front(module: Any) -> Any:
    return after(written(module, (5, b"fgh")), 3, b"deXgh")


def refused_bridge(module: Any) -> Any:
    return after(written(module, (0, b"abc"), (5, b"fgh")), 3, b"deXgh")


def bridge_with_the_byte_of_another_block(module: Any) -> Any:
    file = written(module, (0, b"abc"), (5, b"fgh"))
    return after(file, 3, b"deagh"), file.has_data(0, 8) and file.read(0, 8)


def begun_in_a_gap(module: Any) -> Any:
    file = written(module, (0, b"abc"), (10, b"klm"))
    for position, length in file.need(6, 7):
        file.write(position, b"ghijklm"[position - 6 : position - 6 + length])
    over = written(module, (0, b"abc"), (10, b"klm"), (8, b"ijkl"))
    return outcome(lambda: file.read(6, 7))[0], file.has_data(6, 7), over.blocks(), over.num_bytes()


def not_compared(module: Any) -> Any:
    file = written(module, (0, b"abc"), (5, b"fgh"), compare_for_diff=False)
    file.write(1, b"BCDEFGH")
    return file.read(0, 8)


def negative_position(module: Any) -> Any:
    file = module.cSVF("x")
    return outcome(lambda: file.write(-2, b"x"))[1], file.blocks()


def position_of_65_bits(module: Any) -> Any:
    file = module.cSVF("x")
    return outcome(lambda: file.write(1 << 64, b"x"))[1], file.blocks()


def position_of_64_bits(module: Any) -> Any:
    file = written(module, (1 << 63, b"x"))
    return file.last_file_position(), file.block_touches()


def no_bytes(module: Any) -> Any:
    file = written(module, (5, b"abc"))
    empty = module.cSVF("x")
    read = outcome(lambda: file.read(20, 0))[0]
    return empty.has_data(5, 0), empty.need(5, 0), file.has_data(20, 0), file.need(20, 0), read


def empty_write(module: Any) -> Any:
    svfs = module.cSVFS()
    svfs.insert("x", 0.0)
    svfs.write("x", 5, b"")
    return svfs.blocks("x"), svfs.count_write("x")


def pickled_options(module: Any) -> Any:
    return pickle.loads(pickle.dumps(module.cSVF("x", 0.0, True, False))).config()


def pickling_counts(module: Any) -> Any:
    file = written(module, (5, b"abc"))
    pickle.dumps(file)
    return file.count_read(), file.block_touch()


def foreign_id(module: Any) -> Any:
    svfs = module.cSVFS()
    svfs.insert("ö", 0.0)
    return module.cSVF("ö").id(), svfs.keys()


def insert_without_a_time(module: Any) -> Any:
    svfs = module.cSVFS()
    return outcome(lambda: svfs.insert("x"))[0], len(svfs)


def zero_byte_in_a_message(module: Any) -> Any:
    return after(written(module, (0, b"\0")), 0, b"a")[0]


def other_numbers_and_bytes(module: Any) -> Any:
    file = module.cSVF("x")
    results = [outcome(partial(file.write, np.uint64(5), data))[0] for data in (b"x", bytearray(b"x"))]
    return results, file.num_bytes()


def impossible_length(module: Any) -> Any:
    return outcome(lambda: written(module, (0, b"x")).read(0, 1 << 63))[0]


def order_of_keys(module: Any) -> Any:
    svfs = module.cSVFS()
    ids = [str(number) for number in range(20)]
    for one in ids:
        svfs.insert(one, 0.0)
    return svfs.keys() == ids


def pickled_files(module: Any) -> Any:
    svfs = module.cSVFS()
    svfs.insert("x", 5.0)
    svfs.write("x", 3, b"abc")
    return outcome(lambda: pickle.loads(pickle.dumps(svfs)).read("x", 3, 3))[0]


def version_of_a_state(module: Any) -> Any:
    return re.findall(r"\d+", outcome(lambda: module.cSVF("x").__setstate__({"pickle_version": 77}))[1])[-2:]


def size_in_memory(module: Any) -> Any:
    file = module.cSVF("x")
    for position in range(0, 40_000, 2):
        file.write(position, b"x")
    # The data and what svfsc has for every block in its own map; what the map takes is not in it.
    return 20_000 * 41 <= file.size_of() < 20_000 * 50


#: What svfsc does otherwise: the name in the guide, the calls, what svfsc gives, what we do.
DIFFERENCES: list[tuple[str, Callable[[Any], Any], Any, Any]] = [
    (
        "late difference", differs_late,
        (("", ((0, 3),), 3, 2), b"abc"),
        (("Difference at position 1 'X' != 'b' Ordinal 88 != 98", ((0, 3),), 3, 1), b"abc"),
    ),
    (
        "difference in front", differs_in_front,
        (("", ((3, 5),), 5, 2), b"fXh"),
        (("Difference at position 6 'X' != 'g' Ordinal 88 != 103", ((5, 3),), 3, 1), b"fgh"),
    ),
    (
        "refused write in front", refused_in_front,
        ("Difference at position 5 'X' != 'f' Ordinal 88 != 102", ((5, 3),), 5, 2),
        ("Difference at position 5 'X' != 'f' Ordinal 88 != 102", ((5, 3),), 3, 1),
    ),
    (
        "refused bridge", refused_bridge,
        ("Difference at position 5 'X' != 'a' Ordinal 88 != 97", ((0, 5), (5, 3)), 8, 2),
        ("Difference at position 5 'X' != 'f' Ordinal 88 != 102", ((0, 3), (5, 3)), 6, 2),
    ),
    (
        "bridge compared with another block", bridge_with_the_byte_of_another_block,
        (("", ((0, 8),), 8, 3), b"abcdeagh"),
        (("Difference at position 5 'a' != 'f' Ordinal 97 != 102", ((0, 3), (5, 3)), 6, 2), False),
    ),
    (
        "begun in a gap", begun_in_a_gap,
        (OSError, False, ((0, 3), (8, 4), (10, 3)), 10),
        (bytes, True, ((0, 3), (8, 5)), 8),
    ),
    ("not compared", not_compared, b"abcDEFGH", b"aBCDEFGH"),
    (
        "negative position", negative_position,
        (None, (((1 << 64) - 2, 1),)),
        ("argument 'position': a number from 0 on is wanted, not -2", ()),
    ),
    (
        "position of 65 bits", position_of_65_bits,
        (None, ((0, 1),)),
        (f"argument 'position': a smaller number is wanted, not {1 << 64}", ()),
    ),
    (
        "position of 64 bits", position_of_64_bits,
        (1 - (1 << 63), {0: -(1 << 63)}),
        (1 + (1 << 63), {0: 1 << 63}),
    ),
    (
        "no bytes", no_bytes,
        (False, [(5, 0)], False, [], OSError),
        (True, [], True, [], bytes),
    ),
    ("empty write", empty_write, (((5, 0),), 1), ((), 0)),
    (
        "pickled options", pickled_options,
        {"compare_for_diff": True, "overwrite_on_exit": False},
        {"compare_for_diff": False, "overwrite_on_exit": True},
    ),
    ("pickling counts", pickling_counts, (1, 2), (0, 1)),
    ("id in other letters", foreign_id, ("Ã¶", ["Ã¶"]), ("ö", ["ö"])),
    ("insert without a time", insert_without_a_time, (TypeError, 0), (type(None), 1)),
    (
        "zero byte in a message", zero_byte_in_a_message,
        "Difference at position 0 'a' != '",
        "Difference at position 0 'a' != '\0' Ordinal 97 != 0",
    ),
    ("other numbers and bytes", other_numbers_and_bytes, ([TypeError, TypeError], 0), ([type(None)] * 2, 1)),
    ("impossible length", impossible_length, RuntimeError, OSError),
    ("order of keys", order_of_keys, False, True),
    ("pickled files", pickled_files, TypeError, bytes),
    ("version of a state", version_of_a_state, None, ["77", "1"]),
    ("size in memory", size_in_memory, True, False),
]


@pytest.mark.parametrize(("name", "calls", "with_svfsc", "here"), DIFFERENCES)
def test_what_differs_on_purpose(name: str, calls: Callable[[Any], Any], with_svfsc: Any, here: Any) -> None:
    found = calls(theirs)
    if with_svfsc is None:
        assert found != here, "svfsc does the same now: no difference any more"
    else:
        assert found == with_svfsc
    assert calls(ours) == here


def test_the_guide_lists_what_differs_on_purpose() -> None:
    assert re.findall(r"^\| \*\*(.*?)\*\* \|", GUIDE, re.MULTILINE) == [name for name, *_ in DIFFERENCES]


def test_the_guide_runs() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 2
    reported = subprocess.run([sys.executable, "-W", "ignore", "-c", "\n".join(blocks)], capture_output=True, text=True)
    assert reported.returncode == 0, reported.stderr


def test_examples_in_the_documentation_run() -> None:
    import doctest

    assert doctest.testmod(ours).attempted >= 8
    assert doctest.testmod(ours).failed == 0


def test_importing_stook_does_not_import_it() -> None:
    code = "import sys, stook; assert 'stook.compat' not in sys.modules"
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", code]).returncode == 0
    assert stook.__version__
