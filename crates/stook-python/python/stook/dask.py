"""Packs as data frames of Dask."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Optional, Union

import dask.dataframe
import pandas
import pyarrow

from . import _stook
from ._options import whole
from ._parts import Parts
from ._typing import PackTableOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack


def read_pack(
    path: Union[str, os.PathLike[str]],
    *,
    partition_bytes: int = 64 << 20,
    **options: Unpack[PackTableOptions],
) -> dask.dataframe.DataFrame:
    """Reads the records of a pack, which every worker has to see under this path.

    The pack is cut into partitions of about the same length, which are read in the order of the
    medium. All of them read the generation that was published last when this was called; if that is
    gone when one is read, because the pack was published twice more or compacted, it is an error.
    Columns that are not used further on are not read.

    Args:
        path: The pack.
        partition_bytes: About how many bytes of the pack are in a partition.
        options: As for `stook.Pack.scan` ``columns``, ``prefix``, ``group``, ``kinds``, ``where``
            and ``on_damage``; what `stook.Pack` is opened with: ``map``, ``access``, ``at`` and
            ``generation``. Without ``columns`` there are ``key``, ``value`` and the attributes that
            the first records have; a record that has another is an error of its partition. With
            ``on_damage="skip"`` each partition warns (`stook.DamageWarning`) of how many records it
            passed over.

    Returns:
        A data frame whose columns have Arrow's types.

    Raises:
        TypeError: Options with which a pack is not only read, or that there are not.
        stook.InvalidError: A group, columns or conditions that no record of it has.
    """
    partition_bytes = whole("partition_bytes", partition_bytes, 1)
    parts = Parts(path, options)
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
        return _frame(self._parts.empty(self._parts.columns))


def _frame(table: pyarrow.Table) -> pandas.DataFrame:
    return table.to_pandas(types_mapper=pandas.ArrowDtype)
