"""Loading images for training: a pack beside loose files, LMDB, webdataset, MosaicML streaming and
LitData.

Run it with `python benchmarks/python/loaders.py --work DIR --out DIR`. Systems that are not
installed are left out, and named. Every measurement is a process of its own; importing is not
counted, opening and listing are. All shuffle, all have the same batches and the same decoder, and
what works with processes is measured with none and with two of them.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tarfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator

import numpy

from harness import drop_caches, in_turn, need_root, rows, table, write

BATCH = 64
SEED = 7
SHARD_BYTES = 64 << 20
#: How many images of about which length.
SIZES = {"20 KB": (20_000, 20_000), "100 KB": (100_000, 8_000)}
#: So many are decoded: that is bound by the processor, and needs no more.
DECODED = {"20 KB": 3_000, "100 KB": 1_000}
#: Sections of each size: whether caches are dropped, and whether images are decoded.
SECTIONS = ((True, False), (False, False), (True, True))
OURS, OURS_BYTES, OURS_TORCH = "stook.loader", "stook.loader, copied to bytes", "stook PackStream"
#: Without processes.
ALONE = (OURS, OURS_BYTES)
NEEDS = {
    OURS: (),
    OURS_BYTES: (),
    OURS_TORCH: ("torch",),
    "files": ("torch",),
    "LMDB": ("torch", "lmdb"),
    "webdataset": ("torch", "webdataset"),
    "MosaicML streaming": ("torch", "streaming"),
    "LitData": ("torch", "litdata"),
}
WORKERS = (0, 2)


def images(length: int, count: int) -> Iterator[bytes]:
    """JPEG files of about so many bytes: gradients with noise, of the size in pixels that photos of
    this length have.
    """
    from PIL import Image

    source = numpy.random.default_rng(length)
    side = 256 if length < 50_000 else 512
    ramp = numpy.linspace(0, 200, side)
    bases = []
    for _ in range(50):
        noise = source.normal(0, 18, (side, side, 3))
        pixels = ramp[:, None, None] * source.random(3) + ramp[None, :, None] * source.random(3) * 0.25 + noise
        picture = Image.fromarray(pixels.clip(0, 255).astype(numpy.uint8))
        quality, out = 20, b""
        while len(out) < length and quality < 96:
            buffer = io.BytesIO()
            picture.save(buffer, "JPEG", quality=quality)
            quality, out = quality + 3, buffer.getvalue()
        bases.append(out)
    # Decoders do not look at what follows the end of a picture; it makes each of its own kind.
    for number in range(count):
        yield bases[number % len(bases)] + source.bytes(32)


def label_of(number: int) -> str:
    return f"class{number % 10:02}"


def build(work: Path, length: int, count: int, systems: Iterable[str]) -> dict[str, float]:
    """The same images for each; how long that took."""
    systems, loose = list(systems), work / "files"
    for number in range(10):
        (loose / label_of(number)).mkdir(parents=True, exist_ok=True)
    for number, image in enumerate(images(length, count)):
        (loose / label_of(number) / f"{number:06}.jpg").write_bytes(image)
    builders: dict[str, Callable[[Path, list[Path]], None]] = {
        OURS: build_pack,
        "LMDB": build_lmdb,
        "webdataset": build_tars,
        "MosaicML streaming": build_mds,
        "LitData": build_litdata,
    }
    paths = sorted(loose.glob("*/*.jpg"))
    random.Random(SEED).shuffle(paths)
    took = {}
    for name in systems:
        if name in builders:
            began = time.perf_counter()
            builders[name](work, paths)
            took[name] = time.perf_counter() - began
    return took


def build_pack(work: Path, paths: list[Path]) -> None:
    import stook

    stook.pack_tree(work / "files", work / "pack.stook")


def build_lmdb(work: Path, paths: list[Path]) -> None:
    import lmdb

    with lmdb.open(str(work / "lmdb"), map_size=16 << 30) as environment, environment.begin(write=True) as transaction:
        for number, path in enumerate(sorted(paths)):
            transaction.put(number.to_bytes(8, "big"), path.read_bytes(), append=True)


def build_tars(work: Path, paths: list[Path]) -> None:
    (work / "tars").mkdir()
    number, held, archive = 0, SHARD_BYTES, None
    for path in paths:
        if held >= SHARD_BYTES:
            if archive is not None:
                archive.close()
            archive, number, held = tarfile.open(work / "tars" / f"{number:06}.tar", "w"), number + 1, 0
        assert archive is not None
        archive.add(path, f"{path.stem}.jpg")
        held += path.stat().st_size
    if archive is not None:
        archive.close()


def build_mds(work: Path, paths: list[Path]) -> None:
    from streaming import MDSWriter

    with MDSWriter(out=str(work / "mds"), columns={"image": "bytes"}, size_limit=SHARD_BYTES) as writer:
        for path in paths:
            writer.write({"image": path.read_bytes()})


def as_item(path: str) -> dict[str, bytes]:
    return {"image": Path(path).read_bytes()}


def build_litdata(work: Path, paths: list[Path]) -> None:
    import litdata

    litdata.optimize(
        fn=as_item,
        inputs=[str(path) for path in paths],
        output_dir=str(work / "litdata"),
        chunk_bytes=SHARD_BYTES,
        num_workers=2,
    )


def whole(image: bytes) -> bytes:
    return bytes(image)


def decoded(image: bytes) -> Any:
    from PIL import Image

    return numpy.asarray(Image.open(io.BytesIO(image)).convert("RGB"))


def as_list(samples: list[Any]) -> list[Any]:
    return samples


class Files:
    """Loose files, as a data set by index."""

    def __init__(self, root: Path, decode: Callable[[bytes], Any]) -> None:
        self.paths = sorted(root.glob("*/*.jpg"))
        self.decode = decode

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        return self.decode(self.paths[index].read_bytes())


class Lmdb:
    """LMDB, as a data set by index, opened by each worker."""

    def __init__(self, path: Path, decode: Callable[[bytes], Any]) -> None:
        import lmdb

        self.path, self.decode, self.transaction = str(path), decode, None
        with lmdb.open(self.path, readonly=True, lock=False) as environment:
            self.count = environment.stat()["entries"]

    def __len__(self) -> int:
        return int(self.count)

    def __getitem__(self, index: int) -> Any:
        import lmdb

        if self.transaction is None:
            self.transaction = lmdb.open(self.path, readonly=True, lock=False, readahead=False).begin()
        return self.decode(self.transaction.get(index.to_bytes(8, "big")))


def torch_loader(dataset: Any, workers: int, shuffle: bool = False) -> Iterable[Any]:
    from torch.utils.data import DataLoader

    return DataLoader(dataset, batch_size=BATCH, num_workers=workers, shuffle=shuffle or None, collate_fn=as_list)


def opened(system: str, work: Path, workers: int, decode: Callable[[bytes], Any]) -> Iterable[Any]:
    """Batches of a system, in a random order."""
    if system in ALONE:
        import stook

        # Bytes are no work for threads of Python: a record is a buffer of what was read.
        work_of = None if decode is whole else lambda record: decode(record.value)
        batches = stook.loader(work / "pack.stook", seed=SEED, batch=BATCH, decode=work_of, collate=as_list)
        if decode is not whole:
            return batches
        take = memoryview if system == OURS else bytes
        return ([take(record) for record in batch] for batch in batches)
    if system == OURS_TORCH:
        from stook.torch import PackStream

        return torch_loader(PackStream(work / "pack.stook", seed=SEED, transform=OfValue(decode)), workers)
    if system == "files":
        return torch_loader(Files(work / "files", decode), workers, shuffle=True)
    if system == "LMDB":
        return torch_loader(Lmdb(work / "lmdb", decode), workers, shuffle=True)
    if system == "webdataset":
        import webdataset

        shards = sorted(str(path) for path in (work / "tars").glob("*.tar"))
        dataset = webdataset.WebDataset(shards, shardshuffle=len(shards), seed=SEED).shuffle(1000)
        return torch_loader(dataset.map(OfField("jpg", decode)), workers)
    if system == "MosaicML streaming":
        from streaming import StreamingDataset
        from streaming.base.util import clean_stale_shared_memory

        clean_stale_shared_memory()
        data = StreamingDataset(local=str(work / "mds"), shuffle=True, batch_size=BATCH, shuffle_seed=SEED)
        return torch_loader(Mapped(data, OfField("image", decode)), workers)
    import litdata

    data = litdata.StreamingDataset(str(work / "litdata"), shuffle=True, seed=SEED)
    return litdata.StreamingDataLoader(data, batch_size=BATCH, num_workers=workers, collate_fn=Collated(decode))


class OfField:
    def __init__(self, name: str, decode: Callable[[bytes], Any]) -> None:
        self.name, self.decode = name, decode

    def __call__(self, sample: Any) -> Any:
        return self.decode(sample[self.name])


class OfValue:
    def __init__(self, decode: Callable[[bytes], Any]) -> None:
        self.decode = decode

    def __call__(self, key: Any, value: bytes) -> Any:
        return self.decode(value)


class Collated:
    def __init__(self, decode: Callable[[bytes], Any]) -> None:
        self.decode = decode

    def __call__(self, samples: list[Any]) -> list[Any]:
        return [self.decode(sample["image"]) for sample in samples]


def Mapped(data: Any, work: Callable[[Any], Any]) -> Any:
    """A data set of torch whose samples something is done to."""
    from torch.utils.data import IterableDataset

    class Set(IterableDataset):  # type: ignore[misc, type-arg]
        def __iter__(self) -> Iterator[Any]:
            return map(work, data)

    return Set()


def one(system: str, work: Path, workers: int, decodes: bool, most: int) -> dict[str, float]:
    """Goes through one epoch, or so many samples of it."""
    for module in NEEDS[system]:
        __import__(module)
    if system in ALONE:
        from stook import loader  # noqa: F401
    if system == OURS_TORCH:
        import stook.torch  # noqa: F401
    if decodes:
        import PIL.Image
    began = time.perf_counter()
    batches = iter(opened(system, work, workers, decoded if decodes else whole))
    first, samples, total = 0.0, 0, 0
    for batch in batches:
        first = first or time.perf_counter() - began
        samples += len(batch)
        total += sum(len(sample) for sample in batch)
        if samples >= most:
            break
    took = time.perf_counter() - began
    return {"first_s": first, "seconds": took, "samples": samples, "sum": total}


def measured(system: str, work: Path, workers: int, decodes: bool, most: int) -> dict[str, float]:
    """The same in a process of its own."""
    command = [sys.executable, __file__, "--work", str(work), "--one", system, "--workers", str(workers), "--most", str(most)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ran = subprocess.run(command + ["--decode"] * decodes, capture_output=True, text=True, env=environment)
    if ran.returncode != 0:
        sys.exit(f"{system} failed:\n{ran.stderr}")
    found: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
    return found


def section(work: Path, systems: list[str], rounds: int, is_cold: bool, decodes: bool, most: int) -> dict[str, Any]:
    """One table: all systems in turn."""
    runs: dict[str, list[dict[str, float]]] = {}

    def run(name: str, system: str, workers: int) -> Callable[[], float]:
        def work_once() -> float:
            found = measured(system, work, workers, decodes, most)
            if found["samples"] < most:
                sys.exit(f"{name} gave {found['samples']:.0f} samples of {most}")
            runs.setdefault(name, []).append(found)
            return found["seconds"] / found["samples"] * most

        return work_once

    named = [(system, system, 0) for system in systems if system in ALONE and not (decodes and system != OURS)]
    named += [(f"{one}, {workers} workers", one, workers) for one in systems if one not in ALONE for workers in WORKERS]
    variants = {name: run(name, system, workers) for name, system, workers in named}
    reported = rows(in_turn(variants, rounds, drop_caches if is_cold else lambda: None), OURS)
    for row in reported:
        firsts = [found["first_s"] for found in runs[row["system"]]]
        row["first_s"], row["first_median_s"] = firsts, statistics.median(firsts)
    words = f"{'cold' if is_cold else 'warm'}, {'decoded' if decodes else 'bytes'}"
    table(words, "samples/s", reported, most, OURS)
    for row in reported:
        print(f"  {row['system']:34} first batch after {row['first_median_s']:.3f} s")
    return {"samples": most, "cold": is_cold, "decoded": decodes, "rows": reported}


def versions_of(systems: Iterable[str]) -> dict[str, str]:
    from importlib import metadata

    names = {"streaming": "mosaicml-streaming"}
    found = {"python": sys.version.split()[0], "stook": metadata.version("stook")}
    for module in sorted({module for system in systems for module in NEEDS[system]}):
        found[module] = metadata.version(names.get(module, module))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True, help="where the images are kept while they are measured")
    parser.add_argument("--out", type=Path, help="where loaders.json goes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--one", choices=list(NEEDS), help=argparse.SUPPRESS)
    parser.add_argument("--workers", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--most", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--decode", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one is not None:
        print(json.dumps(one(arguments.one, arguments.work, arguments.workers, arguments.decode, arguments.most)))
        return
    need_root()
    if arguments.out is None:
        parser.error("--out says where the results go")
    systems = [name for name, modules in NEEDS.items() if all(find_spec(module) for module in modules)]
    for name in NEEDS.keys() - set(systems):
        print(f"{name} is left out: it needs {' and '.join(NEEDS[name])}")
    document: dict[str, Any] = {"versions": versions_of(systems), "rounds": arguments.rounds, "sizes": {}}
    for size in arguments.only:
        length, count = SIZES[size]
        work = arguments.work / size.replace(" ", "")
        work.mkdir(parents=True, exist_ok=True)
        print(f"\n{count} images of about {size}")
        document["sizes"][size] = {"count": count, "built_s": build(work, length, count, systems), "sections": []}
        for is_cold, decodes in SECTIONS:
            most = DECODED[size] if decodes else count
            found = section(work, systems, arguments.rounds, is_cold, decodes, most)
            document["sizes"][size]["sections"].append(found)
        shutil.rmtree(work)
    write("loaders", arguments.out, document)


if __name__ == "__main__":
    main()
