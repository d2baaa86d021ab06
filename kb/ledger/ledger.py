"""The ledger: the one truth about a collection, in one SQLite file beside it.

It knows every source, each document's text, each live chunk and every vector already paid for.
The vector store can be rebuilt from it without an embedding call and without the source files.
"""

from __future__ import annotations

from kb.ledger.chunks import Chunks
from kb.ledger.documents import Documents
from kb.ledger.generations import Generations
from kb.ledger.vectors import Vectors


class Ledger(Generations, Documents, Chunks, Vectors):
    """`Ledger(folder)` opens `folder/ledger.sqlite`, and creates or upgrades it.

    With `read_only=True` nothing is written, and a missing file is a NothingIngestedError. There may
    be one writer (see `kb.ingest.lock`) and any number of readers, in any number of processes; one
    object may be used from several threads.

    The order of writes that survives a crash anywhere:

        put_vectors → mark_dirty → store.upsert → replace_document → store.delete → forget_rows
    """
