"""Advice by the command-line tool: what is slow about a tree or an archive, and what to run."""

import html
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional, Union

from ._errors import InvalidError
from ._measure import _options, _run
from ._stook import path_argument
from ._typing import TimeProgress


@dataclass(frozen=True)
class Advice:
    """What `advise` found.

    Attributes:
        path: What was looked at.
        kind: ``"tree"`` or ``"archive"``.
        action: What to do: ``"pack"``, ``"readers"``, ``"index"`` or ``"none"``; ``None`` where
            nothing could be read cold, so that nothing is known.
        command: What to run in a shell, if there is something.
        document: Everything: what ``stook advise --json`` has for this path.
        page: The advice as a page of HTML, which notebooks show.
    """

    path: str
    kind: str
    action: Optional[str]
    command: Optional[str]
    document: dict[str, Any] = field(repr=False)
    page: str = field(repr=False)

    def _repr_html_(self) -> str:
        # In a frame of its own, so that the styles of page and notebook leave each other alone.
        shown = html.escape(self.page, quote=True)
        return f'<iframe srcdoc="{shown}" style="width: 100%; height: 40em; border: 0"></iframe>'


def advise(
    path: Union[str, os.PathLike[str]],
    *,
    confirm: bool = False,
    keep_caches: bool = False,
    options: Sequence[str] = (),
    progress: TimeProgress = None,
) -> Advice:
    """Says how long reading a tree takes and why, and what would make it faster.

    Some of its files are read cold, by one reader and by several, and packed into a small pack
    beside the tree, which is loaded and removed. Root is needed for that: else files may be in
    memory, nothing is predicted, and ``action`` is ``None``.

    Args:
        path: A tree, a file or an archive.
        confirm: Measure files and a pack of them once more, beside what was predicted.
        keep_caches: Leave the caches of the system alone: then nothing is predicted.
        options: Anything else that ``stook advise`` takes.
        progress: Called some times a second with the seconds since it began; what it raises ends
            it. ``True`` shows them with tqdm.

    Returns:
        What to do, with all figures in ``document``.

    Raises:
        stook.InvalidError: An argument makes no sense.
        stook.MeasurementError: It could not be looked at, or is a pack.
    """
    flags = []
    for name, value in [("confirm", confirm), ("keep_caches", keep_caches)]:
        if value not in (True, False):
            raise InvalidError(f"argument '{name}': True or False is wanted, not {value!r}")
        if value:
            flags.append("--" + name.replace("_", "-"))
    given = _options(options)
    with tempfile.TemporaryDirectory(prefix="stook-advise-") as folder:
        page = Path(folder) / "advice.html"
        arguments = ["advise", path_argument("path", path), *flags, f"--html={page}", *given]
        document: dict[str, Any] = _run(arguments, progress)["advice"][0]
        text = page.read_text(encoding="utf-8")
    found = document["tree"] or document["archive"]
    prediction = found.get("prediction") or {}
    action = found.get("action", prediction.get("action"))
    return Advice(document["path"], document["kind"], action, found["command"], document, text)
