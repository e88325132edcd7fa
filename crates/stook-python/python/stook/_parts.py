"""Parts of a pack for the tasks of a cluster: what `stook.ray` and `stook.dask` have in common."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Optional, TypedDict, Union

import pyarrow

from . import _stook
from ._options import check_names
from ._typing import Columns, ColumnType, Conditions, Kinds, PackReadOptions

#: About how many bytes a record has in a column other than that of values.
_HEAD_BYTES = 32


class Filters(TypedDict):
    """Which records, as for `stook.Pack.scan`."""

    prefix: Union[str, bytes, None]
    group: Union[str, list[str], None]
    kinds: Kinds
    where: Optional[Conditions]


class Parts:
    """A selection of a pack at one generation. It can be pickled, and read by any process that can
    open the pack.

    Args:
        path: The pack.
        options: What it is opened with, to be read.
        columns: Which columns, as for `stook.Pack.scan`.
        filters: Which records.

    Raises:
        TypeError: Options with which a pack is not only read.
        stook.InvalidError: A group or columns that it does not have.
    """

    def __init__(
        self,
        path: Union[str, os.PathLike[str]],
        options: dict[str, Any],
        columns: Optional[Columns],
        filters: Filters,
    ) -> None:
        known, what = PackReadOptions.__annotations__.keys(), "a data set only reads; it takes map, access, at and generation"
        check_names(options, known, what)
        path = os.path.abspath(_stook.path_argument("path", path))
        self._filters = filters
        with _stook.Pack(path, "r", **options) as pack:
            if options.get("at") is None and options.get("generation") is None:
                # Tasks open what is cut here.
                options = {**options, "generation": pack.generation}
            # No part may have other columns than the rest.
            self.columns: dict[str, ColumnType] = pack.scan(columns=columns, **filters).column_types()
            self.bytes = sum(split.bytes for split in pack.splits(1, group=filters["group"]))
            self._records = len(pack)
        #: Opens the pack in the process that reads. What a part is read from is only known here.
        self.open: Callable[[], _stook.Pack] = partial(_stook.Pack, path, "r", **options)

    def splits(self, count: int) -> list[_stook.Split]:
        """The parts: this many at most, of about the same length in bytes."""
        with self.open() as pack:
            return pack.splits(max(count, 1), group=self._filters["group"])

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
            scan = pack.scan(split=split, columns=wanted, **self._filters)
            reader = pyarrow.RecordBatchReader.from_stream(scan)
            is_empty = True
            for batch in reader:
                is_empty = False
                yield pyarrow.Table.from_batches([batch]).select(list(wanted))
            if is_empty:
                yield reader.schema.empty_table().select(list(wanted))
