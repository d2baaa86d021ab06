"""Filling a collection from a file that `kb.maintenance.exporting` wrote, on whatever machine."""

from __future__ import annotations

import io
import os
import shutil
import sqlite3
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from kb.errors import ExportError, KbError, LedgerError
from kb.ingest.left_over import delete_left_over
from kb.ingest.lock import write_lock
from kb.ingest.paid_embedding import batches
from kb.ledger.hashes import hashed
from kb.ledger.ledger import Ledger
from kb.maintenance.archive import (
    DOCUMENTS,
    HASH,
    HASHES,
    MANIFEST,
    VECTORS,
    Manifest,
    Source,
    manifest_from,
    source_from,
)
from kb.maintenance.repair import fill

if TYPE_CHECKING:
    from kb.components import FloatArray
    from kb.ledger.generations import Generation
    from kb.opening import CollectionStore

_PARTS = {MANIFEST, HASHES, VECTORS, DOCUMENTS}
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_MOST_OF_MANIFEST = 1 << 20
_BATCH_VECTORS = 1000
_BATCH_SOURCES = 64
"""Documents in one transaction."""
_MEGABYTE = 1024 * 1024
_ESCAPED = 4
"""So many bytes a line of JSON may have for each that a text may have."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What was taken over."""

    collection: str
    manifest: Manifest
    without_vector: int
    """Chunks whose vector was not in the file; the next ingest embeds them."""


def import_file(store: CollectionStore, file: Path, *, replace: bool = False) -> Imported:
    """Fill the collection from `file`: built beside what is there, then swapped, as by a rebuild.

    Nothing is embedded, and the documents need not be there. The file is not trusted.

    Args:
        store: The collection's store.
        file: What `export` wrote.
        replace: Whether a collection that holds something may be replaced.

    Raises:
        ExportError: the file cannot be read, is none, or is damaged; the collection is as it was.
        LockedError: an ingest is running.
        KbError: the collection holds something, the disk has no room, or the store failed.
    """
    with _opened(file) as archive:
        manifest = _checked(archive)
        _check_room(archive, store.folder)
        with write_lock(store.folder, "import"), Ledger(store.folder) as ledger:
            current = ledger.current_generation()
            held = len(ledger.sources(current.number)) if current else 0
            if held and not replace:
                raise KbError(
                    f"the collection {store.settings.collection!r} holds {held:,} documents already; take another one "
                    "with --collection NAME, or say --replace"
                )
            ledger.drop_building()
            generation = ledger.begin_generation(manifest.embedder, manifest.dimension)
            try:
                without_vector = _take_over(archive, manifest, ledger, generation, store)
                fill(ledger, generation, generation, store)
            except BaseException:
                with suppress(KbError):
                    ledger.drop_building()
                    delete_left_over(ledger, store)
                raise
            with ledger.transaction():
                ledger.complete_generation(generation.number)
                ledger.mark_filled(generation.number)
                ledger.set_collection_name(store.settings.collection)
                if manifest.root is not None and os.path.isabs(manifest.root):
                    ledger.set_root(Path(manifest.root))
            delete_left_over(ledger, store)
    return Imported(store.settings.collection, manifest, without_vector)


@contextmanager
def _opened(file: Path) -> Iterator[zipfile.ZipFile]:
    """Whatever is wrong with the file becomes an error that names it."""
    try:
        with zipfile.ZipFile(file) as archive:
            yield archive
    except ExportError as error:
        raise ExportError(f"{file} cannot be imported: {error}") from error
    except OSError as error:
        raise ExportError(f"{file} cannot be read: {error.strerror or error}") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise ExportError(f"{file} is damaged, or no collection that kb has exported: {error}") from error


def _checked(archive: zipfile.ZipFile) -> Manifest:
    names = archive.namelist()
    readable = all(part.compress_type in _COMPRESSIONS and not part.flag_bits & 1 for part in archive.infolist())
    if set(names) != _PARTS or len(names) != len(_PARTS) or not readable:
        raise ExportError("it is no collection that kb has exported")
    if archive.getinfo(MANIFEST).file_size > _MOST_OF_MANIFEST:
        raise ExportError(f"its {MANIFEST} is too large")
    return manifest_from(archive.read(MANIFEST))


def _check_room(archive: zipfile.ZipFile, folder: Path) -> None:
    """Refuse what would fill the disk, a zip bomb among it."""
    # Vectors come into the ledger and into the store, texts are packed there.
    needed = 2 * sum(part.file_size for part in archive.infolist())
    there = next(above for above in (folder, *folder.absolute().parents) if above.exists())
    free = shutil.disk_usage(there).free
    if needed > free:
        raise KbError(f"importing needs up to {needed:,} bytes below {there}, and {free:,} are free. Make room")


def _take_over(
    archive: zipfile.ZipFile, manifest: Manifest, ledger: Ledger, generation: Generation, store: CollectionStore
) -> int:
    """Write vectors and documents into the ledger; gives how many chunks have no vector."""
    with _part(archive, HASHES) as hashes, _part(archive, VECTORS) as vectors:
        for batch in batches(_vectors(hashes, vectors, manifest), _BATCH_VECTORS):
            ledger.put_vectors(manifest.embedder, batch)
    sources = chunks = without_vector = 0
    most = int(_ESCAPED * store.settings.loading.max_text_megabytes * _MEGABYTE) + _MEGABYTE
    with _part(archive, DOCUMENTS) as lines:
        for some in batches(_sources(lines, most), _BATCH_SOURCES):
            hashes_of_some = _put(some, ledger, generation.number)
            without_vector += len(ledger.unknown_texts(manifest.embedder, hashes_of_some))
            sources, chunks = sources + len(some), chunks + len(hashes_of_some)
    counts = ledger.counts(generation.number)
    if (chunks, sources) != (counts.chunks, counts.sources) or (chunks, sources) != (manifest.chunks, manifest.sources):
        raise ExportError(
            f"it says that it holds {manifest.sources:,} documents and {manifest.chunks:,} chunks, but "
            f"{counts.sources:,} and {counts.chunks:,} different ones were read"
        )
    return without_vector


def _vectors(hashes: IO[bytes], stream: IO[bytes], manifest: Manifest) -> Iterator[tuple[str, FloatArray]]:
    import numpy as np

    try:
        version = np.lib.format.read_magic(stream)
        shape, fortran, kind = np.lib.format.read_array_header_1_0(stream)
    except ValueError as error:
        raise ExportError(f"its {VECTORS} is no array: {error}") from error
    wanted = (manifest.vectors, manifest.dimension)
    if (version, shape, fortran, kind.str) != ((1, 0), wanted, False, "<f4"):
        raise ExportError(f"its {VECTORS} is no float32 array of shape {wanted}")
    size, before = 4 * manifest.dimension, ""
    for number in range(manifest.vectors):
        name, content = hashes.readline(80).decode("ascii", "replace").rstrip("\n"), stream.read(size)
        if not HASH.fullmatch(name) or name <= before or len(content) != size:
            raise ExportError(f"vector {number} is missing, or has no hash of its own")
        vector = np.frombuffer(content, dtype="<f4").astype(np.float32)
        if not np.isfinite(vector).all():
            raise ExportError(f"vector {number} holds something that is no finite number")
        before = name
        yield name, vector
    if hashes.readline(80) or stream.read(1):
        raise ExportError("it holds more vectors than it says")


def _sources(lines: IO[bytes], most: int) -> Iterator[Source]:
    number = 0
    while line := lines.readline(most + 1):
        number += 1
        if len(line) > most:
            raise ExportError(f"document {number} is larger than [loading] max_text_megabytes allows")
        yield source_from(line)


def _put(sources: Sequence[Source], ledger: Ledger, generation: int) -> list[str]:
    """Write some sources; gives the hashes of their chunks' texts."""
    read = [
        (s.row, s.document, [hashed(chunk, s.row.path) for chunk in s.chunks])
        for s in sources
        if s.document is not None
    ]
    try:
        with ledger.transaction():
            for source in sources:
                if source.document is None:
                    ledger.record_failure(generation, source.row)
            ledger.mark_dirty(generation, [one.chunk.id for _, _, chunks in read for one in chunks])
            ledger.replace_documents(generation, read)
            aside = {s.row.document_id: s.set_aside for s in sources if s.document is not None}
            ledger.set_aside(generation, aside)
    except LedgerError as error:
        if isinstance(error.__cause__, sqlite3.IntegrityError):
            raise ExportError("two of its chunks have one id") from error
        raise
    return [one.text_hash for _, _, chunks in read for one in chunks]


@contextmanager
def _part(archive: zipfile.ZipFile, name: str) -> Iterator[IO[bytes]]:
    with archive.open(name) as raw, io.BufferedReader(raw, _MEGABYTE) as part:  # type: ignore[type-var]
        yield part
