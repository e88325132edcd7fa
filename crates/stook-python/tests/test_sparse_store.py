"""`stook.SparseStore`: many buffers under one budget."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
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
        (lambda s: s.get(5), TypeError, "argument 'name': a str is wanted, not int"),
        (lambda s: s[5], TypeError, "'int' object"),
        (lambda s: s.get_or_create(b"x"), TypeError, "argument 'name': a str is wanted, not bytes"),
        (lambda s: s.load("x", 5), TypeError, "a bytes-like object is wanted, not int"),
        (lambda s: s.evict_to(-1), stook.InvalidError, "from 0 on .* not -1"),
        (lambda s: SparseStore(grain=100_000), stook.InvalidError, "grain is 100000"),
    ],
)
def test_bad_arguments(call: Callable[[Any], object], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call(SparseStore())


def test_a_name_gives_bytes_only_of_the_source_and_the_state_they_are_of() -> None:
    store = SparseStore()
    asked: list[str] = []

    def opened(name: str, state: str | None, letter: str) -> stook.SparseFile:
        def fetch(start: int, end: int) -> bytes:
            asked.append(letter)
            return letter.encode() * (end - start)

        return stook.SparseFile.from_fetch(fetch, 1000, name=name, identity=state, store=store, store_name="x")

    states = [("https://h/a?id=1", "1"), ("https://h/a?id=1", "2"), ("https://h/a?id=2", "2"), ("https://h/b", "2")]
    for (name, state), letter in zip(states, "abcd"):
        with opened(name, state, letter) as file:
            assert file.read(0, 1000) == letter.encode() * 1000, "another version, or another address"
    with opened(*states[-1], "e") as file:
        assert (file.read(0, 1000), asked) == (b"d" * 1000, ["a", "b", "c", "d"]), "proven to be the same"
    for letter in "fg":
        with opened("https://h/c", None, letter) as file:
            assert file.read(0, 1000) == letter.encode() * 1000, "nothing proves that it is the same"
            assert store.held_bytes == 1000
        assert store.held_bytes == 0, "what no file could be given is let go"


def test_two_files_under_one_name_are_both_right() -> None:
    store = SparseStore(budget_bytes=1500)

    def opened(letter: bytes) -> stook.SparseFile:
        fetch = lambda start, end: letter * (end - start)  # noqa: E731
        return stook.SparseFile.from_fetch(fetch, 1000, name=letter.decode(), identity="1", store=store, store_name="x")

    one, other = opened(b"a"), opened(b"b")
    for _ in range(3):
        assert (one.read(0, 1000), other.read(0, 1000)) == (b"a" * 1000, b"b" * 1000)
        assert store.held_bytes == one.buffer.held_bytes + other.buffer.held_bytes <= 1500
    one.close()
    other.close()


def test_a_local_file_that_changed_is_read_anew(tmp_path: Path) -> None:
    path, store = tmp_path / "file", SparseStore()
    for content in (b"a" * 1000, b"b" * 1000, b"c" * 2000):
        path.write_bytes(content)
        with stook.open(path, store=store, store_name="x") as file:
            assert file.read() == content


def test_a_record_of_a_pack_takes_the_options_of_any_other_file(tmp_path: Path) -> None:
    store = SparseStore()
    with stook.Pack(tmp_path / "data.stook", "x") as pack:
        pack["key"] = b"a record"
    with stook.open(f"{tmp_path}/data.stook//key", store=store, store_name="x") as file:
        assert (file.read(), store.held_bytes) == (b"a record", 8)


def test_bytes_of_no_known_source_are_not_taken_for_those_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1234")
    store = SparseStore()
    store.get_or_create("x").write(0, b"abcd")
    with pytest.raises(stook.ExistsError, match="nothing says whose they are"):
        stook.open(tmp_path / "file", store=store, store_name="x")
