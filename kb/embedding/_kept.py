"""Files that embedders keep in the user's cache folder."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def keep(path: Path, data: bytes) -> None:
    """Write under another name, then move into place: two processes may begin with the same model.

    Raises:
        OSError: it cannot be written; nothing is left of it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f"{path.name}.", suffix=".partial", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
