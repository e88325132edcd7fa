"""Packs as data sets of Ray."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Optional, Union

import pyarrow
import ray.data
from ray.data.block import BlockMetadata
from ray.data.datasource import Datasource, ReadTask

from . import _stook
from ._errors import InvalidError
from ._typing import Columns, ColumnType, Conditions, Kinds

#: Where a split is read from: for now a pack that every node sees.
_Opening = Callable[[], _stook.Pack]


def read_pack(
    path: Union[str, os.PathLike[str]],
    *,
    columns: Optional[Columns] = None,
    prefix: Union[str, bytes, None] = None,
    group: Union[str, list[str], None] = None,
    kinds: Kinds = "file",
    where: Optional[Conditions] = None,
    override_num_blocks: Optional[int] = None,
    concurrency: Optional[int] = None,
    ray_remote_args: Optional[dict[str, Any]] = None,
    **options: Any,
) -> ray.data.Dataset:
    """Reads the records of a pack, which every node of the cluster has to see under this path.

    The pack is cut into parts of about the same length in bytes, which tasks read in the order of
    the medium. All of them read the generation that was published last when this was called, so
    that each record comes once, also when a task is run again; if that is gone by then, because the
    pack was compacted, it is an error. Columns that are not used further on are not read, where Ray
    says so (`select_columns`).

    Args:
        path: The pack.
        columns: Which columns, as for `stook.Pack.scan`. Without them it is ``key``, ``value`` and
            the attributes that the first records have.
        prefix: Only keys that begin with this.
        group: Only this group, or these.
        kinds: Only records of these kinds, as for `stook.Pack.scan`.
        where: Only records with these attributes, as for `stook.Pack.scan`.
        override_num_blocks: Into how many parts it is cut at most; by default Ray says it.
        concurrency: As for ``ray.data.read_datasource``.
        ray_remote_args: As for ``ray.data.read_datasource``.
        options: What `stook.Pack` is opened with: ``map``, ``access``, ``at``, ``generation``.

    Returns:
        A ``ray.data.Dataset``.

    Raises:
        stook.InvalidError: Options with which a pack is not only read, or a group or columns that
            it does not have.
    """
    if unknown := sorted(options.keys() - {"map", "access", "at", "generation"}):
        raise InvalidError(f"a data set only reads; it takes map, access, at and generation, not {', '.join(unknown)}")
    source = PackDatasource(
        os.path.abspath(_stook.path_argument("path", path)),
        options,
        columns=columns,
        filters={"prefix": prefix, "group": group, "kinds": kinds, "where": where},
    )
    return ray.data.read_datasource(
        source,
        override_num_blocks=override_num_blocks,
        concurrency=concurrency,
        ray_remote_args=ray_remote_args,
    )


class PackDatasource(Datasource):  # type: ignore[misc, unused-ignore]
    """What `read_pack` hands to Ray: parts of a pack, each read by a task of its own.

    Args:
        path: The pack.
        options: What it is opened with.
        columns: Which columns, as for `stook.Pack.scan`.
        filters: What else `stook.Pack.scan` is called with.
    """

    def __init__(self, path: str, options: dict[str, Any], *, columns: Optional[Columns], filters: dict[str, Any]) -> None:
        super().__init__()
        self._filters = filters
        self._projection_map: Optional[dict[str, str]] = None
        with _stook.Pack(path, "r", **options) as pack:
            if options.get("at") is None and options.get("generation") is None:
                # Tasks open what is cut here.
                options = {**options, "generation": pack.generation}
            # Every task has the columns of the first records: no part may have others.
            self._columns = pack.scan(columns=columns, **filters).column_types()
            self._bytes = sum(split.bytes for split in pack.splits(1, group=filters["group"]))
            self._records = len(pack)
        self._open: _Opening = partial(_stook.Pack, path, "r", **options)

    def supports_projection_pushdown(self) -> bool:
        """That columns can be left out."""
        return True

    def _read_columns(self) -> dict[str, ColumnType]:
        projection = self.get_projection_map()
        if projection is None:
            return self._columns
        return {name: kind for name, kind in self._columns.items() if name in projection}

    def estimate_inmemory_data_size(self) -> Optional[int]:
        """How many bytes all blocks take: those of the segments, or of heads where values are not
        read.
        """
        return self._estimate(self._bytes, self._bytes)

    def _estimate(self, part: int, whole: int) -> int:
        columns = self._read_columns()
        if "value" in columns:
            return part
        return self._records * _HEAD_BYTES * len(columns) * part // max(whole, 1)

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: Optional[int] = None, data_context: Any = None
    ) -> list[ReadTask]:
        """A task for each of the parts."""
        columns = self._read_columns()
        with self._open() as pack:
            splits = pack.splits(max(parallelism, 1), group=self._filters["group"])
        tasks = []
        for split in splits:
            size = self._estimate(split.bytes, self._bytes)
            metadata = BlockMetadata(num_rows=None, size_bytes=size, exec_stats=None, input_files=None)
            read = partial(_read_split, self._open, split, columns, self._filters)
            tasks.append(ReadTask(read, metadata, per_task_row_limit=per_task_row_limit))
        return tasks


#: About how many bytes a record has in a column other than that of values.
_HEAD_BYTES = 32


def _read_split(
    open_pack: _Opening, split: _stook.Split, columns: dict[str, ColumnType], filters: dict[str, Any]
) -> Iterator[pyarrow.Table]:
    """The batches of a part, as tables; an empty one where it has no record."""
    with open_pack() as pack:
        # Ray asks for no column where it only counts rows: keys cost the least.
        scan = pack.scan(split=split, columns=columns or {"sequence": None}, **filters)
        reader = pyarrow.RecordBatchReader.from_stream(scan)
        is_empty = True
        for batch in reader:
            is_empty = False
            yield _chosen(pyarrow.Table.from_batches([batch]), columns)
        if is_empty:
            yield _chosen(reader.schema.empty_table(), columns)


def _chosen(table: pyarrow.Table, columns: dict[str, ColumnType]) -> pyarrow.Table:
    return table.select(list(columns))
