"""Whether the files of an embedded Chroma are whole, by their sizes; in a file of its own, which needs no Chroma.

Chroma 1.5 does not look itself. With `index_metadata.pickle` gone it answers from an empty index, with
a shortened `length.bin` or `link_lists.bin` it answers and writes as if nothing were wrong, and other
damage may end the process. Looking takes less than a millisecond, and about 15 ms for 100,000 rows.

The index is hnswlib's: `header.bin` says how many elements the other files hold, and how large one is.
`chroma.sqlite3` is only measured, never opened: closing a file drops the locks that this process holds on it.
"""

from __future__ import annotations

import os
import re
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_DATABASE = "chroma.sqlite3"
_HEADER, _LEVEL, _LENGTHS, _LINKS, _IDS = (
    "header.bin",
    "data_level0.bin",
    "length.bin",
    "link_lists.bin",
    "index_metadata.pickle",
)

_INDEX = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""A folder of the index is named by a UUID."""

# Version, offset, most elements, elements, bytes of one, … as hnswlib writes them.
_FIELDS = struct.Struct("<i6QiI3QdQ")
_PICKLE_END = b"."
_SMALLEST_PAGE = 512
"""Every SQLite file is a multiple of it."""

_REMEMBERED = "index-folders"
"""Names the folders of the index, one a line: without it a deleted folder would not be missed."""

_SETTLED_SECONDS = 2.0
"""An ingest in another process may be writing the files; what was not touched for so long stays as it is."""
_MOST_SECONDS = 10.0
"""In case a clock is wrong."""
_LOOK_AGAIN_SECONDS = 0.1


def damage(folder: Path, *, filled: bool) -> str | None:
    """Say what is wrong with a generation's files; None when nothing is.

    Args:
        folder: The generation's folder.
        filled: Whether it was filled, so that there must be something.
    """
    until = time.monotonic() + _MOST_SECONDS
    while True:
        try:
            found = _damage(folder, filled)
        except OSError as error:
            found = f"{error.filename or folder} cannot be read: {error.strerror}"
        settled = _last_change(folder) + _SETTLED_SECONDS < time.time()
        if found is None or settled or time.monotonic() > until:
            return found
        time.sleep(_LOOK_AGAIN_SECONDS)


def remember_folders(folder: Path) -> None:
    """Note which folders the index has, after writing to it."""
    unfinished = folder / f"{_REMEMBERED}.unfinished"
    with suppress(OSError):  # without the note less is noticed, no more
        unfinished.write_text("".join(f"{index.name}\n" for index in _indexes(folder)), encoding="ascii")
        unfinished.replace(folder / _REMEMBERED)


def _damage(folder: Path, filled: bool) -> str | None:
    indexes = list(_indexes(folder))
    database = folder / _DATABASE
    if not database.exists():
        return f"{_DATABASE} is missing" if filled or indexes else None
    size = database.stat().st_size
    if size % _SMALLEST_PAGE or (filled and not size):
        return f"{_DATABASE} is cut off: it has {size:,} bytes"
    if (folder / _REMEMBERED).exists():
        for name in (folder / _REMEMBERED).read_text(encoding="ascii", errors="replace").split():
            if not (folder / name).is_dir():
                return f"the folder {name} of the index is missing"
    return next(filter(None, map(_damage_of_index, indexes)), None)


def _indexes(folder: Path) -> Iterator[Path]:
    if folder.is_dir():
        yield from sorted(entry for entry in folder.iterdir() if _INDEX.fullmatch(entry.name) and entry.is_dir())


def _damage_of_index(index: Path) -> str | None:
    names = set(os.listdir(index))
    if not names:  # made, and nothing written yet
        return None
    for name in (_HEADER, _LEVEL, _LENGTHS, _LINKS):
        if name not in names:
            return f"{index.name}/{name} is missing"
    header = (index / _HEADER).read_bytes()
    if len(header) < _FIELDS.size:
        return _cut_off(index / _HEADER, _FIELDS.size)
    _, _, room, elements, size, *_ = _FIELDS.unpack_from(header)
    if elements and _IDS not in names:
        return f"{index.name}/{_IDS} is missing"
    # As long as all rows are in the log, the files have room for some and hold none.
    rows = elements or room
    for name, least in ((_LEVEL, rows * size), (_LENGTHS, rows * 4)):
        if (index / name).stat().st_size < least:
            return _cut_off(index / name, least)
    if (least := _bytes_of_links((index / _LINKS).read_bytes(), elements)) is not None:
        return _cut_off(index / _LINKS, least)
    if not elements:
        return None
    with (index / _IDS).open("rb") as file:
        file.seek(max(0, (index / _IDS).stat().st_size - 1))
        if file.read(1) != _PICKLE_END:
            return _cut_off(index / _IDS, None)
    return None


def _bytes_of_links(content: bytes, elements: int) -> int | None:
    """For each element come the bytes of its links and the links; gives how many there must be, if there are less."""
    end, least = 0, len(content)
    for _ in range(elements):
        end += 4 + int.from_bytes(content[end : end + 4], "little")
        if end > least:
            return end
    return None


def _cut_off(file: Path, least: int | None) -> str:
    belong = "" if least is None else f" of at least {least:,}"
    return f"{file.parent.name}/{file.name} is cut off: it has {file.stat().st_size:,} bytes{belong}"


def _last_change(folder: Path) -> float:
    times = [0.0]
    with suppress(OSError):
        files = [folder / _DATABASE, *(file for index in _indexes(folder) for file in index.iterdir())]
        times += [file.stat().st_mtime for file in files if file.exists()]
    return max(times)
