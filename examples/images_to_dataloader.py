"""A folder of pictures becomes shuffled batches, stopped and continued exactly:
`python examples/images_to_dataloader.py [DIRECTORY]`. It needs numpy and Pillow; PyTorch is used
where it is installed.

Packs a directory of JPEG, PNG and other files that Pillow opens, with a class in each of its first
directories (without one: 2,000 small pictures that it makes). Files that are no pictures are passed
over and counted.
"""

from __future__ import annotations

import io
import pathlib
import random
import sys
import tempfile
import time
from typing import Any

import numpy as np
import stook
from PIL import Image

SIDE = 64


def make_pictures(directory: pathlib.Path) -> None:
    """Noise of one colour in twenty classes, as JPEG and PNG."""
    chance = random.Random(1)
    for number in range(2000):
        folder = directory / f"class {number % 20:02}"
        folder.mkdir(parents=True, exist_ok=True)
        image = Image.frombytes("L", (32, 24), chance.randbytes(32 * 24))
        image.save(folder / f"{number:04}.{'jpg' if number % 10 else 'png'}")


def decode(record: stook.Record) -> tuple[np.ndarray, str]:
    """The pixels of a picture and its class. It runs in threads, side by side."""
    image = Image.open(io.BytesIO(record.value)).convert("RGB").resize((SIDE, SIDE))
    return np.asarray(image), str(record.key).partition("/")[0]


def through_torch(path: pathlib.Path) -> None:
    """The same pack as a data set of PyTorch, with its own loader and workers."""
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed: stook.torch is left out")
        return
    import stook.torch
    from torch.utils.data import DataLoader

    def as_tensor(image: Image.Image) -> torch.Tensor:
        return torch.from_numpy(np.array(image.resize((SIDE, SIDE))))

    folder = stook.torch.ImageFolder(path, transform=as_tensor)
    seen = sum(len(labels) for _, labels in DataLoader(folder, batch_size=128, shuffle=True, num_workers=2))
    print(f"PyTorch: {seen} pictures of {len(folder.classes)} classes")


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        work = pathlib.Path(place)
        images = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else work / "images"
        if len(sys.argv) == 1:
            make_pictures(images)
        path = work / "images.stook"
        report = stook.pack_tree(images, path)
        print(f"packed {report.files} files, {report.bytes / 1e6:.1f} MB")

        loader = stook.loader(path, batch=128, decode=decode, on_error="skip")
        for epoch in range(2):
            began, batches = time.perf_counter(), iter(loader)
            counts: list[Any] = [len(labels) for _, labels in batches]
            seconds = time.perf_counter() - began
            print(f"epoch {epoch}: {sum(counts)} pictures in {seconds:.2f} s, {batches.failed} files are none")

        # Stopped in the middle, and continued by a loader that knows nothing but the state.
        seen = [label for _, (_, labels) in zip(range(len(loader) // 2), loader) for label in labels]
        again = stook.loader(path, batch=128, decode=decode, on_error="skip")
        again.load_state_dict(loader.state_dict())
        loader.close()
        seen += [label for _, labels in again for label in labels]
        print(f"stopped and continued: {len(seen)} pictures")
        through_torch(path)


if __name__ == "__main__":
    main()
