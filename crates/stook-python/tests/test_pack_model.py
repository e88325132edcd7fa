"""Packs against a dict, over random histories."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Union

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule

import stook

Key = Union[str, int]

KEYS = st.one_of(
    st.sampled_from(["a", "b", "a/b", "", "é", "x" * 300]),
    st.integers(0, 5),
    st.text(max_size=3).filter(lambda text: not any("\ud800" <= c <= "\udfff" for c in text)),
)
VALUES = st.one_of(st.binary(max_size=40), st.integers(0, 300_000).map(lambda length: b"v" * length))


def place_of(key: Key) -> tuple[bool, Union[bytes, int]]:
    """What keys are sorted by: texts by their bytes, then numbers."""
    return isinstance(key, int), key if isinstance(key, int) else key.encode()


class PackMachine(RuleBasedStateMachine):
    """Does the same to a pack and to a dict."""

    keys = Bundle("keys")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="stook-model-"))
        self.path = self.folder / "model.stook"
        self.model: dict[Key, bytes] = {}
        self.past: list[tuple[stook.Pack, dict[Key, bytes]]] = []
        self.pack = stook.Pack(self.path, "x")

    def teardown(self) -> None:
        self.pack.close()
        for snapshot, _ in self.past:
            snapshot.close()
        shutil.rmtree(self.folder)

    @rule(target=keys, key=KEYS)
    def choose(self, key: Key) -> Key:
        return key

    @rule(key=keys, value=VALUES, group=st.sampled_from(["", "second"]))
    def put(self, key: Key, value: bytes, group: str) -> None:
        self.pack.put(key, value, group=group)
        self.model[key] = value

    @rule(key=keys)
    def delete(self, key: Key) -> None:
        assert self.pack.delete(key) == (self.model.pop(key, None) is not None)

    @rule(changes=st.lists(st.tuples(keys, st.none() | st.binary(max_size=20)), max_size=6), kept=st.booleans())
    def batch(self, changes: list[tuple[Key, Union[bytes, None]]], kept: bool) -> None:
        after = dict(self.model)
        try:
            with self.pack.batch() as batch:
                for key, value in changes:
                    if value is None:
                        batch.delete(key)
                        after.pop(key, None)
                    else:
                        batch.put(key, value)
                        after[key] = value
                if not kept:
                    raise InterruptedError
        except InterruptedError:
            return
        self.model = after

    @rule(value=st.binary(max_size=10))
    def append(self, value: bytes) -> None:
        expected = max((key for key in self.model if isinstance(key, int)), default=-1) + 1
        key = self.pack.append(value)
        assert key >= expected and key not in self.model
        self.model[key] = value

    @rule(key=keys, value=st.binary(max_size=20))
    def set_default(self, key: Key, value: bytes) -> None:
        assert self.pack.setdefault(key, value) == self.model.setdefault(key, value)

    @rule(key=keys, default=st.none() | st.binary(max_size=3))
    def pop(self, key: Key, default: Union[bytes, None]) -> None:
        assert self.pack.pop(key, default) == self.model.pop(key, default)

    @precondition(lambda self: self.model)
    @rule()
    def pop_item(self) -> None:
        key, value = self.pack.popitem()
        # The first of the keys, in the order in which packs have them.
        assert key == min(self.model, key=place_of) and self.model.pop(key) == value

    @rule(items=st.dictionaries(KEYS, st.binary(max_size=20), max_size=4))
    def update_in_place(self, items: dict[Key, bytes]) -> None:
        pack = self.pack
        pack |= items
        self.model |= items

    @rule(kept=st.integers(0, 3))
    def clear(self, kept: int) -> None:
        # Now and then, so that packs become large, too.
        if kept == 0:
            self.pack.clear()
            self.model.clear()

    @rule()
    def sync(self) -> None:
        self.pack.sync()

    @rule()
    def compact(self) -> None:
        self.pack.compact()

    @rule(mode=st.sampled_from(["r+", "a"]), durability=st.sampled_from(["sync", "put"]))
    def open_again(self, mode: stook.Mode, durability: stook.Durability) -> None:
        self.pack.close()
        self.pack = stook.Pack(self.path, mode, durability=durability)

    @precondition(lambda self: len(self.past) < 3)
    @rule(map=st.booleans())
    def remember(self, map: bool) -> None:
        self.pack.sync()
        self.past.append((stook.Pack(self.path, map=map), dict(self.model)))

    @rule(key=keys)
    def get(self, key: Key) -> None:
        assert self.pack.get(key) == self.model.get(key)
        assert (key in self.pack) == (key in self.model)

    @rule(wanted=st.lists(keys, max_size=8))
    def get_many(self, wanted: list[Key]) -> None:
        assert self.pack.get_many(wanted) == [self.model.get(key) for key in wanted]

    @rule()
    def everything_is_the_same(self) -> None:
        assert len(self.pack) == len(self.model)
        assert dict(self.pack.items()) == self.model
        assert {record.key: bytes(record) for record in self.pack.scan()} == self.model
        assert set(self.pack) == set(self.model)

    @rule(others=st.sets(KEYS, max_size=5), prefix=st.sampled_from(["", "a", "x", "none"]))
    def views_are_those_of_the_dict(self, others: set[Key], prefix: str) -> None:
        keys, items, model = self.pack.keys(), self.pack.items(), self.model
        assert (len(keys), list(keys)) == (len(model), sorted(model, key=place_of))
        assert (keys & others, keys | others) == (model.keys() & others, model.keys() | others)
        assert (keys - others, others - keys, keys ^ others) == (model.keys() - others, others - model.keys(), model.keys() ^ others)
        assert (keys <= others, keys >= others, keys == others) == (model.keys() <= others, model.keys() >= others, model.keys() == others)
        assert items == model.items() and list(self.pack.values()) == [model[key] for key in keys]
        below = [key for key in model if isinstance(key, str) and key.startswith(prefix)]
        assert len(self.pack.keys(prefix=prefix)) == len(below) and self.pack.keys(prefix=prefix) == set(below)

    @rule(key=keys)
    def it_is_equal_to_the_same_and_to_nothing_else(self, key: Key) -> None:
        assert self.pack == self.model
        other = {**self.model, key: self.model.get(key, b"") + b"!"}
        assert self.pack != other and other != self.pack

    @invariant()
    def the_past_does_not_change(self) -> None:
        for snapshot, model in self.past[-1:]:
            assert dict(snapshot.items()) == model


TestPackModel = PackMachine.TestCase
TestPackModel.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
