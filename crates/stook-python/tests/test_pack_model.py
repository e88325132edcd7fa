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

    @invariant()
    def the_past_does_not_change(self) -> None:
        for snapshot, model in self.past[-1:]:
            assert dict(snapshot.items()) == model


TestPackModel = PackMachine.TestCase
TestPackModel.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
