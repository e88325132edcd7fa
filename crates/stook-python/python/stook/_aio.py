"""Waiting for threads from asyncio."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, Callable, Optional, Protocol, TypeVar

T = TypeVar("T")

#: What waits for a network takes no processor: many threads may wait side by side.
THREADS = 64


class Pool:
    """Threads that do work for asyncio, made as they are needed.

    Those of ``concurrent.futures`` are joined when the interpreter ends, so that Ctrl-C would wait
    for every request that a server lets hang. These are left where they are.
    """

    def __init__(self) -> None:
        """None yet."""
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
            elif self._threads < THREADS:
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


def _forget() -> None:
    """A forked child has none of the threads of its parent."""
    global _pool
    _pool = Pool()


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
