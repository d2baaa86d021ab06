"""Whether a helper is fit for an ingest: as this machine, and with the same files before it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kb.errors import ConfigError, KbError
from kb.ingest.engine._bench import bench_for
from kb.ingest.engine._sent import Difference, Setup

if TYPE_CHECKING:
    from kb.ingest.walk import FoundFile


def look(setup: Setup, path: str = "", size: str = "", changed: str = "") -> tuple[Difference, ...]:
    """What differs on the helper that runs this; beside settings, how a file looks.

    Raises:
        ConfigError: it cannot help at all. No other error is its own: an OSError instead is of the connection.
    """
    try:
        found = bench_for(setup).differences
    except Exception as error:  # whatever a package or a model does there, who ingests is told
        raise ConfigError(brief(error)) from error
    if path:
        there = _seen_at(path)
        if isinstance(there, OSError):
            found = (*found, Difference(f"the file {path}", "is there", str(there.strerror)))
        elif there != (size, changed):
            found = (*found, Difference(f"the file {path}", f"{size}, {changed}", ", ".join(there)))
    return found


def seen(file: FoundFile) -> tuple[str, str, str] | None:
    """Path, size and time of a file, as it is now, for `look`; None when it has just gone."""
    found = _seen_at(str(file.location))
    return None if isinstance(found, OSError) else (str(file.location), *found)


def differs(address: str, found: Sequence[Difference]) -> ConfigError:
    """A helper that is not as this machine."""
    first = found[0]
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return ConfigError(
        f"the worker {address} differs from this machine in {first.what}{more}: {first.here!r} here, {first.there!r} "
        "there. Give it the same kb, packages and folder of documents, or take it off the scheduler; nothing was "
        "prepared by it"
    )


def unfit(address: str, error: BaseException) -> ConfigError:
    """A helper that cannot do anything."""
    return ConfigError(
        f"the worker {address} cannot help ({brief(error)}): install the same kb and packages there, or take it "
        "off the scheduler"
    )


def brief(error: BaseException) -> str:
    """An error in one line; ours as it is."""
    said = " ".join(str(error).split())
    return said if isinstance(error, KbError) else f"{type(error).__name__}: {said[:300]}"


def _seen_at(path: str) -> tuple[str, str] | OSError:
    try:
        status = os.stat(path)
    except OSError as error:
        return error
    # Whole seconds: some network file systems keep no more.
    return f"{status.st_size} bytes", f"changed at {int(status.st_mtime)}"
