"""Disks that are full, read-only or another user's, each in mounts that only the process that made them sees."""

from __future__ import annotations

import codecs
import ctypes
import json
import os
import random
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kb.errors import KbError
from tests.crash_tasks import compare, ingest, ingest_or_say, place_at
from tests.end_to_end._bases import NUMBERS, a_text

# linux/sched.h and linux/mount.h
_NEW_MOUNTS, _NEW_USER = 0x00020000, 0x10000000
_READ_ONLY, _REMOUNT, _BIND, _ALL_BELOW, _PRIVATE = 1, 32, 4096, 16384, 1 << 18
_MEGABYTE = 1024 * 1024
_NOBODY = 65534

_libc = ctypes.CDLL(None, use_errno=True)


def why_no_mounts() -> str | None:
    """Why this machine lets no process have mounts of its own; None when it does."""
    try:
        _own_mounts()
        _mount("none", "/mnt", "tmpfs", 0, "size=1m")
    except (OSError, AttributeError) as error:
        return f"this machine lets no process mount a disk of its own: {error}"
    return None


def full_disk(*, folder: str, free_kilobytes: int) -> dict[str, Any]:
    """An ingest on a disk with so much room left, then, with room, another one.

    Returns:
        What the first one said, what was found then, and what differs from a fresh build at the end.
    """
    _own_mounts()
    data, documents = Path(folder, "data"), Path(folder, "documents")
    data.mkdir()
    _mount("none", data, "tmpfs", 0, "size=32m")
    for name in ("仓库", "b", "手引き"):
        _write(documents / f"{name}.md", [f"old {word}" for word in NUMBERS])
    _in_a_child(lambda: ingest(folder=folder))
    for name in ("仓库", "b", "新"):
        # Words that do not compress well, so that there is something to write.
        choose = random.Random(name)
        _write(
            documents / f"{name}.md", [f"{word} {choose.randbytes(60).hex()}" for word in NUMBERS[:3] for _ in range(8)]
        )
    filler = data / "filler"
    with filler.open("wb") as file:
        left = os.statvfs(data)
        file.write(bytes(max(0, left.f_bavail * left.f_frsize - free_kilobytes * 1024)))
    said = _in_a_child(lambda: ingest_or_say(folder=folder))
    found = _in_a_child(lambda: _error_of(lambda: place_at(folder, "data", "chroma", 32).found("three")))
    filler.unlink()
    _in_a_child(lambda: ingest(folder=folder))
    _in_a_child(lambda: ingest(folder=folder, data="fresh"))
    return {"said": said, "found": found, "differs": _in_a_child(lambda: compare(folder=folder, dimension=32))}


def read_only_disk(*, folder: str) -> dict[str, Any]:
    """An ingest and a question where nothing can be written, then an ingest where it can."""
    _own_mounts()
    data = Path(folder, "data")
    _write(Path(folder, "documents", "a.md"), ["old three"])
    _in_a_child(lambda: ingest(folder=folder))
    _write(Path(folder, "documents", "a.md"), ["new three"])
    _mount(data, data, None, _BIND)
    _mount(data, data, None, _BIND | _REMOUNT | _READ_ONLY)
    said = _in_a_child(lambda: ingest_or_say(folder=folder))
    found = _in_a_child(lambda: _error_of(lambda: place_at(folder, "data", "chroma", 32).found("three")))
    _mount(data, data, None, _BIND | _REMOUNT)
    return {"said": said, "found": found, "report": _in_a_child(lambda: ingest(folder=folder))}


def another_user(*, folder: str, closed: list[str]) -> dict[str, Any]:
    """For each path of `closed`, an ingest by somebody who may not open it; then one by the owner."""
    _write(Path(folder, "documents", "a.md"), ["old three"])
    _write(Path(folder, "documents", "below", "b.md"), ["zebra"])
    _in_a_child(lambda: ingest(folder=folder))
    _write(Path(folder, "documents", "a.md"), ["new three"])
    for path in [Path(folder), *Path(folder).rglob("*")]:
        path.chmod(0o777 if path.is_dir() else 0o666)
    said = {}
    for name in closed:
        mode = Path(folder, name).stat().st_mode
        Path(folder, name).chmod(0)
        said[name] = _in_a_child(lambda: _all_imported(folder) and _as_nobody(lambda: ingest_or_say(folder=folder)))
        Path(folder, name).chmod(mode)
    return {"said": said, "report": _in_a_child(lambda: ingest(folder=folder))}


def _write(file: Path, words: list[str]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(a_text(words, title=file.stem), encoding="utf-8")


def _error_of(work: Callable[[], Any]) -> Any:
    """What is said when it fails, else what it gives."""
    try:
        return work()
    except KbError as error:
        return f"{type(error).__name__}: {error}"


def _all_imported(folder: str) -> bool:
    """Have all modules imported that an ingest needs: somebody else may not be allowed to read Python's own."""
    for _ in range(2):
        ingest(folder=folder, data="elsewhere")
    codecs.lookup("ascii")
    return True


def _as_nobody(work: Callable[[], Any]) -> Any:
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(_NOBODY)
        os.setuid(_NOBODY)
    return work()


def _in_a_child(work: Callable[[], Any]) -> Any:
    """What `work` gives in a process of its own, as each ingest has one."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            os.close(read)
            with os.fdopen(write, "w") as file:
                json.dump(work(), file)
            status = 0
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read) as file:
        given = file.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code == 0, f"a process ended with {code}"
    return json.loads(given)


def _own_mounts() -> None:
    """Part from the mounts of all others; somebody who is not root becomes it, for his own files."""
    user, group = os.getuid(), os.getgid()
    _check(_libc.unshare(_NEW_MOUNTS | (0 if user == 0 else _NEW_USER)))
    if user:
        Path("/proc/self/setgroups").write_text("deny", "ascii")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1", "ascii")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1", "ascii")
    _mount("none", "/", None, _ALL_BELOW | _PRIVATE)


def _mount(source: Path | str, target: Path | str, kind: str | None, flags: int, options: str = "") -> None:
    _check(
        _libc.mount(
            os.fsencode(source), os.fsencode(target), kind and kind.encode(), ctypes.c_ulong(flags), options.encode()
        )
    )


def _check(status: int) -> None:
    if status:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
