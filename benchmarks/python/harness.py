"""How the Python benchmarks measure: in turn, with medians and spreads, cold where they say so."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable

import stook


def drop_caches() -> None:
    """Gives up everything that the system has read, and takes memory first that the host may have
    taken back.
    """
    touched = bytearray(2 << 30)
    touched[::4096] = b"x" * len(touched[::4096])
    del touched
    subprocess.run(["sync"], check=True)
    Path("/proc/sys/vm/drop_caches").write_text("3")


def versions(*modules: str) -> dict[str, str]:
    """Versions of what is compared."""
    found = {"python": platform.python_version(), "kernel": platform.release(), "stook": stook.__version__}
    for name in modules:
        module = __import__(name)
        found[name] = str(getattr(module, "__version__", getattr(module, "sqlite_version", "?")))
    return found


def in_turn(systems: dict[str, Callable[[], float]], rounds: int, before: Callable[[], None] = lambda: None) -> dict[str, list[float]]:
    """Runs every system once a round, with another one first each time; what each took."""
    names = list(systems)
    results: dict[str, list[float]] = {name: [] for name in names}
    for round_number in range(rounds):
        shift = round_number % len(names)
        for name in names[shift:] + names[:shift]:
            before()
            results[name].append(systems[name]())
            print(f"  round {round_number + 1}: {name} {results[name][-1]:.4g}", file=sys.stderr)
    return results


def timed(work: Callable[[], Any]) -> float:
    """Seconds."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def rows(results: dict[str, list[float]], ours: str) -> list[dict[str, Any]]:
    """Medians, spreads, and how many times as long as ours each took, round by round."""
    reported = []
    for name, values in results.items():
        ratios = [value / own for value, own in zip(values, results[ours])]
        reported.append(
            {
                "system": name,
                "seconds": values,
                "median_s": statistics.median(values),
                "ratio_median": statistics.median(ratios),
                "ratio_least": min(ratios),
                "ratio_most": max(ratios),
            }
        )
    return reported


def table(title: str, unit: str, reported: list[dict[str, Any]], amount: float, base: str = "ours") -> None:
    """Prints rates and ratios for people."""
    print(f"\n{title}")
    for row in reported:
        rate = amount / row["median_s"]
        spread = f"{row['ratio_least']:.2f} to {row['ratio_most']:.2f}"
        print(f"  {row['system']:34} {rate:14,.0f} {unit}   {row['ratio_median']:6.2f} times as long as {base} ({spread})")


def write(name: str, out: Path, document: dict[str, Any]) -> None:
    """Keeps the raw results."""
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")


def need_root() -> None:
    """Cold figures need the right to drop caches."""
    if os.geteuid() != 0:
        sys.exit("cold figures need root: only root may drop the caches of the system")
