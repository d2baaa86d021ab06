"""Whether a collection of Chroma is the one that is configured; in a file of its own, which needs no Chroma."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kb.errors import StoreError
from kb.payloads import storable
from kb.store._chroma_options import CHANGEABLE, Options, index_options
from kb.store._rows import check_fingerprint, generation_of

if TYPE_CHECKING:
    from kb.components import StorePlace

_SPACE = "cosine"

_LIST_PAGE = 100
"""Collections of one listing."""


def new_collection(options: Options, place: StorePlace) -> dict[str, Any]:
    """What a collection is created with."""
    return {
        "configuration": {"hnsw": {"space": _SPACE, **index_options(options)}},
        "metadata": {
            "collection": storable(place.collection),
            "fingerprint": place.fingerprint,
            "dimension": place.dimension,
        },
        "embedding_function": None,
    }


def to_change(collection: Any, options: Options, place: StorePlace, what: str) -> dict[str, int | float]:
    """Compare what is stored with what is configured, for Chroma doesn't; gives index options to be changed there.

    Args:
        collection: Chroma's.
        options: What is configured.
        place: For which vectors.
        what: The collection, for messages.

    Raises:
        IndexMismatchError: it holds vectors of another embedder.
        StoreError: it was created with another distance or another shape of the index, or not by kb.
    """
    rebuild = f"build the collection anew (nothing is embedded twice): {place.rebuild_command}"
    known = collection.metadata or {}
    index = collection.configuration_json.get("hnsw") or {}
    if index.get("space") != _SPACE:
        raise StoreError(
            f"{what} measures distance by {index.get('space')!r}, not {_SPACE!r}, so its scores would be "
            f"wrong. Choose another collection name, or {rebuild}"
        )
    if "fingerprint" not in known or "dimension" not in known:
        raise StoreError(
            f"{what} was not made by kb: it does not say which embedder made its vectors. "
            f"Choose another collection name, or {rebuild}"
        )
    check_fingerprint(place, str(known["fingerprint"]), int(known["dimension"]))
    other = {option: value for option, value in index_options(options).items() if index.get(option) != value}
    for option in sorted(other.keys() - CHANGEABLE):
        raise StoreError(
            f"{what} was created with {option} = {index.get(option)}, but [store.chroma] says "
            f"{other[option]}. Put the first back, or {rebuild}"
        )
    return other


def generations_there(client: Any, slug: str) -> dict[int, str]:
    """The generations of a collection that a server holds, each with its embedder's fingerprint.

    Args:
        client: Chroma's.
        slug: The collection's.
    """
    found: dict[int, str] = {}
    offset = 0
    while True:
        page = client.list_collections(limit=_LIST_PAGE, offset=offset)
        for collection in page:
            number = generation_of(collection.name, slug)
            if number is not None and "fingerprint" in (known := collection.metadata or {}):
                found[number] = str(known["fingerprint"])
        offset += len(page)
        if len(page) < _LIST_PAGE:
            return found
