"""Packs in a cluster of Ray, which is on this machine and belongs to these tests."""

from __future__ import annotations

import logging
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

import stook
import stook.ray
from stook._parts import Parts

RECORDS = 3000

# Ray warns of what it does itself.
pytestmark = [pytest.mark.filterwarnings(f"ignore::{kind}") for kind in ("DeprecationWarning", "FutureWarning", "ResourceWarning")]


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """Two workers, without a dashboard."""
    environment = {"PYTHONPATH": os.pathsep.join(path for path in (os.environ.get("PYTHONPATH"), str(Path(__file__).parent)) if path)}
    ray.init(
        num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR, object_store_memory=200 << 20,
        runtime_env={"env_vars": {**environment, "PYTHONWARNINGS": "ignore"}},
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ray") / "data.stook"
    with stook.Pack(path, "x", segment_bytes=1 << 20) as pack:
        for number in range(RECORDS):
            attributes: dict[str, stook.Attribute] = {"label": ("cat", "dog")[number % 2], "number": number}
            pack.put(f"{number:04}", bytes([number % 256]) * (number % 1500), attributes=attributes)
        for number in range(0, RECORDS, 10):
            del pack[f"{number:04}"]
    return path


def expected() -> Counter[tuple[str, int, int]]:
    return Counter((f"{number:04}", number % 1500, number) for number in range(RECORDS) if number % 10)


def found(rows: list[dict[str, Any]]) -> Counter[tuple[str, int, int]]:
    return Counter((row["key"].decode(), len(row["value"]), row["number"]) for row in rows)


def test_records_are_counted_before_anything_is_read(tmp_path: Path) -> None:
    path = tmp_path / "counted.stook"
    with stook.Pack(path, "x") as pack:
        pack.update({f"{number}": b"x" for number in range(300)})
    assert stook.ray.read_pack(path).count() == 300
    with pytest.raises(Exception, match="typo"):
        stook.ray.read_pack(path).select_columns(["typo"]).take_all()


def test_every_record_comes_once(path: Path) -> None:
    dataset = stook.ray.read_pack(path, override_num_blocks=7)
    assert dataset.columns() == ["key", "value", "label", "number"]
    assert found(dataset.take_all()) == expected()
    assert dataset.count() == RECORDS * 9 // 10


def test_columns_and_filters_are_pushed_down(path: Path) -> None:
    dataset = stook.ray.read_pack(path, columns=["key", "size"], where={"label": "cat"}, override_num_blocks=4)
    rows = dataset.take_all()
    assert Counter((row["key"].decode(), row["size"]) for row in rows) == Counter(
        (key, size) for key, size, number in expected() if number % 2 == 0
    )
    keys = stook.ray.read_pack(path, override_num_blocks=4).select_columns(["label"])
    assert Counter(row["label"] for row in keys.take_all()) == Counter(("cat", "dog")[number % 2] for _, _, number in expected())
    assert stook.ray.read_pack(path, prefix="none/").count() == 0


def test_parts_are_about_as_long_as_one_another(path: Path) -> None:
    parts = Parts(path, {})
    source = stook.ray.PackDatasource(parts)
    whole = source.estimate_inmemory_data_size()
    assert whole is not None and abs(whole - sum(size for _, size, _ in expected())) < whole // 2
    tasks = source.get_read_tasks(8)
    sizes = [task.metadata.size_bytes or 0 for task in tasks]
    assert len(tasks) == 8 and sum(sizes) == whole and max(sizes) < 2 * min(sizes)
    few = source.apply_projection({"key": "key"})
    size = few.estimate_inmemory_data_size()
    assert size is not None and size < whole // 4
    (first, *_) = few.get_read_tasks(2)
    assert [table.column_names for table in first()] == [["key"]]


class KillsItsWorker:
    """Ends the process of the first worker that comes to it, once its rows were handed over."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        try:
            os.close(os.open(self.mark, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return batch
        os.kill(os.getpid(), signal.SIGKILL)
        return batch


def test_every_record_comes_once_also_when_a_worker_is_killed(path: Path, tmp_path: Path) -> None:
    mark = tmp_path / "killed"
    kills = KillsItsWorker(str(mark))
    dataset = stook.ray.read_pack(path, override_num_blocks=6)
    rows = dataset.map_batches(lambda batch: kills(batch), batch_size=100).take_all()
    assert mark.exists()
    assert found(rows) == expected()


def test_what_ends_a_task_is_what_it_is_elsewhere(tmp_path: Path, damage: Any) -> None:
    path, hit = tmp_path / "late.stook", tmp_path / "hit.stook"
    with stook.Pack(path, "x") as pack:
        pack.update((f"{number:05}", b"a" * 1000) for number in range(9000))
        pack.put(7, b"", attributes={"late": 1})
    with pytest.raises(stook.InvalidError, match="has a number as its key.*columns="):
        stook.ray.read_pack(path, override_num_blocks=2).materialize()
    with stook.Pack(hit, "x") as pack:
        pack.update((f"{number:03}", b"value %03d." % number * 100) for number in range(200))
        pack.compact()
    damage(hit, b"value 150.")
    with pytest.raises(stook.DamagedError, match="record 150"):
        stook.ray.read_pack(hit).materialize()
    assert stook.ray.read_pack(hit, on_damage="skip").materialize().count() == 199


def test_a_generation_is_kept_to(path: Path) -> None:
    dataset = stook.ray.read_pack(path, override_num_blocks=3)
    with stook.Pack(path, "r+") as pack:
        pack["new"] = b"x"
        pack.sync()
        assert found(dataset.take_all()) == expected()
        del pack["new"]


def test_what_is_wrong_is_refused_before_a_task_begins(path: Path) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"mode": "r+"}, "argument 'mode': a data set only reads; it takes map, access, at, generation, columns"),
        ({"acess": "direct"}, "did you mean 'access'"),
        ({"where": {"lable": "cat"}}, "no record of this pack has the attribute lable"),
        ({"group": "none"}, "group"),
        ({"columns": ["none"]}, "none of the first"),
    ]
    for options, message in wrong:
        with pytest.raises((stook.InvalidError, TypeError), match=message):
            stook.ray.read_pack(path, **options)
    with pytest.raises(FileNotFoundError):
        stook.ray.read_pack("none.stook")
    with pytest.raises(stook.AddressError):
        stook.ray.read_pack("s3://bucket/none.stook")
