"""How a batch is made of samples. Which type it has depends on the types of the samples, never on
their content, nor on what other code imported.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Sequence
from typing import Any, Callable

from ._errors import InvalidError


def collate(samples: Sequence[Any], keys: Sequence[Any] = ()) -> Any:
    """A batch of samples. Arrays of numpy of one shape and type become one array with a dimension
    more, tensors likewise; numbers become an array, or a tensor where the sample has a tensor in
    another field, and so do arrays there; of tuples, named ones too, and dicts each field does. All
    else stays a list, and so do whole numbers that no type holds.

    Args:
        samples: At least one.
        keys: Those of their records, for messages.

    Raises:
        stook.InvalidError: Samples have other shapes, types, lengths or fields than each other.
    """
    return _Batch(samples, keys).of(samples)


@functools.lru_cache(maxsize=1)
def _numpy() -> Any:
    """numpy, where it is installed."""
    try:
        import numpy
    except ImportError:
        return None
    return numpy


def _is_tensor(sample: Any) -> bool:
    # What has a tensor has imported it.
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(sample, torch.Tensor)


def _has_tensor(sample: Any) -> bool:
    if isinstance(sample, (tuple, dict)):
        return any(map(_has_tensor, sample.values() if isinstance(sample, dict) else sample))
    return _is_tensor(sample)


def _is_array(sample: Any) -> bool:
    return _numpy() is not None and isinstance(sample, _numpy().ndarray)


def _is_number(sample: Any) -> bool:
    numpy = _numpy()
    return isinstance(sample, (int, float)) or numpy is not None and isinstance(sample, (numpy.number, numpy.bool_))


def _has_fields(sample: Any) -> bool:
    return type(sample) in (tuple, dict) or isinstance(sample, tuple) and hasattr(sample, "_fields")


class _Batch:
    """One that is being made."""

    def __init__(self, samples: Sequence[Any], keys: Sequence[Any]) -> None:
        self._keys = keys
        self._as_tensors = _has_tensor(samples[0])

    def of(self, samples: Sequence[Any]) -> Any:
        first = samples[0]
        if all(map(_is_number, samples)):
            return self._numbers(samples)
        self._check_alike(samples)
        kind = type(first)
        if _has_fields(first):
            if kind is dict:
                self._check(samples, lambda sample: f"a dict with {', '.join(sorted(map(repr, sample)))}")
                return {name: self.of([sample[name] for sample in samples]) for name in first}
            self._check(samples, lambda sample: f"a tuple of {len(sample)}")
            columns = [self.of(column) for column in zip(*samples)]
            return tuple(columns) if kind is tuple else kind(*columns)
        if _is_tensor(first):
            self._check(samples, lambda sample: f"a tensor of {tuple(sample.shape)}, {sample.dtype}, {sample.device}")
            return sys.modules["torch"].stack(list(samples))
        if _is_array(first):
            self._check(samples, lambda sample: f"an array of {sample.shape}, {sample.dtype}")
            return self._as_tensor(_numpy().stack(samples))
        return list(samples)

    def _numbers(self, samples: Sequence[Any]) -> Any:
        numpy, kinds = _numpy(), set(map(type, samples))
        if numpy is None:
            if self._as_tensors:
                with contextlib.suppress(OverflowError, RuntimeError):
                    return sys.modules["torch"].tensor(list(samples))
            return list(samples)
        if len(kinds) == 1 and not kinds <= {int, float}:
            return self._as_tensor(numpy.array(samples))
        if all(isinstance(sample, (int, numpy.integer, numpy.bool_)) for sample in samples):
            for dtype in (numpy.int64, numpy.uint64):
                with contextlib.suppress(OverflowError):
                    return self._as_tensor(numpy.array([int(sample) for sample in samples], dtype))
            return list(samples)
        # Such as whole numbers among others: they are never rounded.
        if any(float(sample) != sample for sample in samples if sample == sample):
            return list(samples)
        return self._as_tensor(numpy.array(samples, numpy.float64))

    def _as_tensor(self, array: Any) -> Any:
        """A tensor, where the sample has one, and torch has the type."""
        if self._as_tensors:
            with contextlib.suppress(TypeError):
                return sys.modules["torch"].from_numpy(array)
        return array

    def _check_alike(self, samples: Sequence[Any]) -> None:
        """Raises where some would be one array, and others are something else."""
        kinds = set(map(type, samples))
        if all(map(_is_array, samples)) or all(map(_is_tensor, samples)):
            return
        if len(kinds) > 1 and any(
            _has_fields(sample) or _is_tensor(sample) or _is_array(sample) or _is_number(sample) for sample in samples
        ):
            self._check(samples, lambda sample: f"a {type(sample).__name__}")

    def _check(self, samples: Sequence[Any], shown: Callable[[Any], str]) -> None:
        """Raises where what is shown of samples differs."""
        first = shown(samples[0])
        for number, sample in enumerate(samples):
            if (here := shown(sample)) != first:
                raise InvalidError(
                    f"samples of a batch differ: {self._name(0)} has {first}, {self._name(number)} {here}; "
                    "make them alike, or take another collate, such as collate=list"
                )

    def _name(self, number: int) -> str:
        return f"the record {self._keys[number]!r}" if number < len(self._keys) else f"sample {number}"
