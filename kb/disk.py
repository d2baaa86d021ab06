"""What about a folder explains that a library could not read or write there; libraries seldom say it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

_LITTLE_MEGABYTES = 64.0
"""With less, a batch of 512 chunks may not find room for its rows, their logs and the index file."""

_BYTES_PER_MEGABYTE = 1024 * 1024


def trouble(*paths: Path) -> str | None:
    """Say what is wrong with one of `paths`, a folder or files in it, and what to do; None when nothing is seen."""
    for path in paths:
        if os.path.exists(path) and not os.access(path, os.R_OK | os.W_OK):
            return (
                f"{path} cannot be read and written by this user, or its disk is read-only, which is needed for "
                "questions too: mend that, or copy data_dir to where it can be written"
            )
    try:
        free = shutil.disk_usage(paths[0]).free / _BYTES_PER_MEGABYTE
    except OSError:
        return None
    if free < _LITTLE_MEGABYTES:
        return f"Its disk has only {free:.1f} MB left: make room and run it again; what was done before is kept"
    return None
