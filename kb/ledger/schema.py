"""The ledger's tables, and how a file of an older version is brought up to date.

A migration is a list of statements; `PRAGMA user_version` says how many have been applied. A
published migration is never changed: a new need is a new one at the end.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from kb.disk import trouble
from kb.errors import LedgerError, NothingIngestedError
from kb.records import DOCUMENT_DIGITS

LEDGER_FILE = "ledger.sqlite"

_BUSY_SECONDS = 10.0
"""How long to wait for another connection's lock. In WAL mode readers and the one writer do not
wait for each other; only recovery after a crash takes a moment."""

_CACHE_KILOBYTES = 32_768
_CHECKPOINT_PAGES = 16_384
"""Of 4 kB: the log grows to some 64 MB while much is written, which takes an eighth less time than 32 MB."""

_MAPPED_BYTES = 1 << 40
"""Of the file, for readers: all of it, as far as this SQLite allows."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
        # AUTOINCREMENT: a number is never used twice, so a folder left behind is never mistaken for a new one.
        """CREATE TABLE generations (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            fingerprint TEXT NOT NULL,
            dimension INTEGER NOT NULL,
            state TEXT NOT NULL CHECK (state IN ('building', 'current')),
            created TEXT NOT NULL)""",
        "CREATE UNIQUE INDEX one_generation_a_state ON generations (state)",
        """CREATE TABLE sources (
            generation INTEGER NOT NULL,
            document_id TEXT NOT NULL,
            path TEXT NOT NULL,
            size INTEGER NOT NULL,
            mtime_ns INTEGER NOT NULL,
            content_hash TEXT NOT NULL,
            status TEXT NOT NULL CHECK (status IN ('indexed', 'skipped', 'failed')),
            reason TEXT NOT NULL,
            pipeline TEXT NOT NULL,
            warnings TEXT NOT NULL,
            PRIMARY KEY (generation, document_id)) WITHOUT ROWID""",
        """CREATE TABLE documents (
            generation INTEGER NOT NULL,
            document_id TEXT NOT NULL,
            text BLOB NOT NULL,
            title TEXT NOT NULL,
            kind TEXT NOT NULL,
            metadata TEXT NOT NULL,
            pages TEXT NOT NULL,
            headings TEXT NOT NULL,
            PRIMARY KEY (generation, document_id))""",
        # A chunk is live if and only if it has a row here.
        """CREATE TABLE chunks (
            generation INTEGER NOT NULL,
            chunk_id TEXT NOT NULL,
            document_id TEXT NOT NULL,
            position INTEGER NOT NULL,
            span_start INTEGER NOT NULL,
            span_end INTEGER NOT NULL,
            page INTEGER,
            heading_path TEXT NOT NULL,
            header TEXT NOT NULL,
            script TEXT NOT NULL,
            text_hash TEXT NOT NULL,
            payload_hash TEXT NOT NULL,
            PRIMARY KEY (generation, chunk_id)) WITHOUT ROWID""",
        "CREATE INDEX chunks_of_document ON chunks (generation, document_id, position)",
        # What may be in the vector store: written before the store is, so always a superset of it.
        """CREATE TABLE store_rows (
            generation INTEGER NOT NULL,
            chunk_id TEXT NOT NULL,
            payload_hash TEXT NOT NULL,
            PRIMARY KEY (generation, chunk_id)) WITHOUT ROWID""",
        # With rowids on purpose: vectors are long, and 20,000 of 384 dimensions are written in
        # 1.2 s and 41 MB, against 4.3 s and 89 MB in a table WITHOUT ROWID.
        """CREATE TABLE vectors (
            fingerprint TEXT NOT NULL,
            text_hash TEXT NOT NULL,
            vector BLOB NOT NULL,
            PRIMARY KEY (fingerprint, text_hash))""",
        "INSERT INTO meta VALUES ('created', strftime('%Y-%m-%dT%H:%M:%SZ', 'now')), ('revision', '0')",
        # Keyword search by FTS5, as it was.
        "CREATE TABLE word_rows (id INTEGER PRIMARY KEY, generation INTEGER NOT NULL, chunk_id TEXT NOT NULL, "
        "UNIQUE (generation, chunk_id))",
        # The ascii tokenizer keeps every other script as it is; with these characters it splits at spaces only.
        """CREATE VIRTUAL TABLE words USING fts5(terms, tokenize="ascii tokenchars '_.,-@/:''’'")""",
        "CREATE VIRTUAL TABLE word_counts USING fts5vocab(words, 'row')",
    ),
    (
        # A question reads some 70 chunks of as many documents. Cutting them from the documents' texts took
        # 630 ms with documents of 1 MB. With rowids, as vectors.
        """CREATE TABLE chunk_texts (
            generation INTEGER NOT NULL,
            chunk_id TEXT NOT NULL,
            text BLOB NOT NULL,
            PRIMARY KEY (generation, chunk_id))""",
        # CROSS JOIN: documents first, so that each is unpacked once.
        """INSERT INTO chunk_texts
            SELECT c.generation, c.chunk_id, cut(d.text, c.span_start, c.span_end)
            FROM documents d CROSS JOIN chunks c USING (generation, document_id)""",
    ),
    (
        # Passages of indexed documents that the embedding service refused for good.
        """CREATE TABLE set_aside (
            generation INTEGER NOT NULL,
            document_id TEXT NOT NULL,
            span_start INTEGER NOT NULL,
            span_end INTEGER NOT NULL,
            page INTEGER,
            reason TEXT NOT NULL,
            PRIMARY KEY (generation, document_id, span_start, span_end)) WITHOUT ROWID""",
    ),
    (
        # Keyword search by kb.ledger.postings; a ledger fills it when it is opened for writing.
        "DROP TABLE word_counts",
        "DROP TABLE words",
        "DROP TABLE word_rows",
        "CREATE TABLE word_rows (id INTEGER PRIMARY KEY, generation INTEGER NOT NULL, chunk_id TEXT NOT NULL, "
        "length INTEGER NOT NULL, UNIQUE (generation, chunk_id))",
        "CREATE TABLE word_segments (id INTEGER PRIMARY KEY, generation INTEGER NOT NULL, first_row INTEGER NOT NULL, "
        "chunks INTEGER NOT NULL, length INTEGER NOT NULL)",
        "CREATE TABLE word_gone (id INTEGER PRIMARY KEY, generation INTEGER NOT NULL, length INTEGER NOT NULL)",
        "CREATE TABLE postings (segment INTEGER NOT NULL, term TEXT NOT NULL, chunks BLOB NOT NULL, "
        "PRIMARY KEY (segment, term)) WITHOUT ROWID",
    ),
    (
        # What an embedder keeps of a text's tokens beside its vector, in a form of its own. With rowids, as vectors.
        """CREATE TABLE token_vectors (
            fingerprint TEXT NOT NULL,
            text_hash TEXT NOT NULL,
            states BLOB NOT NULL,
            PRIMARY KEY (fingerprint, text_hash))""",
    ),
)

SCHEMA_VERSION = len(MIGRATIONS)

# Behind what the chunks of a document have in common an id is a hash, so the first ones by that are an even sample.
# The index holds all that is asked for: 100,000 chunks take 24 ms.
EVEN_SAMPLE = (
    "SELECT chunk_id FROM chunks INDEXED BY chunks_of_document WHERE generation = ? "
    f"ORDER BY substr(chunk_id, {DOCUMENT_DIGITS + 1}), chunk_id LIMIT ?"
)


def open_connection(file: Path, *, read_only: bool) -> sqlite3.Connection:
    """Open the ledger `file`; a writer creates it or brings it up to date.

    Raises:
        NothingIngestedError: `read_only`, and there is no ledger yet.
        LedgerError: it cannot be opened, is no ledger, or is of another version.
    """
    if read_only and not file.exists():
        raise _nothing_ingested(file)
    connection: sqlite3.Connection | None = None
    try:
        if not read_only:
            file.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(
            f"{file.resolve().as_uri()}?mode={'ro' if read_only else 'rwc'}",
            uri=True,
            timeout=_BUSY_SECONDS,
            isolation_level=None,  # transactions are opened by hand, see LedgerConnection
            check_same_thread=False,  # LedgerConnection lets one thread in at a time
        )
        _prepare(connection, file, read_only=read_only)
    except BaseException as error:
        if connection is not None:
            connection.close()
        if isinstance(error, (sqlite3.Error, OSError)):
            mend = trouble(file.parent, file) or "If it is damaged, move its folder away and ingest again"
            raise LedgerError(f"the ledger {file} cannot be opened: {error}. {mend}") from error
        raise
    return connection


def open_empty() -> sqlite3.Connection:
    """A ledger of nothing, in memory."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    _migrate(connection)
    return connection


def _prepare(connection: sqlite3.Connection, file: Path, *, read_only: bool) -> None:
    version = _version(connection)
    if version > SCHEMA_VERSION:
        raise LedgerError(
            f"the ledger {file} was written by a newer version of kb (format {version}; this one knows "
            f"{SCHEMA_VERSION}). Upgrade kb"
        )
    if read_only:
        if version == 0:
            raise _nothing_ingested(file)
        if version < SCHEMA_VERSION:
            raise LedgerError(
                f"the ledger {file} was written by an older version of kb (format {version}; this one reads "
                f"{SCHEMA_VERSION}). Run an ingest once, which brings it up to date"
            )
        # A question reads some hundred rows all over the file: 2 ms instead of 4 of 100,000 chunks.
        connection.execute(f"PRAGMA mmap_size = {_MAPPED_BYTES}")
        return
    connection.execute("PRAGMA journal_mode = WAL")
    # FULL: the log is on the disk before a commit returns. With NORMAL a power cut may take back
    # commits that we have told the user about, and embeddings that were paid for.
    connection.execute("PRAGMA synchronous = FULL")
    # Keys are hashes, so that a batch's rows fall on pages all over the file: with SQLite's own 2 MB and 1,000
    # pages, most are written several times.
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KILOBYTES}")
    connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
    if version < SCHEMA_VERSION:
        _migrate(connection)


def _migrate(connection: sqlite3.Connection) -> None:
    connection.create_function("cut", 3, _cutter(), deterministic=True)
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Read again inside the transaction: another process may have been faster.
        for number in range(_version(connection), SCHEMA_VERSION):
            for statement in MIGRATIONS[number]:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number + 1}")
    except BaseException:
        connection.rollback()
        raise
    connection.execute("COMMIT")


def _cutter() -> Callable[[bytes, int, int], bytes]:
    """What cuts a span from a packed text, and packs it again."""
    unpacked = lru_cache(maxsize=1)(unpack)
    return lambda text, start, end: pack(unpacked(text)[start:end])


def pack(text: str) -> bytes:
    """A text as it is kept."""
    return zlib.compress(text.encode("utf-8"))


def unpack(text: bytes) -> str:
    """A text that is kept."""
    return zlib.decompress(text).decode("utf-8")


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _nothing_ingested(file: Path) -> NothingIngestedError:
    return NothingIngestedError(
        f"nothing has been ingested yet: there is no ledger at {file}. Run python -m pipelines.ingest first"
    )
