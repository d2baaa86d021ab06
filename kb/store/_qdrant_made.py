"""What a Qdrant collection says of itself, and whether it is one of ours; needs no Qdrant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kb.errors import StoreError
from kb.payloads import storable
from kb.store._rows import check_fingerprint

if TYPE_CHECKING:
    from kb.components import StorePlace

_COSINE = "Cosine"

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
