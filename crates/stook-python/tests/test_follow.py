"""Records as they are put: in their order, each once, those that are asked for."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import stook


def test_what_others_put_comes_in_its_order() -> None:
    with stook.Pack("p.stook", "x") as writer:
        writer["before"] = b"0"
        writer.sync()
        with stook.Pack("p.stook") as reader:
            following = reader.follow(timeout=30)
            for name in ("b", "a", "c"):
                writer.put(name, name.encode(), group="g")
            writer.put(5, b"five")
            del writer["c"]
            writer.sync()
            got = [next(following) for _ in range(3)]
            assert [(record.key, bytes(record), record.group) for record in got] == [
                ("b", b"b", "g"),
                ("a", b"a", "g"),
                (5, b"five", ""),
            ]
            assert "a" not in reader, "the pack itself shows what it showed"
            writer["a"] = b"again"
            writer.sync()
            assert bytes(next(following)) == b"again"


def test_only_what_is_asked_for_comes() -> None:
    with stook.Pack("p.stook", "a") as pack:
        below, grouped, none = pack.follow(prefix="a/", timeout=1), pack.follow(group="g", timeout=1), pack.follow(timeout=0)
        pack["a/1"] = b""
        pack["b/1"] = b""
        pack.put("b/2", b"", group="g")
        pack.put("a/2", b"", group="g")
        pack.sync()
        assert [record.key for record in below] == ["a/1", "a/2"]
        assert [record.key for record in grouped] == ["b/2", "a/2"]
        assert list(none) == []


def test_it_waits_until_the_pack_is_closed() -> None:
    stook.Pack("p.stook", "x").close()
    pack = stook.Pack("p.stook")
    got: list[stook.Record] = []
    thread = threading.Thread(target=lambda: got.extend(pack.follow()))
    thread.start()
    with stook.Pack("p.stook", "r+") as writer:
        writer["a"] = b"1"
    while not got:
        assert thread.is_alive()
    pack.close()
    thread.join(timeout=60)
    assert not thread.is_alive() and [record.key for record in got] == ["a"]


def test_states_of_the_past_and_times_that_make_no_sense_are_refused(filled: Path) -> None:
    with stook.Pack(filled) as pack:
        for timeout in (-1, float("nan")):
            with pytest.raises(ValueError, match="timeout is a number of seconds"):
                pack.follow(timeout=timeout)
        generation = pack.generation
    with stook.Pack(filled, generation=generation) as pack, pytest.raises(stook.InvalidError, match="does not grow"):
        pack.follow()
    with pytest.raises(stook.ClosedError):
        pack.follow()
