"""Damages files as disks, networks and editors do, by a seed: the same seed gives the same damage."""

from __future__ import annotations

import io
import random
import zipfile
import zlib

RUNS = (1, 1, 4, 64, 512)
"""Lengths of what is overwritten, dropped or doubled."""
FEW_OR_MANY = (1, 1, 2, 8, 40)
"""How many such places a file gets."""
LEAST_CUT = 100
"""Shorter files are not cut: nothing would be left of them."""


def damaged(data: bytes, rnd: random.Random) -> bytes:
    """Damage a file; of a zip (Word, slides, e-books) half of the time a file inside, so that the zip stays sound."""
    if rnd.random() < 0.5 and (inside := _damaged_inside(data, rnd)) is not None:
        return inside
    return _damaged_bytes(data, rnd)


def _damaged_bytes(data: bytes, rnd: random.Random) -> bytes:
    """Overwrite, drop, double, flip a bit, or cut off the rest."""
    result = bytearray(data)
    for _ in range(rnd.choice(FEW_OR_MANY)):
        at = rnd.randrange(len(result) + 1)
        length = rnd.choice(RUNS)
        kind = rnd.randrange(5)
        if kind == 0:
            result[at : at + length] = rnd.randbytes(length)
        elif kind == 1:
            del result[at : at + length]
        elif kind == 2:
            result[at:at] = result[max(0, at - length) : at]
        elif kind == 3 and at < len(result):
            result[at] ^= 1 << rnd.randrange(8)
        elif kind == 4 and len(result) > LEAST_CUT:
            del result[rnd.randrange(len(result) // 2, len(result)) :]
    return bytes(result)


def _damaged_inside(data: bytes, rnd: random.Random) -> bytes | None:
    """A zip with one or two of its files damaged and everything else as it was; None when it is no zip."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as old:
            parts = {info.filename: old.read(info) for info in old.infolist()}
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, EOFError, ValueError, zlib.error):
        return None
    names = [name for name in parts if parts[name]]
    for name in rnd.sample(names, min(len(names), rnd.choice((1, 1, 2)))):
        parts[name] = _damaged_bytes(parts[name], rnd)
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as new:
        for name, part in parts.items():
            new.writestr(name, part)
    return written.getvalue()
