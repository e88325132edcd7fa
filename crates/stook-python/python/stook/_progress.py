"""What ``progress=`` takes, everywhere: a callable, or ``True`` for a progress bar."""

from __future__ import annotations

import sys
import time
from typing import Any, Callable, Optional

from ._errors import InvalidError

#: What a bar measures, if it is among the numbers that come; the unit of it.
_MEASURES = {"bytes": "B", "seconds": "s"}
#: How often a line is written anew on a terminal, and how often one is added anywhere else.
_TERMINAL_SECONDS = 0.2
_LINE_SECONDS = 10.0
#: Before that, a rate would say nothing.
_RATE_SECONDS_MIN = 0.5


def callback(progress: object, *numbers: str) -> Optional[Callable[..., object]]:
    """The function to call with these numbers, in this order; ``None`` where no progress is wanted.

    Args:
        progress: A callable, ``True``, ``False`` or ``None``.
        numbers: What the numbers are: ``"bytes"``, ``"total"``, ``"seconds"``, or things.

    Raises:
        InvalidError: It is something else.
    """
    check(progress)
    if callable(progress):
        return progress
    return bar(*numbers) if progress else None


def check(progress: object) -> None:
    """Refuses what cannot be a `callback`.

    Raises:
        InvalidError: It is neither a callable nor one of ``True``, ``False`` and ``None``.
    """
    # Also those of numpy.
    is_bool = type(progress).__name__ in ("bool", "bool_")
    if progress is not None and not is_bool and not callable(progress):
        raise InvalidError(f"progress is a callable, True or False, not {progress!r}")


def bar(*numbers: str) -> Callable[..., None]:
    """A callback that shows these numbers in a tqdm bar; without tqdm as text on stderr."""
    measure = next((name for name in numbers if name in _MEASURES), numbers[0])
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return _Text(numbers, measure)
    shown: Any = tqdm(unit=_MEASURES.get(measure, f" {measure}"), unit_scale=True)

    def report_progress(*values: float) -> None:
        known = dict(zip(numbers, values))
        shown.total = known.pop("total", None)
        # What was begun and could not be finished is taken back; a bar only goes forward.
        shown.update(max(known.pop(measure) - shown.n, 0))
        shown.set_postfix_str(", ".join(f"{value} {name}" for name, value in known.items()), refresh=False)

    return report_progress


class _Text:
    """Progress as lines of text: on a terminal one that is written anew, elsewhere a few. The last
    numbers are written when nobody can call it any more.
    """

    def __init__(self, numbers: tuple[str, ...], measure: str) -> None:
        self._numbers, self._measure = numbers, measure
        self._out = sys.stderr
        self._is_terminal = self._out is not None and self._out.isatty()
        self._began = self._written = time.monotonic()
        self._line = self._latest = ""

    def __call__(self, *values: float) -> None:
        now = time.monotonic()
        self._latest = self._described(dict(zip(self._numbers, values)), now - self._began)
        if now - self._written >= (_TERMINAL_SECONDS if self._is_terminal else _LINE_SECONDS):
            self._written = now
            self._write(self._latest, "" if self._is_terminal else "\n")

    def _described(self, known: dict[str, float], seconds: float) -> str:
        total, done = known.pop("total", 0), known.pop(self._measure)
        parts = [_amount(done, self._measure)]
        if total:
            parts = [f"{_amount(done, self._measure)} of {_amount(total, self._measure)}", f"{100 * done // total:.0f} %"]
        parts += [_amount(value, name) for name, value in known.items()]
        if self._measure != "seconds":
            has_rate = self._measure == "bytes" and seconds >= _RATE_SECONDS_MIN
            parts += [f"{_amount(done / seconds, self._measure)}/s"] if has_rate else []
            parts.append(f"{seconds:.1f} s")
        return ", ".join(parts)

    def _write(self, line: str, end: str) -> None:
        if self._out is None or self._out.closed:
            return
        # What is left of a longer line before is overwritten.
        start, rest = ("\r", " " * (len(self._line) - len(line))) if self._is_terminal else ("", "")
        print(f"{start}{line}{rest}", end=end, file=self._out, flush=True)
        self._line = line

    def __del__(self) -> None:
        # Not where it could not be made, or nothing was done.
        if getattr(self, "_latest", "") and (self._is_terminal or self._latest != self._line):
            self._write(self._latest, "\n")


def _amount(value: float, of: str) -> str:
    """A number with its unit: bytes in thousands of thousands."""
    if of == "seconds":
        return f"{value:.1f} s"
    if of != "bytes":
        return f"{value:,.0f} {of}"
    units = ["B", "kB", "MB", "GB", "TB"]
    while value >= 1000 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{value:.0f} B" if units[0] == "B" else f"{value:.1f} {units[0]}"
