"""``python -m stook``: the command-line tool that the wheel carries."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path
from typing import NoReturn


def find_binary() -> str:
    """Where the command-line tool is.

    Raises:
        FileNotFoundError: This installation carries none.
    """
    name = "stook" + (sysconfig.get_config_var("EXE") or "")
    user = sysconfig.get_preferred_scheme("user") if sys.version_info >= (3, 10) else "posix_user"
    folders = [
        sysconfig.get_path("scripts"),
        # Installed with `pip install --target`.
        str(Path(__file__).parents[1] / "bin"),
        sysconfig.get_path("scripts", scheme=user),
    ]
    for folder in folders:
        path = Path(folder) / name
        if path.is_file():
            return str(path)
    raise FileNotFoundError(f"this installation carries no command-line tool; it was looked for in {', '.join(folders)}")


def main() -> NoReturn:
    """Becomes the command-line tool."""
    binary = find_binary()
    os.execv(binary, [binary, *sys.argv[1:]])


if __name__ == "__main__":
    main()
