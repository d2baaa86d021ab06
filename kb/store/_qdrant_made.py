"""What a Qdrant collection says of itself, and whether it is one of ours; needs no Qdrant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kb.errors import StoreError
from kb.payloads import storable
from kb.store._rows import check_fingerprint, generation_of

if TYPE_CHECKING:
    from kb.components import StorePlace

_COSINE = "Cosine"

_INDEXED = {"source": "keyword", "document_id": "keyword", "page": "integer"}
"""What questions can be narrowed by. With these, a server walks its index past what a filter leaves out, and
compares one by one where few are left."""

_LEAST_VERSION = "1.16"
"""The first server that keeps what a collection says of itself."""


def told_with_it(place: StorePlace) -> dict[str, str | int]:
    """What is kept with a collection, as its metadata."""
    return {
        "collection": storable(place.collection),
        "fingerprint": place.fingerprint,
        "dimension": place.dimension,
    }


def check_made_by_kb(info: Any, place: StorePlace, what: str) -> None:
    """Compare what is stored with what is configured.

    Args:
        info: What Qdrant says of the collection.
        place: What is configured.
        what: The collection, for messages.

    Raises:
        StoreError: kb did not make it, or it has another distance.
        IndexMismatchError: it holds vectors of another embedder.
    """
    rebuild = f"build the collection anew (nothing is embedded twice): {place.rebuild_command}"
    known = info.config.metadata or {}
    distance = getattr(info.config.params.vectors, "distance", None)  # one with several vectors a point has a dict
    if distance is not None and distance.value != _COSINE:
        raise StoreError(
            f"{what} measures distance by {distance.value!r}, not {_COSINE!r}, so its scores would be wrong. "
            f"Choose another collection name, or {rebuild}"
        )
    if distance is None or not {"fingerprint", "dimension"} <= known.keys():
        raise StoreError(
            f"{what} was not made by kb: it does not say which embedder made its vectors. "
            f"Choose another collection name, or {rebuild}"
        )
    check_fingerprint(place, str(known["fingerprint"]), int(known["dimension"]))


def too_old(url: str) -> StoreError:
    """The error for a server that took what a collection says of itself, and forgot it."""
    return StoreError(
        f"the Qdrant server at {url} is older than {_LEAST_VERSION}: it does not keep which embedder made a "
        "collection's vectors. Run a newer one, or choose another store"
    )


def generations_there(client: Any, slug: str) -> dict[int, str]:
    """The generations of a collection that a server holds, each with its embedder's fingerprint.

    Args:
        client: Qdrant's.
        slug: The collection's.
    """
    found: dict[int, str] = {}
    for name in [one.name for one in client.get_collections().collections]:
        number = generation_of(name, slug)
        if number is None:
            continue
        known = client.get_collection(name).config.metadata or {}
        if "fingerprint" in known:
            found[number] = str(known["fingerprint"])
    return found


def complete(client: Any, name: str, info: Any, index: Any) -> None:
    """Give a server's collection what it lacks, as one made by a process that died, and the options of its index.

    Args:
        client: Qdrant's.
        name: The collection's.
        info: What Qdrant says of it.
        index: What is configured.
    """
    for field, kind in _INDEXED.items():
        if field not in info.payload_schema:
            client.create_payload_index(name, field, field_schema=kind, wait=True)
    there = info.config.hnsw_config
    if (there.m, there.ef_construct) != (index.m, index.ef_construct):
        client.update_collection(name, hnsw_config=index)
