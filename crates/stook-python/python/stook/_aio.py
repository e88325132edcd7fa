"""Waiting for threads from asyncio."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Callable, Optional, Protocol, TypeVar

T = TypeVar("T")

#: What waits for a network takes no processor: many threads may wait side by side.
THREADS = 64

_lock = threading.Lock()
_pool: Optional[ThreadPoolExecutor] = None


def pool() -> ThreadPoolExecutor:
    """The threads of this process, made when they are first wanted."""
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(THREADS, thread_name_prefix="stook-aio")
        return _pool


def _forget() -> None:
    """A forked child has none of the threads of its parent."""
    global _lock, _pool
    _lock, _pool = threading.Lock(), None


os.register_at_fork(after_in_child=_forget)


async def run(function: Callable[..., T], *arguments: object) -> T:
    """What a function gives that is called in a thread."""
    return await asyncio.get_running_loop().run_in_executor(pool(), function, *arguments)


class _Readable(Protocol):
    def read(self, position: int, length: int) -> bytes: ...

    def _read_at_once(self, position: int, length: int) -> Optional[bytes]: ...


async def read(file: _Readable, position: int, length: int) -> bytes:
    """A read that goes to a thread only where it must wait."""
    held = file._read_at_once(position, length)
    if held is not None:
        return held
    return await run(file.read, position, length)
