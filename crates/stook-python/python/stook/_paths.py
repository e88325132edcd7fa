"""Which keys are paths."""

from __future__ import annotations

import re
from typing import Union

#: What no path has in it: a part that is empty, `.` or `..`.
_NO_PATH = re.compile(r"(?:^|/)\.{0,2}(?:/|\Z)")


def is_path(key: Union[str, int]) -> bool:
    """Whether a key is a path that leads nowhere else; ids are."""
    return isinstance(key, int) or _NO_PATH.search(key) is None
