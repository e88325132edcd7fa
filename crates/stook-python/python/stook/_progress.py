"""What ``progress=`` takes, everywhere: a callable, or ``True`` for a progress bar."""

from __future__ import annotations

from typing import Any, Callable, Optional

from ._errors import InvalidError

#: What a bar measures, if it is among the numbers that come; the unit of it.
_MEASURES = {"bytes": "B", "seconds": "s"}


def callback(progress: object, *numbers: str) -> Optional[Callable[..., object]]:
    """The function to call with these numbers, in this order; ``None`` where no progress is wanted.

    Args:
        progress: A callable, ``True``, ``False`` or ``None``.
        numbers: What the numbers are: ``"bytes"``, ``"total"``, ``"seconds"``, or things.

    Raises:
        InvalidError: It is something else.
    """
    if callable(progress):
        return progress
    # Also those of numpy.
    is_bool = type(progress).__name__ in ("bool", "bool_")
    if progress is not None and not is_bool:
        raise InvalidError(f"progress is a callable, True or False, not {progress!r}")
    return bar(*numbers) if progress else None


def bar(*numbers: str) -> Callable[..., None]:
    """A callback that shows these numbers in a tqdm bar; without tqdm it does nothing."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return lambda *values: None
    measure = next((name for name in numbers if name in _MEASURES), numbers[0])
    shown: Any = tqdm(unit=_MEASURES.get(measure, f" {measure}"), unit_scale=True)

    def report_progress(*values: float) -> None:
        known = dict(zip(numbers, values))
        shown.total = known.pop("total", None)
        # What was begun and could not be finished is taken back; a bar only goes forward.
        shown.update(max(known.pop(measure) - shown.n, 0))
        shown.set_postfix_str(", ".join(f"{value} {name}" for name, value in known.items()), refresh=False)

    return report_progress
