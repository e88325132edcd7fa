"""Packs under PyTorch's own loader. Run with a Python that has torch."""

from __future__ import annotations

import os
import pickle
import random
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

import stook
import stook.torch


# More workers than CPUs are what is tested.
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


def as_tensor(key: object, value: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(value), dtype=torch.uint8)


@pytest.fixture
def images(tmp_path: Path) -> Path:
    path = tmp_path / "images.stook"
    with stook.Pack(path, "x") as pack:
        pack.update((f"{number:04}", bytes([number % 256]) * 12) for number in range(500))
    return path


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_every_record_comes_once_an_epoch(images: Path, workers: int, method: str) -> None:
    dataset = stook.torch.PackDataset(images, transform=as_tensor)
    assert len(dataset) == 500
    # The parent has read; its workers must do so for themselves.
    assert dataset[3].tolist() == [3] * 12
    context = method if workers else None
    loader = DataLoader(dataset, batch_size=32, num_workers=workers, shuffle=True, multiprocessing_context=context)
    for _ in range(2):
        seen = torch.cat(list(loader))
        assert seen.shape == (500, 12)
        assert sorted(seen[:, 0].tolist()) == sorted(number % 256 for number in range(500))


def test_records_are_selected_by_attributes(tmp_path: Path) -> None:
    path = tmp_path / "parts.stook"
    with stook.Pack(path, "x") as pack:
        for number in range(40):
            pack.put(f"{number:02}", b"x", attributes={"split": "val" if number % 4 == 0 else "train"})
    wanted = [f"{number:02}" for number in range(0, 40, 4)]
    dataset = stook.torch.PackDataset(path, where={"split": "val"})
    assert [dataset[number][0] for number in range(len(dataset))] == wanted
    stream = stook.torch.PackStream(path, where={"split": "val"})
    assert sorted(key for key, _ in stream) == wanted and len(stream) == 10
    with pytest.raises(stook.InvalidError, match="no record of this pack has the attribute splt"):
        stook.torch.PackDataset(path, where={"splt": "val"})
    with pytest.raises(stook.InvalidError, match="kinds and where choose keys"):
        stook.torch.PackDataset(path, keys=wanted, where={"split": "val"})


def test_a_batch_is_read_as_one(images: Path) -> None:
    dataset = stook.torch.PackDataset(images, keys=["0003", "0001"], map=True)
    assert dataset.__getitems__([1, 0, 1]) == [("0001", b"\1" * 12), ("0003", b"\3" * 12), ("0001", b"\1" * 12)]
    assert pickle.loads(pickle.dumps(dataset))[0] == ("0003", b"\3" * 12)


def test_samples_are_files_with_their_content(tmp_path: Path) -> None:
    (tmp_path / "t/d").mkdir(parents=True)
    (tmp_path / "t/a.jpg").write_bytes(b"picture")
    (tmp_path / "t/d/link").symlink_to("../a.jpg")
    (tmp_path / "t/z.jpg").hardlink_to(tmp_path / "t/a.jpg")
    stook.pack_tree(tmp_path / "t", tmp_path / "t.stook")
    files = [("a.jpg", b"picture"), ("z.jpg", b"picture")]
    dataset = stook.torch.PackDataset(tmp_path / "t.stook")
    assert [dataset[number] for number in range(len(dataset))] == files == dataset.__getitems__([0, 1])
    assert len(stook.torch.PackDataset(tmp_path / "t.stook", kinds="all")) == 5


def test_what_is_not_there_is_a_key_error(images: Path) -> None:
    dataset = stook.torch.PackDataset(images, keys=["0003", "none"])
    with pytest.raises(KeyError):
        dataset[1]
    with pytest.raises(KeyError):
        dataset.__getitems__([0, 1])
    with pytest.raises(IndexError):
        dataset[2]
    with pytest.raises(FileNotFoundError):
        stook.torch.PackDataset("none.stook")


def labelled(record: stook.Record) -> tuple[int, int]:
    return int(record.key), int(record.attributes["label"])


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    path = tmp_path / "numbers.stook"
    with stook.Pack(path, "x") as pack:
        for number in range(600):
            pack.put(number, bytes([number % 256]) * 100, attributes={"label": number % 10})
    return path


def test_transforms_take_whole_records(numbers: Path) -> None:
    for keys in (None, [5, 7]):
        dataset = stook.torch.PackDataset(numbers, keys=keys, transform=labelled, records=True)
        assert dataset[1][1] == dataset[1][0] % 10 and dataset.__getitems__([1, 0]) == [dataset[1], dataset[0]]
        assert stook.torch.PackDataset(numbers, keys=keys, records=True)[0].kind == "file"
    with pytest.raises(KeyError):
        stook.torch.PackDataset(numbers, keys=["none"], records=True)[0]


@pytest.mark.parametrize(("workers", "method"), [(0, None), (3, "fork"), (2, "spawn")])
def test_a_stream_has_every_record_once_an_epoch(numbers: Path, workers: int, method: Optional[str]) -> None:
    stream = stook.torch.PackStream(numbers, transform=labelled, records=True)
    # The parent has read; its workers must do so for themselves.
    next(iter(stream))
    loader = DataLoader(
        stream, batch_size=32, num_workers=workers, multiprocessing_context=method, persistent_workers=method == "spawn"
    )
    assert len(stream) == 600
    orders = []
    for epoch in (0, 1, 1):
        stream.set_epoch(epoch)
        keys, labels = map(torch.cat, zip(*loader))
        assert sorted(keys.tolist()) == list(range(600)) and torch.equal(labels, keys % 10)
        orders.append(keys.tolist())
    # Workers that stay get the epoch, too.
    assert orders[0] != orders[1] == orders[2]
    if workers:
        with pytest.raises(stook.InvalidError, match="StatefulDataLoader"):
            stream.state_dict()


class AskedInWorkers(IterableDataset):  # type: ignore[misc, type-arg, unused-ignore]
    """Has the data set asked for its state in workers, with the calls of torchdata's loader in
    their order: `load_state_dict`, `iter`, `state_dict` before anything was read, and after each
    batch.
    """

    def __init__(self, stream: stook.torch.PackStream, batch: int, states: Optional[list[Any]]) -> None:
        self.stream, self.batch, self.states = stream, batch, states

    def __iter__(self) -> Iterator[tuple[int, list[Any], dict[str, Any]]]:
        info = get_worker_info()
        worker = 0 if info is None else info.id
        if self.states is not None:
            self.stream.load_state_dict(self.states[worker])
        samples = iter(self.stream)
        yield worker, [], self.stream.state_dict()
        while batch := [sample for _, sample in zip(range(self.batch), samples)]:
            yield worker, batch, self.stream.state_dict()


class StandIn:
    """Stands for torchdata's StatefulDataLoader, whose state this has the shape of."""

    def __init__(self, stream: stook.torch.PackStream, batch: int, workers: int, method: str = "fork") -> None:
        self.stream, self.batch, self.workers, self.method = stream, batch, workers, method
        self.snapshots: dict[int, Any] = {}
        self.states: Optional[list[Any]] = None
        self.running: Any = None

    def __iter__(self) -> Iterator[list[Any]]:
        asked = AskedInWorkers(self.stream, self.batch, self.states)
        context = self.method if self.workers else None
        self.running = iter(
            DataLoader(asked, batch_size=None, num_workers=self.workers, multiprocessing_context=context)
        )
        for worker, samples, state in self.running:
            self.snapshots[worker] = state
            # The states before anything was read come with the start there.
            if samples:
                yield samples

    def state_dict(self) -> dict[str, Any]:
        workers = {
            f"worker_{worker}": {"worker_id": worker, "dataset_state": state, "fetcher_state": {"fetcher_ended": False}}
            for worker, state in self.snapshots.items()
        }
        return {"_snapshot": {"_snapshot_step": 1, "_worker_snapshots": workers}, "_steps_since_snapshot": 0}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        workers = state["_snapshot"]["_worker_snapshots"]
        assert len(workers) == max(self.workers, 1), "as there, it takes the same number of workers"
        self.states = [workers[f"worker_{number}"]["dataset_state"] for number in range(len(workers))]


def stream_of(path: Path, rank: int = 0, world: int = 1, **options: Any) -> stook.torch.PackStream:
    return stook.torch.PackStream(path, transform=labelled, records=True, rank=rank, world=world, seed=5, **options)


@pytest.mark.parametrize("seed", range(5))
def test_an_epoch_is_continued_by_any_number_of_workers_and_ranks(numbers: Path, seed: int) -> None:
    chance = random.Random(seed)
    seen: list[int] = []
    states: list[Any] = []
    for stage in range(3):
        world, workers, batch = chance.randint(1, 3), chance.randint(0, 3), chance.randint(1, 20)
        begin, states = states, []
        for rank in range(world):
            stream = stream_of(numbers, rank, world)
            if begin:
                # What all ranks saved, in a list.
                stream.load_state_dict(begin)
            loader = StandIn(stream, batch, workers, "spawn" if (seed, stage, rank) == (0, 1, 0) else "fork")
            stop = chance.randint(workers, 8) if stage < 2 else 10_000
            batches = iter(loader)
            for _ in range(stop):
                samples = next(batches, None)
                if samples is None:
                    break
                seen += [key for key, _ in samples]
            while len(loader.snapshots) < max(workers, 1):
                seen += [key for key, _ in next(batches)]
            states.append(loader.state_dict())
            del batches, loader.running
    assert sorted(seen) == list(range(600))


def test_the_same_workers_continue_in_the_same_order(numbers: Path) -> None:
    whole = [samples for samples in StandIn(stream_of(numbers), 8, 2)]
    first = StandIn(stream_of(numbers), 8, 2)
    batches = iter(first)
    some = [next(batches) for _ in range(20)]
    second = StandIn(stream_of(numbers), 8, 2)
    second.load_state_dict(first.state_dict())
    assert some + list(second) == whole


def test_without_workers_the_data_set_has_the_state(numbers: Path) -> None:
    stream = stream_of(numbers)
    loader = DataLoader(stream, batch_size=10)
    batches = iter(loader)
    seen = torch.cat([next(batches)[0] for _ in range(13)]).tolist()
    state = pickle.loads(pickle.dumps(stream.state_dict()))
    again = stream_of(numbers)
    again.load_state_dict(state)
    assert again.state_dict()["stook.Stream"] == state["stook.Stream"]
    # Two workers continue what none began; the next epoch is whole.
    loader = DataLoader(again, batch_size=10, num_workers=2)
    seen += torch.cat([keys for keys, _ in loader]).tolist()
    assert sorted(seen) == list(range(600))
    assert sorted(torch.cat([keys for keys, _ in loader]).tolist()) == list(range(600))
    loader = DataLoader(again, batch_size=10, num_workers=3)
    assert sorted(torch.cat([keys for keys, _ in loader]).tolist()) == list(range(600))
    again.set_epoch(1)
    assert sorted(torch.cat([keys for keys, _ in loader]).tolist()) == list(range(600))


def test_what_a_killed_worker_had_is_continued(numbers: Path) -> None:
    loader = StandIn(stream_of(numbers), 5, 2)
    seen: list[int] = []
    state: Any = None
    with pytest.raises(RuntimeError, match="exited unexpectedly|killed"):
        for number, samples in enumerate(loader):
            seen += [key for key, _ in samples]
            if len(loader.snapshots) == 2:
                state = loader.state_dict()
                saved = list(seen)
            if number == 12:
                os.kill(loader.running._workers[1].pid, signal.SIGKILL)
    stream = stream_of(numbers)
    stream.load_state_dict(state)
    saved += [key for samples in StandIn(stream, 5, 3) for key, _ in samples]
    assert sorted(saved) == list(range(600))


def test_damaged_records_are_skipped_and_warned_of(tmp_path: Path) -> None:
    path = tmp_path / "data.stook"
    with stook.Pack(path, "x") as pack:
        pack.update({number: b"<%d>" % number * 50 for number in range(100)})
    for segment in path.glob("segment-*"):
        segment.write_bytes(segment.read_bytes().replace(b"<70>" * 50, b"<71>" * 50))
    with pytest.raises(stook.DamagedError):
        list(stook.torch.PackStream(path))
    stream = stook.torch.PackStream(path, on_damage="skip")
    with pytest.warns(stook.DamageWarning, match="1 damaged record"):
        assert {key for key, _ in stream} == {*range(100)} - {70}
    assert stream.skipped == 1 and [error.key for error in stream.damages] == [70]
    assert stream.state_dict()["skipped"] == 1


def test_a_stream_that_makes_no_sense_is_refused(numbers: Path) -> None:
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("rank and world", {"rank": 1}), ("no rank 2", {"rank": 2, "world": 2}),
        ("lanes", {"lanes": 0}), ("lanes=65", {"rank": 0, "world": 65}),
    ]
    for word, options in wrong:
        with pytest.raises(stook.InvalidError, match=word):
            stook.torch.PackStream(numbers, **options)
    with pytest.raises(TypeError, match="argument 'durability': a stream only reads"):
        stook.torch.PackStream(numbers, durability="put")  # type: ignore[call-arg]
    stream = stook.torch.PackStream(numbers)
    for state in ({}, {"epoch": 1}, stook.torch.PackStream(numbers, seed=9).state_dict()):
        with pytest.raises(stook.InvalidError):
            stream.load_state_dict(state)


def test_a_transform_that_raises_ends_the_iteration(numbers: Path) -> None:
    def some(record: stook.Record) -> int:
        if int(record.key) % 10 == 7:
            raise ValueError(record.key)
        return int(record.key)

    stream, seen = stook.torch.PackStream(numbers, transform=some, records=True), list[int]()
    samples = iter(stream)
    with pytest.raises(stook.DecodeError, match="was not decoded: ValueError") as raised:
        while True:
            seen.append(next(samples))
    assert isinstance(raised.value.key, int) and raised.value.key % 10 == 7
    assert isinstance(raised.value.__cause__, ValueError)
    assert list(samples) == []
    rest = stook.torch.PackStream(numbers, transform=lambda record: int(record.key), records=True)
    rest.load_state_dict(stream.state_dict())
    assert sorted([*seen, *rest]) == list(range(600))


def raising_at_seven(record: stook.Record) -> int:
    if int(record.key) % 10 == 7:
        raise ValueError(record.key)
    return int(record.key)


@pytest.mark.parametrize("workers", [0, 2])
def test_what_is_not_decoded_is_passed_over_and_warned_of(numbers: Path, workers: int) -> None:
    stream = stook.torch.PackStream(numbers, transform=raising_at_seven, records=True, on_error="skip")
    whole = [number for number in range(600) if number % 10 != 7]
    if workers:
        with warnings.catch_warnings():
            # Workers warn in their own process.
            warnings.simplefilter("ignore", stook.DecodeWarning)
            loader = DataLoader(stream, batch_size=16, num_workers=workers)
            assert sorted(torch.cat(list(loader)).tolist()) == whole
        return
    samples = iter(stream)
    seen = [next(samples) for _ in range(100)]
    state = stream.state_dict()
    assert 0 < state["failed"] == stream.failed < 60 and len(stream.errors) == min(16, stream.failed)
    again = stook.torch.PackStream(numbers, transform=raising_at_seven, records=True, on_error="skip")
    again.load_state_dict(state)
    with pytest.warns(stook.DecodeWarning, match="passed over because decoding failed"):
        assert sorted([*seen, *again]) == whole
    assert again.failed + state["failed"] == 60


def test_errors_of_transforms_name_the_record(numbers: Path) -> None:
    for keys in (None, list(range(600))):
        dataset = stook.torch.PackDataset(numbers, keys=keys, transform=raising_at_seven, records=True)
        with pytest.raises(stook.DecodeError, match="the record 7 was not decoded"):
            dataset[7]
        with pytest.raises(stook.DecodeError, match="the record 17 was not decoded: ValueError: 17"):
            list(DataLoader(dataset, batch_size=20, sampler=[5, 17], num_workers=1))
        wrong = stook.torch.PackDataset(numbers, keys=keys, transform=raising_at_seven)
        with pytest.raises(stook.DecodeError, match="records=True"):
            wrong[0]
    with pytest.raises(TypeError, match="argument 'transform'"):
        stook.torch.PackDataset(numbers, transform=5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="argument 'keys': several keys"):
        stook.torch.PackDataset(numbers, keys="dog/1")


def test_a_look_at_a_sample_does_not_answer_for_workers(numbers: Path) -> None:
    stream = stream_of(numbers)
    next(iter(stream))
    assert stook.Stream.describe(stream.state_dict()["stook.Stream"])["records"] == 1
    batches = iter(DataLoader(stream, batch_size=10, num_workers=2))
    next(batches)
    next(iter(stream))
    with pytest.raises(stook.InvalidError, match="workers read this stream"):
        stream.state_dict()
    stream.set_epoch(1)
    assert stook.Stream.describe(stream.state_dict()["stook.Stream"])["epoch"] == 1


def test_a_state_that_workers_who_stay_do_not_get_is_refused(numbers: Path) -> None:
    stream = stream_of(numbers)
    loader = DataLoader(stream, batch_size=10, num_workers=2, persistent_workers=True)
    assert sum(len(keys) for keys, _ in loader) == 600
    other = stream_of(numbers)
    samples = iter(other)
    seen = [next(samples)[0] for _ in range(200)]
    stream.load_state_dict(other.state_dict())
    with pytest.raises(stook.InvalidError, match="make a new DataLoader"):
        list(loader)
    seen += [int(key) for keys, _ in DataLoader(stream, batch_size=10, num_workers=2) for key in keys]
    assert sorted(seen) == list(range(600))
    # Another epoch is whole, for those who stayed, too.
    stream.set_epoch(3)
    assert sum(len(keys) for keys, _ in loader) == 600


def test_numbers_beside_tensors_become_tensors(numbers: Path) -> None:
    def with_label(record: stook.Record) -> dict[str, Any]:
        pixels = torch.frombuffer(bytearray(record.value), dtype=torch.uint8).float()
        label = int(record.attributes["label"])
        return {"x": pixels, "y": label, "weight": (0.5, True), "name": str(record.key), "array": pixels.numpy()}

    batch = next(iter(stook.loader(numbers, batch=8, decode=with_label)))
    assert batch["x"].shape == (8, 100) and batch["y"].dtype == torch.int64 and isinstance(batch["name"], list)
    assert batch["weight"][0].dtype == torch.float64 and batch["weight"][1].dtype == torch.bool
    assert torch.equal(batch["array"], batch["x"])
    torch.nn.CrossEntropyLoss()(torch.zeros(8, 10), batch["y"])
    # Where there are none, it is an array, though torch is imported.
    assert type(next(iter(stook.loader(numbers, batch=8, decode=lambda record: 1)))).__module__ == "numpy"


def test_nothing_to_read_is_refused(numbers: Path) -> None:
    for of in (stook.torch.PackDataset, stook.torch.PackStream):
        with pytest.raises(stook.InvalidError, match="nothing to read in .* prefix='nope'"):
            of(numbers, prefix="nope")


def test_image_folder_takes_what_a_file_system_would_have(tmp_path: Path) -> None:
    with stook.Pack(tmp_path / "t.stook", "x") as pack:
        names = ("/abs/1.jpg", "a/../2.jpg", "a//3.jpg", "dog/g/1.jpg", "dog/2.jpg", "door/4.jpg")
        pack.update({name: name.encode() for name in names})
    pets = stook.torch.ImageFolder(tmp_path / "t.stook", loader=bytes.decode)
    assert list(pets) == [("dog/2.jpg", 0), ("dog/g/1.jpg", 0), ("door/4.jpg", 1)]
    for prefix in ("dog", "dog/"):
        assert stook.torch.ImageFolder(tmp_path / "t.stook", loader=bytes.decode, prefix=prefix).classes == ["g"]
    with pytest.raises(FileNotFoundError, match="below 'do/'"):
        stook.torch.ImageFolder(tmp_path / "t.stook", prefix="do")
    broken = stook.torch.ImageFolder(tmp_path / "t.stook", loader=lambda value: value.decode("utf-16").index("x"))
    with pytest.raises(stook.DecodeError, match="'dog/2.jpg'"):
        broken[0]


def test_image_folder_is_that_of_torchvision(tmp_path: Path) -> None:
    for name in ("dog/b.jpg", "dog/a/1.PNG", "dog/a.jpg", "cat/2.jpeg", "cat/note.txt", "top.jpg", "cat-x/1.jpg"):
        (tmp_path / "t" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "t" / name).write_bytes(name.encode())
    stook.pack_tree(tmp_path / "t", tmp_path / "t.stook")
    pets = stook.torch.ImageFolder(tmp_path / "t.stook", loader=bytes.decode)
    assert pets.classes == ["cat", "cat-x", "dog"] and pets.class_to_idx == {"cat": 0, "cat-x": 1, "dog": 2}
    wanted = [("cat/2.jpeg", 0), ("cat-x/1.jpg", 1), ("dog/a.jpg", 2), ("dog/b.jpg", 2), ("dog/a/1.PNG", 2)]
    assert list(pets.samples) == list(pets.imgs) == wanted and pets.targets == [label for _, label in wanted]
    assert [pets[number] for number in range(len(pets))] == wanted == pets.__getitems__(range(5))
    assert pets.samples[-2:] == wanted[-2:] and pets.samples[-1] == wanted[-1]
    changed = stook.torch.ImageFolder(
        tmp_path / "t.stook", len, lambda label: label + 10, loader=bytes, is_valid_file=lambda key: key.endswith("txt")
    )
    assert list(changed) == [(12, 10)]
    below = stook.torch.ImageFolder(tmp_path / "t.stook", loader=bytes.decode, prefix="dog/")
    assert list(below) == [("dog/a/1.PNG", 0)]
    loader = DataLoader(pets, batch_size=2, num_workers=2)
    assert [name for names, _ in loader for name in names] == [name for name, _ in wanted]
    with pytest.raises(FileNotFoundError, match="no pictures"):
        stook.torch.ImageFolder(tmp_path / "t.stook", is_valid_file=lambda key: False)


def test_an_option_with_which_a_pack_is_not_only_read_is_refused(images: Path) -> None:
    with pytest.raises(TypeError, match="argument 'acess': a data set only reads; .*; did you mean 'access'"):
        stook.torch.PackDataset(images, acess="direct")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="argument 'durability': a data set only reads"):
        stook.torch.PackDataset(images, durability="put")  # type: ignore[call-arg]
    typos: list[tuple[Any, str, str]] = [
        (stook.torch.PackDataset, "kyes", "keys"), (stook.torch.PackStream, "worlds", "world"),
        (stook.torch.ImageFolder, "trasform", "transform"),
    ]
    for of, name, meant in typos:
        with pytest.raises(TypeError, match=f"argument '{name}'.*did you mean '{meant}'"):
            of(images, **{name: None})


def test_the_example_runs() -> None:
    example = Path(__file__).parents[3] / "examples" / "images_to_dataloader.py"
    reported = subprocess.run([sys.executable, "-W", "ignore", str(example)], capture_output=True, text=True)
    assert reported.returncode == 0, reported.stderr
    assert "epoch 1: 2000 pictures" in reported.stdout and "stopped and continued: 2000" in reported.stdout
    assert "PyTorch: 2000 pictures of 20 classes" in reported.stdout


def test_the_example_takes_a_directory(tmp_path: Path) -> None:
    from PIL import Image

    for number in range(9):
        folder = tmp_path / "pets" / ("cat", "dog")[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40 + number, 30), (number, 0, 0)).save(folder / f"{number}.{('JPG', 'png')[number % 3 == 0]}")
    (tmp_path / "pets" / "README.txt").write_text("no picture")
    example = Path(__file__).parents[3] / "examples" / "images_to_dataloader.py"
    command = [sys.executable, "-W", "ignore", str(example), str(tmp_path / "pets")]
    reported = subprocess.run(command, capture_output=True, text=True)
    assert reported.returncode == 0, reported.stderr
    for text in ("packed 10 files", "epoch 1: 9 pictures", "1 files are none", "continued: 9", "PyTorch: 9 pictures of 2"):
        assert text in reported.stdout, reported.stdout


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
