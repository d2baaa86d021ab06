"""Writing a whole collection into one file, from which it opens elsewhere without the documents or an embedding."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from kb.errors import ExportError, NothingIngestedError
from kb.ledger.ledger import Ledger
from kb.maintenance.archive import DOCUMENTS, HASHES, MANIFEST, VECTORS, Manifest, Source, line_of
from kb.maintenance.locked import nothing_in

if TYPE_CHECKING:
    from kb.ledger.generations import Generation
    from kb.opening import CollectionStore

# The earliest that a zip can say: the same collection gives the same bytes.
_DATE = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written."""

    file: Path
    bytes: int
    manifest: Manifest


def export(store: CollectionStore, file: Path, *, overwrite: bool = False) -> Exported:
    """Write the collection into `file`, as it is at one moment; an ingest may go on meanwhile.

    Args:
        store: The collection's store.
        file: A new file; it appears when it is complete.
        overwrite: Whether an older one may be replaced.

    Raises:
        NothingIngestedError: there is nothing to export.
        ExportError: the file is there already, or cannot be written.
    """
    if file.exists() and not overwrite:
        raise ExportError(f"{file} is there already; choose another name, or say --overwrite")
    try:
        ledger = Ledger(store.folder, read_only=True)
    except NothingIngestedError as error:
        raise nothing_in(store) from error
    with ledger, ledger.snapshot():
        generation = ledger.current_generation()
        if generation is None:
            raise nothing_in(store)
        root, counts = ledger.root(), ledger.counts(generation.number)
        manifest = Manifest(
            collection=ledger.collection_name() or store.settings.collection,
            root=None if root is None else str(root),
            embedder=generation.fingerprint,
            dimension=generation.dimension,
            sources=counts.sources,
            chunks=counts.chunks,
            vectors=ledger.count_used_vectors(generation.number),
        )
        with _written(file) as stream, zipfile.ZipFile(stream, "w") as archive:
            _write(archive, ledger, generation, manifest)
    return Exported(file, file.stat().st_size, manifest)


@contextmanager
def _written(file: Path) -> Iterator[IO[bytes]]:
    unfinished = file.with_name(f"{file.name}.unfinished")
    try:
        with unfinished.open("wb") as stream:
            yield stream
        unfinished.replace(file)
    except OSError as error:
        raise ExportError(f"{file} cannot be written: {error.strerror or error}. Choose another place") from error
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


def _write(archive: zipfile.ZipFile, ledger: Ledger, generation: Generation, manifest: Manifest) -> None:
    import numpy as np

    with _part(archive, MANIFEST) as part:
        part.write(manifest.as_json().encode())
    with _part(archive, HASHES) as part:
        for text_hash, _ in ledger.walk_used_vectors(generation.number):
            part.write(f"{text_hash}\n".encode())
    with _part(archive, VECTORS, zipfile.ZIP_STORED) as part:
        shape = (manifest.vectors, manifest.dimension)
        header = {"descr": "<f4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(part, header)
        for _, vector in ledger.walk_used_vectors(generation.number):
            part.write(vector.astype("<f4").tobytes())
    with _part(archive, DOCUMENTS) as part:
        for row in ledger.walk_sources(generation.number):
            source = Source(
                row,
                ledger.document(generation.number, row.document_id),
                tuple(ledger.chunks_of(generation.number, row.document_id)),
                tuple(ledger.set_aside_of(generation.number, row.document_id)),
            )
            part.write(line_of(source).encode() + b"\n")


def _part(archive: zipfile.ZipFile, name: str, compression: int = zipfile.ZIP_DEFLATED) -> IO[bytes]:
    info = zipfile.ZipInfo(name, _DATE)
    info.compress_type = compression
    return archive.open(info, "w", force_zip64=True)
