"""Two columns of a remote Parquet file: `python examples/remote_parquet.py [URL [COLUMN...]]`.

Without an address it makes a file of ten columns and serves it from this machine, every answer
after 50 ms. The second time nothing is fetched: what the first time fetched is in the cache
directory.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from range_server import serve

import stook


def make_table(path: Path) -> None:
    """200,000 rows of ten columns."""
    chance = np.random.default_rng(1)
    columns = {f"column_{number}": chance.random(200_000) for number in range(10)}
    pd.DataFrame(columns).to_parquet(path, row_group_size=50_000)


def read(url: str, columns: list[str], cache: Path) -> None:
    """Shows what it took."""
    began = time.perf_counter()
    with stook.open(url, cache=cache) as file:
        frame = pd.read_parquet(file, columns=columns or None)
        reported, size = file.statistics(), file.size
    print(f"{len(frame):,} rows of {list(frame.columns)} in {time.perf_counter() - began:.2f} s")
    print(f"  {reported.requests} requests, {reported.fetched_bytes / 1e6:.1f} MB of {size / 1e6:.1f} MB fetched")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        if len(sys.argv) > 1:
            for _ in range(2):
                read(sys.argv[1], sys.argv[2:], work / "cache")
            return
        make_table(work / "table.parquet")
        with serve(work) as (address, asked):
            for _ in range(2):
                read(f"{address}/table.parquet", ["column_3", "column_7"], work / "cache")
                print(f"  the server answered {len(asked)} requests so far, opening included")


if __name__ == "__main__":
    main()
