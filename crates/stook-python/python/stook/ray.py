"""Packs as data sets of Ray."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any, Optional, Union

import ray.data
from ray.data.block import BlockMetadata
from ray.data.datasource import Datasource, ReadTask

from ._errors import InvalidError
from ._parts import Parts
from ._typing import ColumnType, PackTableOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack


def read_pack(
    path: Union[str, os.PathLike[str]],
    *,
    override_num_blocks: Optional[int] = None,
    concurrency: Optional[int] = None,
    ray_remote_args: Optional[dict[str, Any]] = None,
    **options: Unpack[PackTableOptions],
) -> ray.data.Dataset:
    """Reads the records of a pack, which every node of the cluster has to see under this path.

    The pack is cut into parts of about the same length in bytes, which tasks read in the order of
    the medium. All of them read the generation that was published last when this was called, so
    that each record comes once, also when a task is run again; if that is gone by then, because the
    pack was published twice more or compacted, it is an error. Columns that are not used further on
    are not read (`select_columns`).

    Args:
        path: The pack.
        override_num_blocks: Into how many parts it is cut at most; by default Ray says it.
        concurrency: As for ``ray.data.read_datasource``.
        ray_remote_args: As for ``ray.data.read_datasource``.
        options: As for `stook.Pack.scan` ``columns``, ``prefix``, ``group``, ``kinds``, ``where``
            and ``on_damage``; what `stook.Pack` is opened with: ``map``, ``access``, ``at`` and
            ``generation``. Without ``columns`` there are ``key``, ``value`` and the attributes that
            the first records have; a record that has another is an error of its task. With
            ``on_damage="skip"`` each task warns (`stook.DamageWarning`) of how many records it
            passed over, which Ray shows with the output of its worker.

    Returns:
        A ``ray.data.Dataset``.

    Raises:
        TypeError: Options with which a pack is not only read, or that there are not.
        stook.InvalidError: A group, columns or conditions that no record of it has.
    """
    return ray.data.read_datasource(  # type: ignore[no-any-return]
        PackDatasource(Parts(path, options)),
        override_num_blocks=override_num_blocks,
        concurrency=concurrency,
        ray_remote_args=ray_remote_args,
    )


class PackDatasource(Datasource):  # type: ignore[misc, unused-ignore]
    """What `read_pack` hands to Ray: parts of a pack, each read by a task of its own."""

    def __init__(self, parts: Parts) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._parts = parts
        self._projection_map: Optional[dict[str, str]] = None

    def supports_projection_pushdown(self) -> bool:
        """That columns can be left out."""
        return True

    def _read_columns(self) -> dict[str, ColumnType]:
        projection = self.get_projection_map()
        if projection is None:
            return self._parts.columns
        if unknown := sorted(projection.keys() - self._parts.columns.keys()):
            raise InvalidError(f"there are no columns {', '.join(unknown)}: there are {', '.join(self._parts.columns)}")
        return {name: kind for name, kind in self._parts.columns.items() if name in projection}

    def estimate_inmemory_data_size(self) -> Optional[int]:
        """How many bytes all blocks take: those of the segments, or of heads where values are not
        read.
        """
        return self._parts.estimate(self._parts.bytes, self._read_columns())

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: Optional[int] = None, data_context: Any = None
    ) -> list[ReadTask]:
        """A task for each of the parts."""
        columns = self._read_columns()
        tasks = []
        for split in self._parts.splits(parallelism):
            size = self._parts.estimate(split.bytes, columns)
            metadata = BlockMetadata(num_rows=None, size_bytes=size, exec_stats=None, input_files=None)
            read = partial(self._parts.tables, split, columns)
            tasks.append(ReadTask(read, metadata, per_task_row_limit=per_task_row_limit))
        return tasks
