"""What loading takes at scale: memory of a worker that reads one of ten million samples, and the
time to resume in the middle of them.

Run it with `python benchmarks/python/scale.py --work DIR --out DIR`, where torch is
installed. Workers are spawned, so that no memory is shared with the process that made them. What a
worker that reads nothing of a pack takes, torch and all, is measured beside.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Iterator

import numpy
import torch.utils.data
from torch.utils.data import DataLoader, Dataset

import stook
from harness import drop_caches, need_root, write
from stook.torch import PackDataset, PackStream

VALUE = 16
BATCH = 256


def private_bytes() -> int:
    """Memory that no other process shares."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Private_") and "Hugetlb" not in line)


samples_seen = 0


def with_memory(*_: Any) -> int:
    """What this process takes, once in so many samples: asking takes longer than reading one."""
    global samples_seen
    samples_seen += 1
    return private_bytes() if samples_seen % BATCH == 0 else 0


def most_memory(samples: list[int]) -> int:
    return max(samples)


class Nothing(Dataset):  # type: ignore[misc, type-arg]
    """Reads nothing; `stook` is imported as where a pack is read."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> int:
        return with_memory()


def build(path: Path, count: int) -> float:
    began = time.perf_counter()
    with stook.Pack(path, "a") as pack:
        for start in range(0, count, 100_000):
            numbers = range(start, min(count, start + 100_000))
            pack.update({f"{number:012}": number.to_bytes(VALUE, "big") for number in numbers})
    return time.perf_counter() - began


def worker_memory(dataset: Any, batches: int, shuffle: bool) -> int:
    """What a spawned worker takes at most, over so many batches."""
    sampler: Any = None
    if shuffle:
        # Ten million numbers in a random order are the sampler's, in the process that has it.
        sampler = torch.utils.data.RandomSampler(dataset, replacement=True, num_samples=batches * BATCH)
    loader = DataLoader(
        dataset,
        batch_size=BATCH,
        num_workers=1,
        sampler=sampler,
        multiprocessing_context="spawn",
        collate_fn=most_memory,
    )
    most = 0
    for number, found in enumerate(loader):
        most = max(most, found)
        if number + 1 >= batches:
            break
    return most


def first_batches(path: Path, rounds: int) -> Iterator[dict[str, float]]:
    """The first batch of an epoch, and of one that is resumed in its middle, caches dropped."""
    loader = stook.loader(path, seed=1, batch=BATCH)
    middle = loader.stream.state(0)
    batches = iter(loader)
    half = len(loader) // 2
    for number, _ in enumerate(batches):
        if number == half:
            break
    middle = loader.state_dict()
    loader.close()
    for _ in range(rounds):
        drop_caches()
        began = time.perf_counter()
        loader = stook.loader(path, seed=1, batch=BATCH)
        next(iter(loader))
        begun = time.perf_counter() - began
        loader.close()
        drop_caches()
        began = time.perf_counter()
        loader = stook.loader(path, seed=1, batch=BATCH)
        loader.load_state_dict(middle)
        next(iter(loader))
        resumed = time.perf_counter() - began
        loader.close()
        yield {"begun_s": begun, "resumed_s": resumed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--count", type=int, default=10_000_000)
    parser.add_argument("--batches", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    need_root()
    work, path = arguments.work / "scale", arguments.work / "scale" / "samples.stook"
    work.mkdir(parents=True)
    try:
        built = build(path, arguments.count)
        print(f"{arguments.count} records of {VALUE} bytes: built in {built:.1f} s")
        memory = {
            "nothing": worker_memory(Nothing(arguments.count), 10, True),
            "PackDataset": worker_memory(PackDataset(path, transform=with_memory), arguments.batches, True),
            "PackStream": worker_memory(PackStream(path, seed=1, transform=with_memory), arguments.batches, False),
        }
        for name, found in memory.items():
            print(f"  a worker of {name:12} {found / 1e6:8.1f} MB, {(found - memory['nothing']) / 1e6:6.1f} MB more than nothing")
        rounds = list(first_batches(path, arguments.rounds))
        for name in ("begun_s", "resumed_s"):
            print(f"  first batch, {name[:-2]:8} {statistics.median(found[name] for found in rounds):.3f} s")
    finally:
        shutil.rmtree(work)
    versions = {"python": sys.version.split()[0], "stook": stook.__version__, "torch": torch.__version__}
    versions["numpy"] = numpy.__version__
    document = {"versions": versions, "count": arguments.count, "value_bytes": VALUE, "built_s": built}
    write("scale", arguments.out, {**document, "worker_private_bytes": memory, "rounds": rounds, "cpus": os.cpu_count()})


if __name__ == "__main__":
    main()
