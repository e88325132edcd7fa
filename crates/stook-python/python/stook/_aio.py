"""Waiting for threads from asyncio."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Callable, Generic, Optional, Protocol, TypeVar

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

#: What waits for a network takes no processor: many threads may wait side by side.
THREADS = 64
#: Those who follow a pack may wait for ever; nothing else waits for one of their threads.
FOLLOWERS_MAX = 1024


class Pool:
    """Threads that do work for asyncio, made as they are needed.

    Those of ``concurrent.futures`` are joined when the interpreter ends, so that Ctrl-C would wait
    for every request that a server lets hang. These are left where they are.
    """

    def __init__(self, most: int = THREADS) -> None:
        """None yet, and never more than ``most``."""
        self._most = most
        self._lock = threading.Lock()
        self._work: SimpleQueue[tuple[Future[Any], Callable[..., Any], tuple[object, ...]]] = SimpleQueue()
        self._threads = 0
        # Threads that wait for work, less the work that waits for them.
        self._idle = 0

    def submit(self, function: Callable[..., T], *arguments: object) -> Future[T]:
        """Calls a function in one of the threads."""
        future: Future[T] = Future()
        with self._lock:
            if self._idle > 0:
                self._idle -= 1
            elif self._threads < self._most:
                self._begin()
            self._work.put((future, function, arguments))
        return future

    def _begin(self) -> None:
        try:
            threading.Thread(target=self._run, name=f"stook-aio-{self._threads}", daemon=True).start()
        except RuntimeError:
            # There may be no more threads; those that there are do all the work.
            if self._threads == 0:
                raise
            return
        self._threads += 1

    def _run(self) -> None:
        while True:
            _do(*self._work.get())
            with self._lock:
                self._idle += 1


def _do(future: Future[Any], function: Callable[..., Any], arguments: tuple[object, ...]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = function(*arguments)
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)


#: The threads of this process.
_pool = Pool()
_followers = Pool(FOLLOWERS_MAX)


def _forget() -> None:
    """A forked child has none of the threads of its parent."""
    global _pool, _followers
    _pool, _followers = Pool(), Pool(FOLLOWERS_MAX)


os.register_at_fork(after_in_child=_forget)


async def run(function: Callable[..., T], *arguments: object) -> T:
    """What a function gives that is called in a thread."""
    return await asyncio.wrap_future(_pool.submit(function, *arguments))


class _Readable(Protocol):
    def read(self, position: int, length: int) -> bytes: ...

    def _read_at_once(self, position: int, length: int) -> Optional[bytes]: ...


async def read(file: _Readable, position: int, length: int) -> bytes:
    """A read that goes to a thread only where it must wait."""
    held = file._read_at_once(position, length)
    if held is not None:
        return held
    return await run(file.read, position, length)


async def given(value: T) -> T:
    """A value that is there already, for what awaits one."""
    return value


async def left(leave: Callable[..., None], exception: tuple[object, ...]) -> None:
    """Leaves a context manager in a thread, to the end also where the waiting is cancelled."""
    await asyncio.shield(asyncio.wrap_future(_pool.submit(leave, *exception)))


#: What an iterator has no more.
_END: Any = object()


class _Iterator(Protocol[T_co]):
    def __next__(self) -> T_co: ...


class _Ready(_Iterator[T_co], Protocol[T_co]):
    def _next_at_once(self) -> Optional[T_co]: ...


class _Awaited(Generic[T]):
    """An iterator whose items are waited for in threads. None is lost where the waiting for it is
    cancelled: the next one who waits gets it.
    """

    def __init__(self, iterator: _Iterator[T]) -> None:
        self._iterator = iterator
        # What nobody waits for any more.
        self._left: list[Future[T]] = []

    def __aiter__(self) -> Self:
        return self

    async def _next(self, pool: Pool) -> T:
        coming = self._left.pop(0) if self._left else pool.submit(next, self._iterator, _END)
        try:
            item = await asyncio.shield(asyncio.wrap_future(coming))
        except asyncio.CancelledError:
            self._left.append(coming)
            raise
        if item is _END:
            raise StopAsyncIteration
        return item


class Coming(_Awaited[T]):
    """The items of an iterator of this package, for ``async for``: those that have been read come
    at once.
    """

    def __init__(self, iterator: _Ready[T]) -> None:
        """Over an iterator that nobody else goes through."""
        super().__init__(iterator)
        self._ready = iterator

    async def __anext__(self) -> T:
        """The next item."""
        held = None if self._left else self._ready._next_at_once()
        return await self._next(_pool) if held is None else held


class Followed(_Awaited[T]):
    """What is put into a pack from now on, for ``async for``."""

    async def __anext__(self) -> T:
        """The next record, whenever it comes."""
        return await self._next(_followers)
