"""A progress bar, where tqdm is installed."""

from __future__ import annotations

from typing import Callable


def bar() -> Callable[[int, int], None]:
    """A callback that shows bytes in a tqdm bar; one that does nothing where there is no tqdm."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return lambda entries, size: None
    shown = tqdm(unit="B", unit_scale=True)

    def report_progress(entries: int, size: int) -> None:
        # What was begun and could not be finished is taken back; a bar only goes forward.
        shown.update(max(size - shown.n, 0))
        shown.set_postfix_str(f"{entries} entries", refresh=False)

    return report_progress
