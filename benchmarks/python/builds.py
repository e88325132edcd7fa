"""Two builds of the package against one another: what a change costs, in the same run and in turn.

Each round starts both interpreters, which do the same work on packs of their own. Needs root, for
cold scans.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import stook
from harness import drop_caches, need_root, rows, table, timed, versions, write
from packs import BATCH, COLD_LEN, COLD_RECORDS, WARM_LEN, WARM_RECORDS, values
from sparse import MIB, NEED_BLOCKS, NEED_STRIDE, need, ours, read, write_blocks

GETS = 200_000


def build(work: Path) -> None:
    """The packs that this interpreter measures on."""
    for name, count, length in (("warm", WARM_RECORDS, WARM_LEN), ("cold", COLD_RECORDS, COLD_LEN)):
        with stook.Pack(work / f"{name}.stook", "x", segment_bytes=4 << 30) as pack:
            pack.update(enumerate(values(count, length)))
            pack.compact()


def measure(work: Path) -> dict[str, list[float]]:
    """Seconds of each work, and how many times it does what it is named after."""
    keys = random.Random(7).sample(range(WARM_RECORDS), GETS)
    batches = [keys[start : start + BATCH] for start in range(0, GETS, BATCH)]
    drop_caches()

    def scan() -> None:
        with stook.Pack(work / "cold.stook") as pack:
            assert sum(record.value.nbytes for record in pack.scan()) == COLD_RECORDS * COLD_LEN

    measured = {"records scanned, cold": [timed(scan), COLD_RECORDS]}
    for way, mapped in (("mapped", True), ("read", False)):
        with stook.Pack(work / "warm.stook", map=mapped) as pack:
            # What is measured is not the first look at each page.
            pack.get_many(keys)
            measured[f"get_many, {way}"] = [timed(lambda: [pack.get_many(batch) for batch in batches]), GETS]
            measured[f"pack[key], {way}"] = [timed(lambda: [pack[key] for key in keys]), GETS]
    for size in (8, 512, 65_536):
        calls = MIB // size
        measured[f"reads of {size} B"] = [read(ours, size), calls]
        measured[f"writes of {size} B that do not touch"] = [write_blocks(ours, size, 1), calls]
        measured[f"writes of {size} B that touch"] = [write_blocks(ours, size, 0), calls]
    measured["asking what is needed, 512 B at a time"] = [need(ours, 512), NEED_BLOCKS * NEED_STRIDE // 512]
    return measured


def in_process(python: Path, mode: str, work: Path) -> Any:
    """What this script prints when another interpreter runs it."""
    command = [str(python), __file__, "--work", str(work), f"--{mode}"]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def compare(arguments: argparse.Namespace) -> dict[str, Any]:
    """Builds the packs, and measures both interpreters in turn."""
    pythons = {"old": arguments.old, "new": arguments.new}
    document: dict[str, Any] = {"rounds": arguments.rounds, "versions": {}}
    for name, python in pythons.items():
        (arguments.work / name).mkdir(parents=True, exist_ok=True)
        document["versions"][name] = in_process(python, "build", arguments.work / name)
    seconds: dict[str, dict[str, list[float]]] = {}
    amounts = {}
    for number in range(arguments.rounds):
        for name in sorted(pythons, reverse=number % 2 == 0):
            for work, (took, amount) in in_process(pythons[name], "measure", arguments.work / name).items():
                seconds.setdefault(work, {}).setdefault(name, []).append(took)
                amounts[work] = amount
        print(f"  round {number + 1} of {arguments.rounds}", file=sys.stderr)
    document["compared"] = []
    for work, results in seconds.items():
        reported = rows({"old": results["old"], "new": results["new"]}, "old")
        table(work, "/s", reported, amounts[work], "old")
        document["compared"].append({"work": work, "amount": amounts[work], "rows": reported})
    return document


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--old", type=Path, help="the interpreter with the build to compare with")
    parser.add_argument("--new", type=Path, help="the interpreter with the build that is asked about")
    parser.add_argument("--work", type=Path, required=True, help="where the packs are kept while they are measured")
    parser.add_argument("--out", type=Path, help="where builds.json goes")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--build", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    need_root()
    if arguments.build:
        build(arguments.work)
        print(json.dumps(versions()))
    elif arguments.measure:
        print(json.dumps(measure(arguments.work)))
    elif arguments.old and arguments.new and arguments.out:
        write("builds", arguments.out, compare(arguments))
    else:
        parser.error("--old, --new and --out are needed")


if __name__ == "__main__":
    main()
