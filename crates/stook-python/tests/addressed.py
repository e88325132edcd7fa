"""File systems whose paths are whole addresses, as those of web servers are."""

from __future__ import annotations

from typing import Any


class Addressed:
    """Stands before a file system of ``fsspec`` among the bases: paths keep their scheme, and all
    that is in them.
    """

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        return path

    def unstrip_protocol(self, name: str) -> str:
        """A path is an address."""
        return name
