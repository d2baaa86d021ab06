"""What every store does alike: check what it is given, and say what it found on one scale."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from kb.components import Parts, StorePlace, StoreRow
from kb.errors import ConfigError, IndexMismatchError, StoreError
from kb.payloads import storable

if TYPE_CHECKING:
    from kb.components import FloatArray
    from kb.records import Scalar

_FILTERS: Mapping[str, type] = {"source": str, "document_id": str, "page": int}
"""What `where` may name, with the type of its values."""

_DIGITS = 6
"""Digits of a similarity. A float32 product is off by about 1e-7, so further digits are noise: they
would order equal texts by chance, and give identical ones 0.9999999."""


def place_of(name: str, parts: Parts) -> StorePlace:
    """The place that a store is lent.

    Raises:
        ConfigError: it was lent none.
    """
    if parts.place is None:
        raise ConfigError(f"[store] use = {name!r} needs a place to keep its data: build it with Parts(place=…)")
    return parts.place


def check_fingerprint(place: StorePlace, fingerprint: str, dimension: int) -> None:
    """Compare what a store holds with what is configured.

    Raises:
        IndexMismatchError: they differ.
    """
    if fingerprint != place.fingerprint:
        raise IndexMismatchError(fingerprint, place.fingerprint, place.rebuild_command)
    if dimension != place.dimension:
        raise IndexMismatchError(
            stored=f"{fingerprint} ({dimension} dimensions)",
            configured=f"{place.fingerprint} ({place.dimension} dimensions)",
            mend=place.rebuild_command,
        )


def generation_of(name: str, slug: str) -> int | None:
    """Which generation of a collection a server's one of this name is (`<slug>-g<number>`); None for another's."""
    found = re.fullmatch(f"{re.escape(slug)}-g([1-9][0-9]{{0,8}})", name)
    return int(found[1]) if found else None


def last_of_each(rows: Sequence[StoreRow]) -> list[StoreRow]:
    """Rows with every chunk id once; of equal ids the last counts."""
    return list({row.chunk.id: row for row in rows}.values())


def row_matrix(rows: Sequence[StoreRow], place: StorePlace) -> FloatArray:
    """The rows' vectors, checked; shape (n, dimension).

    Raises:
        StoreError: a vector has another dimension, or is not finite.
    """
    matrix = np.empty((len(rows), place.dimension), dtype=np.float32)
    for index, row in enumerate(rows):
        if row.vector.shape != (place.dimension,):
            raise _no_vector(row, place)
        matrix[index] = row.vector
    finite = np.isfinite(matrix).all(axis=1)
    if not finite.all():
        raise _no_vector(rows[int(np.argmin(finite))], place)
    return matrix


def _no_vector(row: StoreRow, place: StorePlace) -> StoreError:
    return StoreError(
        f"chunk {row.chunk.id} of {row.source}: its vector is not {place.dimension} finite numbers "
        f"(shape {row.vector.shape}); nothing of this batch was stored"
    )


def query_matrix(vectors: FloatArray, place: StorePlace) -> FloatArray:
    """The questions' vectors, checked; shape (m, dimension).

    Raises:
        StoreError: another shape, or a number is not finite.
    """
    matrix = np.ascontiguousarray(vectors, dtype=np.float32)
    if matrix.ndim != 2 or matrix.shape[1] != place.dimension or not np.isfinite(matrix).all():
        raise StoreError(
            f"cannot search collection {place.collection!r} with vectors of shape {matrix.shape}: they have to be "
            f"finite numbers of shape (m, {place.dimension})"
        )
    return matrix


def filters(where: Mapping[str, Scalar] | None) -> dict[str, str | int]:
    """The conditions of `where`, as payloads keep their values.

    Raises:
        StoreError: one names something that cannot be filtered by, or has a value of another type.
    """
    conditions: dict[str, str | int] = {}
    for key, value in (where or {}).items():
        kind = _FILTERS.get(key)
        if kind is None:
            raise StoreError(f"cannot filter by {key!r}; allowed: {', '.join(_FILTERS)}")
        if isinstance(value, bool) or not isinstance(value, kind):
            raise StoreError(f"cannot filter by {key} = {value!r}: it has to be a value of type {kind.__name__}")
        conditions[key] = storable(value) if isinstance(value, str) else int(value)
    return conditions


def nearest(ids: Sequence[str], matrix: FloatArray, vector: FloatArray, limit: int) -> list[tuple[str, float]]:
    """The exact `limit` nearest rows of `matrix` by cosine; `ids` rise, so that equal ones are ordered by id.

    Args:
        ids: n ids, rising.
        matrix: Shape (n, dimension).
        vector: Shape (dimension,).
        limit: At most so many.
    """
    lengths = np.linalg.norm(matrix, axis=1) * np.linalg.norm(vector)
    # A vector of zeros points nowhere: nothing is similar to it.
    cosines = np.divide(matrix @ vector, lengths, out=np.zeros(len(ids), dtype=np.float32), where=lengths > 0)
    similarities = as_similarity(1.0 - cosines.astype(np.float64))
    order = np.argsort(-similarities, kind="stable")[:limit]
    return [(ids[index], float(similarities[index])) for index in order]


def as_similarity(distances: np.ndarray) -> np.ndarray:
    """Similarities of cosine distances: 1 − distance, rounded, within [−1, 1]."""
    return np.clip(np.round(1.0 - distances, _DIGITS), -1.0, 1.0)
