"""Everything on this machine: files are read in processes of their own, and cut and embedded in this one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from kb.ingest.engine import Cut, Means, cut
from kb.ingest.reading import open_reading

if TYPE_CHECKING:
    from kb.components import Chunker, Embedder
    from kb.ingest.reading import Reading
    from kb.ingest.walk import FoundFile


def open_engine(means: Means, due: Sequence[FoundFile]) -> AbstractContextManager[LocalEngine]:
    """Open it; a process is started when the first file is begun."""
    del due
    reading = partial(open_reading, means.settings.loading)
    return nullcontext(LocalEngine(means.lent.embedder, means.chunker, reading))


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Reads ahead, and cuts what is asked for."""

    embedder: Embedder
    chunker: Chunker
    open_reading: Callable[[], AbstractContextManager[Reading]]

    @contextmanager
    def preparing(self) -> Iterator[CutHere]:
        """Start to read files; leaving it ends the processes that do."""
        with self.open_reading() as reading:
            yield CutHere(reading, self.chunker)


@dataclass(frozen=True, slots=True)
class CutHere:
    """Cuts in the caller's thread, when the document is asked for: a chunker may write what it embeds to the ledger."""

    reading: Reading
    chunker: Chunker

    @property
    def ahead(self) -> int:
        """As many as are read ahead."""
        return self.reading.ahead

    def begin(self, file: FoundFile, content_hash: str) -> Callable[[], Cut]:
        """Have a file read; what is given waits for its document, and cuts it."""
        del content_hash
        document = self.reading.begin(file)
        return lambda: cut(self.chunker, document())
