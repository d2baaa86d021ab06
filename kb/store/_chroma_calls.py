"""What goes into a call of Chroma and what comes out of it; in a file of its own, which needs no Chroma."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kb.disk import trouble
from kb.errors import KbError, StoreError
from kb.payloads import StoredRow, storable, stored_row
from kb.store._rows import as_similarity

if TYPE_CHECKING:
    from kb.components import FloatArray, StoreRow

_DATABASE = "chroma.sqlite3"


def where_clause(conditions: Mapping[str, str | int]) -> dict[str, Any] | None:
    """Conditions as Chroma writes them; None when there are none."""
    single = [{key: {"$eq": value}} for key, value in conditions.items()]
    if len(single) < 2:
        return single[0] if single else None
    return {"$and": single}


def ranked(ids: Sequence[str], distances: Sequence[float]) -> list[tuple[str, float]]:
    """Ids with similarities, falling, ties by id."""
    similarities = as_similarity(np.asarray(distances, dtype=np.float64))
    pairs = zip(ids, similarities.tolist(), strict=True)
    return sorted(pairs, key=lambda pair: (-pair[1], pair[0]))


def columns(rows: Sequence[StoreRow], matrix: FloatArray, places: Sequence[int]) -> dict[str, Any]:
    """Ids, vectors and texts of the rows at `places`, as an add or an upsert takes them."""
    return {
        "ids": [rows[place].chunk.id for place in places],
        "embeddings": matrix[places],
        "documents": [storable(rows[place].chunk.text) for place in places],
    }


def stored_rows(answer: Mapping[str, Any]) -> dict[str, StoredRow]:
    """What a `get` with embeddings, metadata and documents gave, by id."""
    vectors = np.asarray(answer["embeddings"], dtype=np.float32)
    kept = zip(answer["ids"], answer["metadatas"], answer["documents"], vectors, strict=True)
    return {chunk_id: stored_row(told, text, vector) for chunk_id, told, text, vector in kept}


@contextmanager
def translated(
    failure: str, advice: str = "", folder: Path | None = None, said: Callable[[BaseException], str] | None = None
) -> Iterator[None]:
    """Turn whatever Chroma raises into a StoreError; it raises a dozen types, also of its parts.

    Args:
        failure: What failed.
        advice: What to do, unless something is wrong with `folder`.
        folder: Where Chroma keeps its files.
        said: What an error says; its own text where nothing is given.
    """
    try:
        yield
    except KbError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and not _is_panic(error):
            raise
        advice = (trouble(folder, folder / _DATABASE) if folder is not None else None) or advice
        text = said(error) if said is not None else str(error) or type(error).__name__
        raise StoreError(f"{failure}: {text}. {advice}".rstrip()) from error


def _is_panic(error: BaseException) -> bool:
    # The class cannot be imported; pyo3 makes it for each extension module.
    return type(error).__name__ == "PanicException"


def close_client(client: Any) -> None:
    """Close a client of a folder or of a server."""
    client.close()
    close_sessions(client)


def close_sessions(client: Any) -> None:
    """Close the connections to a server, which Chroma leaves open, also of a client that could not be made."""
    for part in (client, getattr(client, "_admin_client", None)):
        session = getattr(getattr(part, "_server", None), "_session", None)
        if session is not None:
            session.close()
