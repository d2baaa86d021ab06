"""How an ingest reads files: in worker processes, or in this one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

from kb.loading import load_document, loader_fingerprint, loader_suffixes

if TYPE_CHECKING:
    from kb.ingest.walk import FoundFile
    from kb.records import Document
    from kb.settings import LoadingSection

_BYTES_PER_MEGABYTE = 1024 * 1024


class Reading(Protocol):
    """Reads files ahead of who wants their documents."""

    @property
    def ahead(self) -> int:
        """So many files may be begun before the first one's document is asked for."""
        ...

    def begin(self, file: FoundFile) -> Callable[[], Document]:
        """Have a file read; what is given waits for its document, or raises LoadError."""
        ...


def open_reading(section: LoadingSection) -> AbstractContextManager[Reading]:
    """Read as the settings say."""
    if not section.isolated:
        return nullcontext(_InThisProcess(section))
    from kb.ingest.workers import Workers

    return Workers(section, loader_options(section))


def pipelines(section: LoadingSection, chunker_fingerprint: str) -> dict[str, str]:
    """The fingerprint of reading and cutting, by suffix.

    Raises:
        ConfigError: a loader's option is unknown or has a wrong value.
    """
    options = loader_options(section)
    return {
        suffix: f"{loader_fingerprint(name, options[name])} {chunker_fingerprint}"
        for suffix, name in loader_suffixes().items()
    }


class _InThisProcess:
    """Reads a file when its document is asked for: no process to start, and no limit of time and memory."""

    ahead = 0

    def __init__(self, section: LoadingSection) -> None:
        self._options = loader_options(section)
        self._max_bytes = int(section.max_file_megabytes * _BYTES_PER_MEGABYTE)

    def begin(self, file: FoundFile) -> Callable[[], Document]:
        return lambda: load_document(file.path, file.relative, options=self._options, max_bytes=self._max_bytes)


def loader_options(section: LoadingSection) -> Mapping[str, Mapping[str, Any]]:
    """Options tables by the loaders' names."""
    return {name: section.options(name) for name in set(loader_suffixes().values())}
