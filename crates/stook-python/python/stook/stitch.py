"""One file of many, without writing it: archives of trees, and archives with members replaced.

Each function gives a :class:`stook.VirtualFile`, a seekable file object whose bytes come from the
files themselves when they are read; :func:`wds` gives :class:`stook.Shards`, a sequence of them.
"""

from ._stook import afs, patch, raw, safetensors, tar, wds, zip  # noqa: A004

__all__ = ["afs", "patch", "raw", "safetensors", "tar", "wds", "zip"]

for _function in (afs, patch, raw, safetensors, tar, wds, zip):
    _function.__module__ = __name__
del _function
