"""Parts of a pack for the tasks of a cluster: what `stook.ray` and `stook.dask` have in common."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Union

import pyarrow

from . import _stook
from ._errors import DamageWarning
from ._options import check_names
from ._typing import ColumnType, PackReadOptions, PackTableOptions

#: About how many bytes a record has in a column other than that of values.
_HEAD_BYTES = 32


class Parts:
    """A selection of a pack at one generation. It can be pickled, and read by any process that can
    open the pack.

    Args:
        path: The pack.
        options: Which columns of which records, and what the pack is opened with.

    Raises:
        TypeError: Options with which a pack is not only read, or that there are not.
        stook.InvalidError: A group, columns or conditions that no record of it has.
    """

    def __init__(self, path: Union[str, os.PathLike[str]], options: PackTableOptions) -> None:
        known = PackTableOptions.__annotations__.keys()
        check_names(options, known, f"a data set only reads; it takes {', '.join(known)}")
        chosen: dict[str, Any] = {**options}
        columns = chosen.pop("columns", None)
        reading = {name: chosen.pop(name) for name in PackReadOptions.__annotations__ if name in chosen}
        self._selection = chosen
        self._path = _stook.path_argument("path", path)
        with _stook.Pack(self._path, "r", **reading) as pack:
            if reading.get("at") is None and reading.get("generation") is None:
                # Tasks open what is cut here.
                reading["generation"] = pack.generation
            # No part may have other columns than the rest.
            self.columns = pack.scan(columns=columns, **self._selection).column_types()
            self.bytes = sum(split.bytes for split in pack.splits(1, group=chosen.get("group")))
            self._records = len(pack)
        self._path = os.path.abspath(self._path)
        #: What records may have: anything, where the caller chose the columns.
        self._known = self.columns if columns is None else None
        #: Opens the pack in the process that reads. What a part is read from is only known here.
        self.open: Callable[[], _stook.Pack] = partial(_stook.Pack, self._path, "r", **reading)

    def splits(self, count: int) -> list[_stook.Split]:
        """The parts: this many at most, of about the same length in bytes."""
        with self.open() as pack:
            return pack.splits(max(count, 1), group=self._selection.get("group"))

    def estimate(self, part: int, columns: dict[str, ColumnType]) -> int:
        """How many bytes of memory a part of this many bytes takes with these columns."""
        if "value" in columns:
            return part
        return self._records * _HEAD_BYTES * len(columns) * part // max(self.bytes, 1)

    def tables(self, split: _stook.Split, columns: dict[str, ColumnType]) -> Iterator[pyarrow.Table]:
        """The batches of a part, as tables; an empty one where it has no record."""
        with self.open() as pack:
            # Who only counts rows asks for no column: a table without one has no rows.
            wanted: dict[str, ColumnType] = columns or {"sequence": "uint64"}
            scan = pack.scan(split=split, columns=wanted, **self._selection)
            scan._set_part(self._known)
            is_empty = True
            for table in _tables(scan):
                is_empty = False
                yield table.select(list(wanted))
            if is_empty:
                yield self.empty(wanted)
            self._warn(pack, scan)

    def empty(self, columns: dict[str, ColumnType]) -> pyarrow.Table:
        """A table of these columns without a row."""
        with self.open() as pack:
            # Of no key.
            return pack.scan(columns=columns, end=b"").to_table().select(list(columns))

    def _warn(self, pack: _stook.Pack, scan: _stook.Scan) -> None:
        """Says how many damaged records were passed over. Of what hides others opening it warns."""
        hidden = {(damage.file, damage.offset) for damage in pack.damages}
        passed = [damage for damage in scan.damages if (damage.file, damage.offset) not in hidden]
        if passed:
            text = f"{len(passed)} damaged records of a part of {self._path} were passed over; the first: {passed[0]}"
            warnings.warn(DamageWarning(text), stacklevel=3)


def _tables(scan: _stook.Scan) -> Iterator[pyarrow.Table]:
    """The batches of a scan. What ends it is raised, not what pyarrow makes of it."""
    reader = pyarrow.RecordBatchReader.from_stream(scan)
    while True:
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            return
        except Exception:
            failure = scan._failure()
            if failure is None:
                raise
            raise failure from None
        yield pyarrow.Table.from_batches([batch])
