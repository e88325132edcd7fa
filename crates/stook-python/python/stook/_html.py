"""What notebooks show: tables. Keys and names may be anybody's, so nothing of them is HTML."""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._types import PackInfo

#: Of longer lists the first are shown.
_SHOWN_MAX = 20
#: Of longer texts the beginning is shown.
_TEXT_MAX = 300


class Report:
    """A data class that notebooks show as a table."""

    def _repr_html_(self) -> str:
        return table(type(self).__name__, _fields(self))


def text(value: object) -> str:
    """A value as the text of a page: nothing in it is a tag, or moves what stands beside it."""
    shown = value if isinstance(value, str) else f"{value:,}" if type(value) is int else str(value)
    if len(shown) > _TEXT_MAX:
        shown = f"{shown[:_TEXT_MAX]}…"
    # Also what is no character, which no page could be written with.
    return html.escape(shown if shown.isprintable() else ascii(shown))


def table(caption: str, rows: Iterable[tuple[str, object]]) -> str:
    """A table of names and values; values may be lists, and other reports."""
    body = "".join(f"<tr><th style='text-align: left'>{text(name)}</th><td>{_cell(value)}</td></tr>" for name, value in rows)
    return f"<table><caption>{text(caption)}</caption><tbody>{body}</tbody></table>"


def pack(shown: str, info: PackInfo) -> str:
    """A pack: what is known of it without reading records."""
    rows = [(name, value) for name, value in _fields(info) if name != "path"]
    return table(shown, rows)


def _fields(report: Any) -> list[tuple[str, object]]:
    """What the text form of a report has, too, and whether it is all right, where it says so."""
    fields = [(field.name, getattr(report, field.name)) for field in dataclasses.fields(report) if field.repr]
    return [("ok", report.ok), *fields] if hasattr(report, "ok") else fields


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if dataclasses.is_dataclass(value):
        return _many([value])
    if isinstance(value, Mapping):
        return _lines([f"{text(name)}: {text(of)}" for name, of in list(value.items())[:_SHOWN_MAX]], len(value))
    if isinstance(value, (list, tuple)):
        return _many(value)
    return text(value)


def _many(values: Sequence[object]) -> str:
    first = values[:_SHOWN_MAX]
    if not first or not dataclasses.is_dataclass(first[0]):
        return _lines([text(str(one)) for one in first], len(values))
    fields = [_fields(one) for one in first]
    heads = "".join(f"<th>{text(name)}</th>" for name, _ in fields[0])
    rows = ["".join(f"<td>{_cell(value)}</td>" for _, value in row) for row in fields]
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>{_left(len(first), len(values))}"


def _lines(shown: list[str], count: int) -> str:
    return "<br>".join(shown) + _left(len(shown), count) if shown else "–"


def _left(shown: int, count: int) -> str:
    return f"<br>and {count - shown:,} more" if count > shown else ""
