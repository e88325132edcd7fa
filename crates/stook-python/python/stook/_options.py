"""Options by name, as ``**options`` has them: those that there are not are refused, with the one
that was probably meant.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import Any

from ._errors import InvalidError
from ._typing import SparseFileOptions


def unknown(name: str, known: Collection[str], what: str = "this is not among the options") -> TypeError:
    """The error for an option that there is not."""
    near = get_close_matches(name.lower(), known, n=1)
    meant = f"; did you mean {near[0]!r}?" if near else ""
    return TypeError(f"argument '{name}': {what}{meant}")


def check_names(options: Iterable[str], known: Collection[str], what: str = "this is not among the options") -> None:
    """Raises for an option that there is not.

    Raises:
        TypeError: One of them is not known.
    """
    for name in options:
        if name not in known:
            raise unknown(name, known, what)


def wrong_type(name: str, wanted: str, value: Any) -> TypeError:
    """The error for an argument of a type that it cannot have."""
    return TypeError(f"argument '{name}': {wanted} is wanted, not {type(value).__name__}")


def whole(name: str, value: Any, least: int) -> int:
    """The whole number of an argument.

    Raises:
        TypeError: It is none.
        stook.InvalidError: It is less than ``least``.
    """
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise wrong_type(name, "a whole number", value)
    number = int(value.__index__())
    if number < least:
        raise InvalidError(f"argument '{name}': {least} or more is wanted, not {number}")
    return number


def check_sparse_file(options: Iterable[str]) -> None:
    """The same for the options of ``stook.SparseFile``."""
    check_names(options, SparseFileOptions.__annotations__.keys())
