"""Packs as data frames of Dask."""

from __future__ import annotations

import os
from typing import Any, Optional, Union

import dask.dataframe
import pandas
import pyarrow

from . import _stook
from ._errors import InvalidError
from ._parts import Filters, Parts
from ._typing import Columns, Conditions, Kinds


def read_pack(
    path: Union[str, os.PathLike[str]],
    *,
    columns: Optional[Columns] = None,
    prefix: Union[str, bytes, None] = None,
    group: Union[str, list[str], None] = None,
    kinds: Kinds = "file",
    where: Optional[Conditions] = None,
    partition_bytes: int = 64 << 20,
    **options: Any,
) -> dask.dataframe.DataFrame:
    """Reads the records of a pack, which every worker has to see under this path.

    The pack is cut into partitions of about the same length, which are read in the order of the
    medium. All of them read the generation that was published last when this was called; if that is
    gone when one is read, because the pack was compacted, it is an error. Columns that are not used
    further on are not read.

    Args:
        path: The pack.
        columns: Which columns, as for `stook.Pack.scan`. Without them it is ``key``, ``value`` and
            the attributes that the first records have.
        prefix: Only keys that begin with this.
        group: Only this group, or these.
        kinds: Only records of these kinds, as for `stook.Pack.scan`.
        where: Only records with these attributes, as for `stook.Pack.scan`.
        partition_bytes: About how many bytes of the pack are in a partition.
        options: What `stook.Pack` is opened with: ``map``, ``access``, ``at``, ``generation``.

    Returns:
        A data frame whose columns have Arrow's types.

    Raises:
        TypeError: Options with which a pack is not only read.
        stook.InvalidError: A group or columns that it does not have.
    """
    if partition_bytes < 1:
        raise InvalidError(f"partition_bytes is a number from 1 on, not {partition_bytes}")
    filters: Filters = {"prefix": prefix, "group": group, "kinds": kinds, "where": where}
    parts = Parts(path, options, columns, filters)
    read = _Reading(parts)
    splits = parts.splits(-(-parts.bytes // partition_bytes))
    if not splits:
        return dask.dataframe.from_pandas(read.empty(), npartitions=1)  # type: ignore[no-any-return, no-untyped-call]
    made = dask.dataframe.from_map(read, splits, meta=read.empty(), enforce_metadata=False)  # type: ignore[no-untyped-call]
    return made  # type: ignore[no-any-return]


class _Reading:
    """Reads a part; Dask says by ``columns`` which are used."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def __call__(self, split: _stook.Split, columns: Optional[list[str]] = None) -> pandas.DataFrame:
        types = self._parts.columns
        chosen = types if columns is None else {name: types[name] for name in columns}
        return _frame(pyarrow.concat_tables(self._parts.tables(split, chosen)))

    def empty(self) -> pandas.DataFrame:
        """A frame of all columns without a row."""
        with self._parts.open() as pack:
            reader = pyarrow.RecordBatchReader.from_stream(pack.scan(columns=self._parts.columns))
            return _frame(reader.schema.empty_table())


def _frame(table: pyarrow.Table) -> pandas.DataFrame:
    return table.to_pandas(types_mapper=pandas.ArrowDtype)
