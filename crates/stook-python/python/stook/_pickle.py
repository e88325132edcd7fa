"""How pickled objects are made again: by opening what they were opened from."""

from __future__ import annotations

from typing import Any

from . import _stook


def open_pack(path: str, options: dict[str, Any]) -> _stook.Pack:
    """Opens a pack in the process that the pickle was given to."""
    return _stook.Pack(path, "r", **options)
