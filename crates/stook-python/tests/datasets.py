"""Files of the kinds that are read a few percent at a time, each made anew and the same every time.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

# Of a slide as scanners make them: tiles and three smaller versions of itself.
TIFF_SIDE = 4096
TIFF_TILE = 256
PARQUET_ROWS = 400_000
PARQUET_ROW_GROUP = 50_000
HDF5_SHAPE = (64, 512, 512)
HDF5_CHUNK = (1, 128, 128)
ZIP_MEMBERS = 400


def picture(side: int) -> np.ndarray:
    """A grey picture whose every tile differs, and which hardly compresses."""
    noise = np.random.default_rng(side).integers(0, 256, (side, side), dtype=np.uint8)
    return noise


def write_tiff(path: Path) -> None:
    """16 MiB of tiles, one after another, the directories of all levels at the end."""
    import tifffile

    base = picture(TIFF_SIDE)
    with tifffile.TiffWriter(path) as tiff:
        tiff.write(base, tile=(TIFF_TILE, TIFF_TILE), subifds=2, photometric="minisblack", metadata=None)
        for level in (2, 4):
            smaller = np.ascontiguousarray(base[::level, ::level])
            tiff.write(smaller, tile=(TIFF_TILE, TIFF_TILE), subfiletype=1, photometric="minisblack", metadata=None)


def write_parquet(path: Path) -> None:
    """Ten columns in eight row groups, some 25 MB."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    chance = np.random.default_rng(5)
    columns: dict[str, object] = {"id": np.arange(PARQUET_ROWS, dtype=np.int64)}
    for number in range(6):
        columns[f"value_{number}"] = chance.random(PARQUET_ROWS)
    columns["small"] = chance.integers(0, 100, PARQUET_ROWS, dtype=np.int32)
    columns["flag"] = chance.integers(0, 2, PARQUET_ROWS).astype(bool)
    columns["name"] = [f"name {number % 5000}" for number in range(PARQUET_ROWS)]
    pq.write_table(pa.table(columns), path, row_group_size=PARQUET_ROW_GROUP, compression="snappy")


def write_hdf5(path: Path) -> None:
    """A stack of 64 pictures in chunks, 16 MiB, with attributes and a second data set."""
    import h5py

    chance = np.random.default_rng(6)
    with h5py.File(path, "w", libver="earliest") as file:
        stack = chance.integers(0, 256, HDF5_SHAPE, dtype=np.uint8)
        data = file.create_dataset("stack", data=stack, chunks=HDF5_CHUNK, track_times=False)
        data.attrs["unit"] = "counts"
        file.create_dataset("times", data=np.arange(HDF5_SHAPE[0], dtype=np.float64), track_times=False)


def write_zip(path: Path) -> None:
    """400 members of 40,000 bytes each, half of them compressed."""
    chance = np.random.default_rng(7)
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(ZIP_MEMBERS):
            info = zipfile.ZipInfo(f"directory/{number:04}.bin", (2020, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED if number % 2 else zipfile.ZIP_STORED
            archive.writestr(info, chance.integers(0, 16, 40_000, dtype=np.uint8).tobytes())


WRITERS = {
    "slide.tif": write_tiff,
    "table.parquet": write_parquet,
    "stack.h5": write_hdf5,
    "archive.zip": write_zip,
}


def write_all(directory: Path) -> None:
    """Writes one of each."""
    for name, write in WRITERS.items():
        write(directory / name)
