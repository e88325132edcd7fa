"""Images in a pack, into a DataLoader of PyTorch: `python examples/images_to_dataloader.py
[DIRECTORY]`.

Packs a directory of images (without one: 2,000 small pictures that it makes), then goes through two
shuffled epochs with two workers. A batch is one call, whose reads are under way together; there are
no small files to be found and opened.
"""

from __future__ import annotations

import pathlib
import random
import sys
import tempfile
import time

import stook
import stook.torch
import torch
from torch.utils.data import DataLoader

SIDE = 32


def make_pictures(directory: pathlib.Path) -> None:
    """Portable grey maps: a header and SIDE x SIDE bytes."""
    source = random.Random(1)
    for number in range(2000):
        folder = directory / f"{number % 20:02}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number:04}.pgm").write_bytes(b"P5 %d %d 255\n" % (SIDE, SIDE) + source.randbytes(SIDE * SIDE))


def decode(key: object, value: bytes) -> torch.Tensor:
    """The pixels of a picture; whatever decodes images goes here."""
    pixels = value[-SIDE * SIDE :]
    return torch.frombuffer(bytearray(pixels), dtype=torch.uint8).reshape(SIDE, SIDE)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        images = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else work / "images"
        if len(sys.argv) == 1:
            make_pictures(images)
        report = stook.pack_tree(images, work / "images.stook")
        print(f"packed {report.files} files, {report.bytes / 1e6:.1f} MB")

        with stook.Pack(work / "images.stook") as pack:
            keys = [key for key in pack if str(key).endswith(".pgm")]
        dataset = stook.torch.PackDataset(work / "images.stook", keys=keys, transform=decode)
        loader = DataLoader(dataset, batch_size=128, shuffle=True, num_workers=2)
        for epoch in range(2):
            began, seen, mean = time.perf_counter(), 0, 0.0
            for batch in loader:
                seen += len(batch)
                mean += batch.float().mean().item() * len(batch)
            seconds = time.perf_counter() - began
            print(f"epoch {epoch}: {seen} pictures in {seconds:.2f} s, mean pixel {mean / seen:.1f}")
            assert seen == len(keys)


if __name__ == "__main__":
    main()
