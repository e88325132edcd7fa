"""What notebooks show: tables, in which nothing of a name or key is HTML."""

from __future__ import annotations

import dataclasses
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import stook
from stook import _html

#: Names that would be something else in a page, or in a terminal.
HOSTILE = ["<script>alert(1)</script>", "'\"><img src=x onerror=alert(1)>", "a\nb\u202e\x1b[2J", "caf\udce9", "&lt;b&gt;"]


class Parsed(HTMLParser):
    """The tags and the text of a page; every tag must be closed in its place."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.text = ""
        self._open: list[str] = []
        self.feed(page)
        assert not self._open

    def handle_starttag(self, tag: str, attributes: list[tuple[str, Any]]) -> None:
        self.tags.add(tag)
        assert all(name == "style" for name, _ in attributes), attributes
        if tag != "br":
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += f"{data} "


def parsed(page: str) -> Parsed:
    page.encode()
    assert all(character.isprintable() for character in page)
    found = Parsed(page)
    assert found.tags <= {"table", "caption", "thead", "tbody", "tr", "th", "td", "br"}
    return found


def test_packs_and_infos_are_tables(filled: Path) -> None:
    with stook.Pack(filled) as pack:
        shown = parsed(pack._repr_html_())  # type: ignore[attr-defined]
        assert "records 3" in shown.text and f"<stook.Pack {filled} (r)>" in shown.text and "groups second" in shown.text
        assert "records 3" in parsed(pack.info()._repr_html_()).text
        assert "body_bytes 20" in parsed(pack.check()._repr_html_()).text
    assert pack._repr_html_() is None  # type: ignore[attr-defined]


def test_showing_a_pack_writes_nothing(filled: Path) -> None:
    with stook.Pack(filled, "r+") as pack:
        pack["new"] = b"1"
        with stook.Pack(filled) as reader:
            assert "records 3" in parsed(pack._repr_html_()).text  # type: ignore[attr-defined]
            assert reader.is_current()


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_no_html(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name.replace("/", "_")
    with stook.Pack(folder, "x") as pack:
        pack.put(name, b"1", group="g" if "\udce9" in name else name)
        report = pack.delete_many([name, name + "none"], dry_run=True)
        pages = [pack._repr_html_(), pack.info()._repr_html_(), report._repr_html_()]  # type: ignore[attr-defined]
    for page in pages:
        found = parsed(page)
        assert "script" not in found.tags and "img" not in found.tags
    escaped = name if name.isprintable() else ascii(name)
    assert escaped in parsed(report._repr_html_()).text


def test_every_report_is_a_table() -> None:
    classes = [thing for name in stook.__all__ if dataclasses.is_dataclass(thing := getattr(stook, name))]
    assert len(classes) > 35
    for made in classes:
        assert hasattr(made, "_repr_html_"), made


def test_reports_in_reports_and_long_lists() -> None:
    failures = [stook.Failure(key=f"<b>{number}", error=ValueError("<i>\n")) for number in range(30)]
    report = stook.LoadReport(members=1_000_000, bytes=2, complete=True, failures=failures)
    found = parsed(report._repr_html_())
    assert "ok False" in found.text and "1,000,000" in found.text and "<b>19" in found.text
    assert "<b>20" not in found.text and "and 10 more" in found.text and found.tags == {
        "table", "caption", "tbody", "thead", "tr", "th", "td", "br",
    }
    moved = stook.MoveReport(files=1, symlinks=2, directories=3, bytes=4)
    nested = dataclasses.make_dataclass("Nested", ["moved", "none", "lost", "long"], bases=(_html.Report,))
    shown = parsed(nested(moved, None, {"<k>": "<v>"}, "x" * 1000)._repr_html_())
    assert "symlinks" in shown.text and "<k>: <v>" in shown.text and "–" in shown.text and "x" * 301 not in shown.text


def test_statistics_and_servers_are_shown(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    with stook.SparseFile(tmp_path / "file") as file:
        file.read(0, 5)
        assert "asked_bytes 5" in parsed(file.statistics()._repr_html_()).text
    buffer = stook.SparseBuffer()
    buffer.write(0, b"abc")
    assert "written_bytes 3" in parsed(buffer.counters()._repr_html_()).text
    with stook.serve(tmp_path / "file") as server:
        server.url = "http://127.0.0.1/'><script>"
        assert "<script>" not in server._repr_html_()
