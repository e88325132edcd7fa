"""How much memory this process takes."""

from __future__ import annotations

import os
from pathlib import Path


def resident_bytes() -> int:
    """What of its memory is there now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
