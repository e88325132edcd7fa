"""asyncio: iteration and context managers that let an event loop go on."""

from __future__ import annotations

import asyncio
import tarfile
import threading
import time
from pathlib import Path
from typing import Any, AsyncIterator, Callable

import pytest

import stook
from stook import _aio


@pytest.fixture
def long(tmp_path: Path) -> Path:
    """A pack of several batches."""
    with stook.Pack(path := tmp_path / "long.stook", "x") as pack:
        pack.update((number, b"%d" % number * 50) for number in range(5000))
    return path


WAYS: dict[str, tuple[Callable[[stook.Pack], AsyncIterator[Any]], Callable[[stook.Pack], list[Any]]]] = {
    "keys": (lambda pack: pack.__aiter__(), list),
    "view": (lambda pack: pack.keys(start=4000).__aiter__(), lambda pack: list(pack.keys(start=4000))),
    "items": (lambda pack: pack.items().__aiter__(), lambda pack: list(pack.items())),
    "values": (lambda pack: pack.values().__aiter__(), lambda pack: list(pack.values())),
    "scan": (lambda pack: pack.scan().__aiter__(), lambda pack: list(pack.scan())),
    "iterator": (lambda pack: iter(pack.keys()).__aiter__(), list),
}


@pytest.mark.parametrize("way", WAYS)
def test_whatever_is_gone_through_is_gone_through_in_asyncio_too(long: Path, way: str) -> None:
    go, expected = WAYS[way]

    async def main() -> list[Any]:
        with stook.Pack(long) as pack:
            return [one async for one in go(pack)]

    with stook.Pack(long) as pack:
        assert asyncio.run(main()) == expected(pack)


def test_archives_are_gone_through_in_asyncio_too(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        tar.add(tmp_path / "a", "a")

    async def main() -> list[Any]:
        with stook.Archive(tmp_path / "x.tar") as archive:
            return [one async for one in archive.items()]

    assert asyncio.run(main()) == [("a", b"1")]


def test_progress_counts_what_comes_at_once_too(long: Path) -> None:
    calls: list[tuple[int, int]] = []

    async def main() -> None:
        with stook.Pack(long) as pack:
            async for _ in pack.items(progress=lambda *numbers: calls.append(numbers)):
                pass
            assert calls[-1] == (5000, pack.check().body_bytes)

    asyncio.run(main())


def test_damage_is_raised_where_it_is_met(filled: Path, damage: Callable[[Path, bytes], None]) -> None:
    with stook.Pack(filled, "r+") as pack:
        # Bodies of what is not sealed are verified when it is opened.
        pack.compact()
    damage(filled, b"alpha")

    async def main() -> None:
        with stook.Pack(filled) as pack, pytest.raises(stook.DamagedError):
            async for _ in pack.values():
                pass

    asyncio.run(main())


def test_packs_and_batches_are_entered_and_left() -> None:
    async def main() -> None:
        async with stook.Pack("p.stook", "x") as pack:
            async with pack.batch() as batch:
                batch["a"] = b"1"
                assert "a" not in pack
            assert pack["a"] == b"1"
            with pytest.raises(RuntimeError, match="given up"):
                async with pack.batch() as batch:
                    batch["a"] = b"2"
                    raise RuntimeError("given up")
            with pytest.raises(stook.ClosedError):
                async with batch:
                    raise AssertionError("it was left before")
        assert pack.closed
        with pytest.raises(stook.ClosedError):
            async with pack:
                raise AssertionError("it was closed")

    asyncio.run(main())
    assert stook.Pack("p.stook")["a"] == b"1"


def test_leaving_ends_though_nobody_waits_for_it() -> None:
    may_end, ended = threading.Event(), threading.Event()

    def leave(*_: object) -> None:
        may_end.wait(60)
        ended.set()

    async def main() -> None:
        leaving = asyncio.ensure_future(_aio.left(leave, (None, None, None)))
        await asyncio.sleep(0)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        assert not ended.is_set()
        may_end.set()

    asyncio.run(main())
    assert ended.wait(60)


def test_a_pack_is_followed_while_the_loop_goes_on() -> None:
    async def main() -> None:
        async with stook.Pack("p.stook", "x") as pack:
            feed = pack.follow().__aiter__()
            # What comes while nobody waits is not lost: the waiting is ended, and begun again.
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(feed.__anext__(), 0.01)
            pack["a"], pack["b"] = b"1", b"2"
            pack.sync()
            got = [await asyncio.wait_for(feed.__anext__(), 60) for _ in range(2)]
            assert [record.key for record in got] == ["a", "b"]
            # Two who wait get one each.
            waiting = [asyncio.ensure_future(feed.__anext__()) for _ in range(2)]  # type: ignore[arg-type, unused-ignore]
            await asyncio.sleep(0)
            pack["c"], pack["d"] = b"3", b"4"
            pack.sync()
            assert {record.key for record in await asyncio.gather(*waiting)} == {"c", "d"}
            last = [record.key async for record in pack.follow(timeout=0)]
        assert last == []
        with pytest.raises(StopAsyncIteration):
            await feed.__anext__()

    asyncio.run(main())


def test_many_who_follow_leave_threads_to_those_who_read(filled: Path) -> None:
    async def main() -> None:
        with stook.Pack(filled) as pack:
            feeds = [pack.follow().__aiter__() for _ in range(_aio.THREADS + 1)]
            waiting = [asyncio.ensure_future(feed.__anext__()) for feed in feeds]  # type: ignore[arg-type, unused-ignore]
            await asyncio.sleep(0)
            assert await asyncio.wait_for(pack.aget("a"), 60) == b"alpha"
        ended = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(end, (StopAsyncIteration, RuntimeError)) for end in ended), ended

    asyncio.run(main())


def test_an_iterator_whose_reading_waits_does_not_hold_the_loop() -> None:
    may_come = threading.Event()

    class Slow:
        def __next__(self) -> int:
            may_come.wait(60)
            return 1

        def _next_at_once(self) -> None:
            return None

    async def main() -> int:
        coming = asyncio.ensure_future(_aio.Coming(Slow()).__anext__())
        await asyncio.sleep(0.01)
        assert not coming.done()
        may_come.set()
        return await coming

    began = time.monotonic()
    assert asyncio.run(main()) == 1 and time.monotonic() - began < 60
