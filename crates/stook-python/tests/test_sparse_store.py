"""`stook.SparseStore`: many buffers under one budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

import pytest

import stook
from stook import SparseBuffer, SparseStore


def test_it_is_a_mapping_of_names_to_buffers() -> None:
    store = SparseStore()
    assert isinstance(store, Mapping)
    store.get_or_create("b").write(0, b"bb")
    store.get_or_create("a").write(0, b"a")
    assert (list(store), store.keys(), len(store)) == (["a", "b"], ["a", "b"], 2)
    assert "a" in store and "c" not in store and 5 not in store
    assert store["b"].read(0, 2) == b"bb"
    assert store.get("c") is None and store.get("c", 7) == 7 and store.get("a") == store["a"]
    assert store.values() == [store["a"], store["b"]]
    assert dict(store.items()) == {"a": store["a"], "b": store["b"]}
    assert store.names_after("a", 10) == ["b"] and store.names_after("", 1) == ["a"]
    assert (store.held_bytes, "2 buffers, 3 bytes" in repr(store)) == (3, True)
    assert store.memory_bytes > 3
    removed = store.remove("a")
    assert removed is not None and removed.read(0, 1) == b"a"
    assert store.remove("a") is None
    del store["b"]
    with pytest.raises(KeyError, match="b"):
        store["b"]
    with pytest.raises(KeyError, match="b"):
        del store["b"]
    assert store.counters().written_bytes == 3, "those that were removed count"
    store.get_or_create("c")
    store.clear()
    assert len(store) == 0


def test_all_share_one_budget() -> None:
    store = SparseStore(budget_bytes=1000)
    assert store.budget_bytes == 1000 and SparseStore().budget_bytes is None
    store.get_or_create("a").write(0, bytes(600))
    store.get_or_create("b").write(0, bytes(600))
    assert (store.held_bytes, store["a"].held_bytes) == (600, 0)
    assert store.evict_to(0) == 600


def test_serialised_buffers_are_taken_in() -> None:
    buffer = SparseBuffer()
    buffer.write(3, b"kept")
    store = SparseStore()
    assert store.load("x", buffer.to_bytes()).read(3, 4) == b"kept"
    with pytest.raises(stook.ExistsError, match='"x" is already'):
        store.load("x", buffer.to_bytes())
    with pytest.raises(stook.DamagedError):
        store.load("y", buffer.to_bytes()[:50])
    assert store.keys() == ["x"]


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda s: s.get(5), TypeError, "'int' object"),
        (lambda s: s[5], TypeError, "'int' object"),
        (lambda s: s.get_or_create(b"x"), TypeError, "'bytes' object"),
        (lambda s: s.load("x", 5), TypeError, "a bytes-like object is wanted, not int"),
        (lambda s: s.evict_to(-1), stook.InvalidError, "from 0 on .* not -1"),
        (lambda s: SparseStore(grain=100_000), stook.InvalidError, "grain is 100000"),
    ],
)
def test_bad_arguments(call: Callable[[Any], object], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call(SparseStore())
