"""Whether a generation's vector store was filled to the end, and which store that was."""

from __future__ import annotations

from pathlib import Path

from kb.errors import StoreError

# Beside the store's own files, and lost with them: a store without it may be empty, or half full,
# and must not pass for the one that the ledger's book (`store_rows`) is about.
_MARKER = "in-step-with-ledger"
_BEGUN = "being-filled"
"""Names a store before the first row is written there, so that what a run leaves that dies is found on its server."""


def filled_store(folder: Path) -> str | None:
    """The name of the store that was filled last; None when none was, or not to the end.

    Raises:
        StoreError: the marker cannot be read.
    """
    try:
        return (folder / _MARKER).read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StoreError(f"{folder / _MARKER} cannot be read: {error.strerror}. Mend its permissions") from error


def begun_store(folder: Path) -> str | None:
    """The name of the store that was filled last, or was being filled; None when nothing tells."""
    try:
        return filled_store(folder) or (folder / _BEGUN).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def remember_begun(folder: Path, store: str) -> None:
    """Say that `store` is about to be filled."""
    try:
        (folder / _BEGUN).write_text(store, encoding="utf-8")
    except OSError as error:
        raise _cannot_be_written(folder, error) from error


def remember_filled(folder: Path, store: str) -> None:
    """Say that `store` now holds all that the ledger's book lists."""
    if filled_store(folder) == store:
        return
    unfinished = folder / f"{_MARKER}.unfinished"
    try:
        unfinished.write_text(store, encoding="utf-8")
        unfinished.replace(folder / _MARKER)  # at once, so that no reader sees half a name
    except OSError as error:
        raise _cannot_be_written(folder, error) from error


def forget_filled(folder: Path) -> None:
    """Say that no store is filled, before the book is changed to what one really holds."""
    try:
        (folder / _MARKER).unlink(missing_ok=True)
    except OSError as error:
        raise _cannot_be_written(folder, error) from error


def _cannot_be_written(folder: Path, error: OSError) -> StoreError:
    return StoreError(
        f"{folder / _MARKER} cannot be written: {error.strerror}. Make room, or mend its permissions, and run again"
    )
