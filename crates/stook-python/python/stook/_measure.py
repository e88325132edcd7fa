"""Measurements by the command-line tool: nothing of Python is in the figures."""

import html
import json
import math
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Optional, Union, get_args

from ._errors import Error, InvalidError
from ._html import Report
from ._progress import callback
from ._stook import path_argument
from ._typing import StudyName, TimeProgress, Workload
from .__main__ import find_binary


class MeasurementError(Error, RuntimeError):
    """The command-line tool could not measure; the message is what it said."""


@dataclass(frozen=True)
class Figures(Report):
    """Rates and latencies of a cell.

    Attributes:
        iops: Requests a second.
        bandwidth_bytes_per_s: Bytes a second.
        latency_mean_ns: The mean latency.
        latency_p50_ns: Half of all requests took no longer.
        latency_p99_ns: 99 of a hundred requests took no longer.
    """

    iops: float
    bandwidth_bytes_per_s: float
    latency_mean_ns: Optional[float]
    latency_p50_ns: Optional[float]
    latency_p99_ns: Optional[float]


@dataclass(frozen=True)
class Cell(Report):
    """One combination of what was asked for, and what was found.

    Attributes:
        rw: ``"read"``, ``"write"``, ``"rw"``, ``"randread"``, ``"randwrite"``, ``"randrw"``.
        block_size: Bytes of each request.
        depth: Requests in flight for each job.
        jobs: Threads.
        read_share: How many of a hundred requests are reads.
        total: Figures over reads and writes.
        read: Figures of reads, if there were any.
        write: Figures of writes, if there were any.
        state: ``"valid"``: every check passed. ``"unverified"``: none failed, and one could not be
            made, so nothing shows that the figures are right. ``"invalid"``: one failed, and the
            figures do not mean what they seem to.
        reasons: Why they may not be believed, or why that is not known.
    """

    rw: str
    block_size: int
    depth: int
    jobs: int
    read_share: int
    total: Figures
    read: Optional[Figures]
    write: Optional[Figures]
    state: str
    reasons: list[str]


def _figures(document: Optional[dict[str, Any]]) -> Optional[Figures]:
    if document is None or not document.get("count"):
        return None
    return Figures(**{name: document.get(name) for name in Figures.__dataclass_fields__})  # type: ignore[arg-type]


def _cell(document: dict[str, Any]) -> Cell:
    figures: dict[str, Any] = {part: _figures(document.get(part)) for part in ("total", "read", "write")}
    figures["total"] = figures["total"] or Figures(0.0, 0.0, None, None, None)
    return Cell(**{name: document[name] for name in Cell.__dataclass_fields__.keys() - figures.keys()}, **figures)


def _milliseconds(nanoseconds: Optional[float]) -> str:
    return "–" if nanoseconds is None else f"{nanoseconds / 1e6:,.3f}"


@dataclass(frozen=True)
class BenchResult:
    """What `bench` found.

    Attributes:
        path: What was measured.
        cells: One for each combination of what was asked for.
        document: Everything: the document that ``stook bench --json`` prints.
    """

    path: str
    cells: list[Cell]
    document: dict[str, Any] = field(repr=False)

    def _repr_html_(self) -> str:
        heads = ["rw", "block", "depth", "jobs", "IOPS", "MB/s", "mean ms", "p50 ms", "p99 ms", "state"]
        rows = []
        for cell in self.cells:
            total = cell.total
            latencies = (total.latency_mean_ns, total.latency_p50_ns, total.latency_p99_ns)
            state = cell.state if cell.state == "valid" else f"{cell.state}: " + "; ".join(cell.reasons)
            values = [
                cell.rw,
                f"{cell.block_size:,}",
                str(cell.depth),
                str(cell.jobs),
                f"{total.iops:,.0f}",
                f"{total.bandwidth_bytes_per_s / 1e6:,.1f}",
                *map(_milliseconds, latencies),
                state,
            ]
            rows.append("".join(f"<td>{html.escape(value)}</td>" for value in values))
        head = "".join(f"<th>{html.escape(name)}</th>" for name in heads)
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        caption = f"<caption>stook bench {html.escape(self.path)}</caption>"
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


@dataclass(frozen=True)
class StudyResult:
    """What `study` found.

    Attributes:
        name: The study.
        conclusions: What is published beside what was found here, in words.
        document: Everything: the document that ``stook study NAME --json`` prints.
        page: The page with tables and plots: one self-contained HTML document.
    """

    name: str
    conclusions: list[Any]
    document: dict[str, Any] = field(repr=False)
    page: str = field(repr=False)

    def save(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes the page to a file."""
        Path(path).write_text(self.page, encoding="utf-8")

    def _repr_html_(self) -> str:
        # In a frame of its own, so that the styles of page and notebook leave each other alone.
        shown = html.escape(self.page, quote=True)
        return f'<iframe srcdoc="{shown}" style="width: 100%; height: 40em; border: 0"></iframe>'


#: With what the command-line tool ends where its arguments make no sense.
_WRONG_USAGE = 2
#: How often progress of a measurement is reported.
_REPORT_SECONDS = 0.25
#: What arguments of `bench` are called on the command line; those that have values first.
_BENCH_OPTIONS = {
    "--rw": "rw",
    "--block-size": "block_size",
    "--depth": "depth",
    "--jobs": "jobs",
    "--time": "seconds",
    "--ramp": "ramp_seconds",
    "--read-share": "read_share",
    "--file-size": "file_size",
    "--overwrite-file": "overwrite_file",
}


def _message(stderr: str) -> str:
    """What the tool said, with the names that arguments have here."""
    first = re.split(r"\n\s*(?:tip: |Usage: |For more information)", stderr)[0].strip()
    option = r"'(--[a-z-]+)(?: <[^>]*>)?'|(?<![\w-])(--[a-z-]+)"
    named = re.sub(option, lambda found: _BENCH_OPTIONS.get(found[1] or found[2], found[0]), first)
    return re.sub(r"^(?:error|stook): ", "", named)


def _run(arguments: Sequence[str], progress: object) -> dict[str, Any]:
    report = callback(progress, "seconds")
    command = [find_binary(), *arguments, "--json"]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            out, errors = _outputs(process, report)
        except BaseException:
            # Ctrl-C: it removes what it made before it ends.
            process.terminate()
            raise
    # 1: measured, and something in it did not pass its checks.
    if process.returncode not in (0, 1) or not out.strip():
        message = _message(errors.decode(errors="replace")) or f"it ended with status {process.returncode}"
        raise InvalidError(message) if process.returncode == _WRONG_USAGE else MeasurementError(message)
    document: dict[str, Any] = json.loads(out)
    return document


def _outputs(process: subprocess.Popen[bytes], report: Optional[Callable[..., object]]) -> tuple[bytes, bytes]:
    """What a process writes until it ends; `report` is called with its seconds."""
    began = time.monotonic()
    while report is not None:
        try:
            return process.communicate(timeout=_REPORT_SECONDS)
        except subprocess.TimeoutExpired:
            report(time.monotonic() - began)
    return process.communicate()


def _seconds(name: str, value: float) -> str:
    """Seconds as the command line takes them."""
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        raise InvalidError(f"argument '{name}': a number of seconds is wanted, not {value!r}") from None
    if not 0 <= seconds < math.inf:
        raise InvalidError(f"argument '{name}': 0 s or more is wanted, not {value} s")
    return f"{seconds:.3f}s"


def _options(options: Sequence[str]) -> list[str]:
    if isinstance(options, str) or not isinstance(options, Sequence):
        raise InvalidError(f"argument 'options': a list of str is wanted, not {options!r}")
    return list(options)


def _list(values: object) -> str:
    several = values if isinstance(values, (list, tuple)) else [values]
    return ",".join(map(str, several))


def bench(
    path: Union[str, os.PathLike[str]],
    *,
    rw: Union[Workload, Sequence[Workload]] = "randread",
    block_size: Union[int, str, Sequence[Union[int, str]]] = "4K",
    depth: Union[int, Sequence[int]] = 1,
    jobs: Union[int, Sequence[int]] = 1,
    read_share: Union[int, Sequence[int], None] = None,
    seconds: float = 10.0,
    ramp_seconds: float = 1.0,
    file_size: Union[int, str, None] = None,
    overwrite_file: bool = False,
    options: Sequence[str] = (),
    progress: TimeProgress = None,
) -> BenchResult:
    """Measures storage: reads and writes of a test file, with latencies.

    Args:
        path: A directory, in which a test file is made, or an existing file.
        rw: Reads, writes or both; lists make a cell for each combination.
        block_size: Bytes of each request: a number, or a text such as ``"64K"``.
        depth: Requests that each job keeps in flight.
        jobs: Threads.
        read_share: How many of a hundred requests are reads.
        seconds: How long each cell is measured.
        ramp_seconds: How long each cell runs before anything is counted.
        file_size: Length of the test file that is made.
        overwrite_file: Needed before an existing file is written.
        options: Anything else that ``stook bench`` takes.
        progress: Called some times a second with the seconds since it began; what it raises ends
            the measurement. ``True`` shows them with tqdm.

    Returns:
        Figures of every cell, with a table in notebooks.

    Raises:
        stook.InvalidError: An argument makes no sense.
        stook.MeasurementError: It could not be measured.
    """
    if overwrite_file not in (True, False):
        raise InvalidError(f"argument 'overwrite_file': True or False is wanted, not {overwrite_file!r}")
    times = [_seconds("seconds", seconds), _seconds("ramp_seconds", ramp_seconds)]
    values = [rw, block_size, depth, jobs, *times, read_share, file_size]
    # In one piece each: a value that begins with `-` is refused as a value.
    given = [f"{name}={_list(value)}" for name, value in zip(_BENCH_OPTIONS, values) if value is not None]
    path = path_argument("path", path)
    arguments = ["bench", path, *given, *(["--overwrite-file"] if overwrite_file else [])]
    document = _run([*arguments, *_options(options)], progress)
    return BenchResult(path=path, cells=[_cell(cell) for cell in document["cells"]], document=document)


def study(name: StudyName, *, options: Sequence[str] = (), progress: TimeProgress = None) -> StudyResult:
    """Repeats a published study on this machine and lays its figures beside the published ones.

    Args:
        name: ``"many-small-files"``, ``"ssd-profile"`` or ``"sparse-file"``.
        options: Anything that ``stook study NAME`` takes.
        progress: As for :func:`bench`.

    Returns:
        Tables, conclusions and a page, which notebooks show.

    Raises:
        stook.InvalidError: There is no such study, or an option makes no sense.
        stook.MeasurementError: It could not be measured.
    """
    if name not in (names := get_args(StudyName)):
        raise InvalidError(f"argument 'name': one of {', '.join(map(repr, names))} is wanted, not {name!r}")
    with tempfile.TemporaryDirectory(prefix="stook-study-") as folder:
        document = _run(["study", name, "--out", folder, *_options(options)], progress)
        pages = sorted(Path(folder).rglob("*.html"))
        page = pages[0].read_text(encoding="utf-8") if pages else ""
    return StudyResult(name=name, conclusions=document.get("conclusions", []), document=document, page=page)
