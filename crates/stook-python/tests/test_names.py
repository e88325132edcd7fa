"""What is public is called by the name by which it is imported."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
import typing

import pytest

import stook

#: Classes and functions; the rest of what is public are types of arguments, and a module.
NAMED = [name for name in stook.__all__ if inspect.isclass(getattr(stook, name)) or callable(getattr(stook, name))]
TYPES = [name for name in NAMED if getattr(getattr(stook, name), "__module__", "") == "typing"]


@pytest.mark.parametrize("name", sorted(set(NAMED) - set(TYPES)))
def test_classes_and_functions_are_of_the_package(name: str) -> None:
    thing = getattr(stook, name)
    assert (thing.__module__, thing.__name__) == ("stook", name)
    assert pickle.loads(pickle.dumps(thing)) is thing
    if inspect.isclass(thing):
        # Types of attributes are those that they were in the module that has the class.
        assert typing.get_type_hints(thing).keys() >= set(getattr(thing, "__annotations__", {}))


def test_all_of_the_package_is_named() -> None:
    assert len(NAMED) > 80 and {"Pack", "KeysView", "copy", "DamagedError", "PackInfo", "bench"} <= set(NAMED)
    types = "Access Attribute CopyDurability Durability HashName Key Kinds MhlHashName Mode OnDamage Overwrite ScanOrder"
    assert set(TYPES) <= {*types.split(), "StudyName", "Workload"}
    for name in stook.stitch.__all__:
        assert getattr(stook.stitch, name).__module__ == "stook.stitch"
    assert repr(stook.ClosedError("x").__class__) == "<class 'stook.ClosedError'>"


def test_fields_of_reports_have_types_that_can_be_used() -> None:
    hints = typing.get_type_hints(stook.PackInfo)
    assert hints["records"] is int and hints["segments"] == list[stook.SegmentInfo]
    for name in stook.__all__:
        if dataclasses.is_dataclass(thing := getattr(stook, name)):
            assert not any(isinstance(field.type, str) for field in dataclasses.fields(thing)), name
