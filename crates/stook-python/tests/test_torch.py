"""Packs under PyTorch's own loader. Run with a Python that has torch."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader

import stook
import stook.torch


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


def test_an_option_with_which_a_pack_is_not_only_read_is_refused(images: Path) -> None:
    with pytest.raises(TypeError, match="argument 'acess': a data set only reads; .*; did you mean 'access'"):
        stook.torch.PackDataset(images, acess="direct")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="argument 'durability': a data set only reads"):
        stook.torch.PackDataset(images, durability="put")  # type: ignore[call-arg]


def test_the_example_runs() -> None:
    example = Path(__file__).parents[3] / "examples" / "images_to_dataloader.py"
    reported = subprocess.run([sys.executable, "-W", "ignore", str(example)], capture_output=True, text=True)
    assert reported.returncode == 0, reported.stderr
    assert "epoch 1: 2000 pictures" in reported.stdout


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
