"""A region of a remote tiled TIFF: `python examples/remote_tiff.py [URL]`.

Without an address it makes a picture of 4,096 x 4,096 pixels and serves it from this machine, every
answer after 50 ms.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import tifffile
from range_server import serve

import stook


def make_picture(path: Path) -> None:
    """Tiles of 256 x 256 grey pixels."""
    pixels = np.random.default_rng(1).integers(0, 256, (4096, 4096), dtype=np.uint8)
    tifffile.imwrite(path, pixels, tile=(256, 256), photometric="minisblack")


def read_region(file: stook.File) -> np.ndarray:
    """The four tiles in the middle, side by side."""
    with tifffile.TiffFile(file) as tiff:
        page = tiff.pages.first
        across = -(-page.imagewidth // page.tilewidth)
        down = -(-page.imagelength // page.tilelength)
        rows = []
        for row in (down // 2 - 1, down // 2):
            numbers = [row * across + across // 2 - 1, row * across + across // 2]
            # Who knows what will be read says so: then it is fetched side by side.
            file.prefetch(
                (page.dataoffsets[number], page.dataoffsets[number] + page.databytecounts[number]) for number in numbers
            )
            tiles = []
            for number in numbers:
                data = file.read_at(page.dataoffsets[number], page.databytecounts[number])
                tiles.append(page.decode(data, number, jpegtables=page.jpegtables)[0].squeeze())
            rows.append(np.hstack(tiles))
        return np.vstack(rows)


def read(url: str) -> np.ndarray:
    """Shows what it took."""
    began = time.perf_counter()
    with stook.open(url) as file:
        region = read_region(file)
        reported, size = file.statistics(), file.size
    print(f"a region of {region.shape} in {time.perf_counter() - began:.2f} s, mean pixel {region.mean():.1f}")
    print(f"  {reported.requests} requests, {reported.fetched_bytes / 1e6:.2f} MB of {size / 1e6:.1f} MB fetched")
    return region


def main() -> None:
    if len(sys.argv) > 1:
        read(sys.argv[1])
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "picture.tif"
        make_picture(path)
        with serve(Path(folder)) as (address, _):
            region = read(f"{address}/picture.tif")
        assert (region == tifffile.imread(path)[1792:2304, 1792:2304]).all()


if __name__ == "__main__":
    main()
