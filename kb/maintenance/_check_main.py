"""The process that looks at a store, for `kb.maintenance.check`: it may crash or hang alone.

It reads one JSON object from stdin and writes one to stdout: `problems`, and how many chunks were `sampled`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kb.components import FloatArray, Store
    from kb.ledger.generations import Generation
    from kb.ledger.hashes import HashedChunk
    from kb.ledger.ledger import Ledger
    from kb.opening import CollectionStore

SAMPLE = 200
"""Chunks that are looked at closely; a fault of one row in fifty is then missed one time in fifty."""

_PLACES = 50
"""So many of them are looked for by their source and page, which takes a search each: 15 to 140 ms in Chroma."""

_SAME_VECTOR = 0.999
"""The least cosine of a vector with itself: a store may keep it in another form."""
_NEIGHBOURS = 50
_MOST_MISSED = 0.05
"""An approximate index may miss some of them; none searched for by its own vector, or nearly."""
_NAMED = 3


def main() -> None:
    """Answer one request."""
    asked = json.load(sys.stdin)
    sys.path[:] = asked["path"]
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)  # whatever a library prints is no part of the answer
        json.dump(_asked_for(asked), answers)


def _asked_for(asked: dict[str, Any]) -> dict[str, Any]:
    from kb.opening import CollectionStore
    from kb.settings import load_settings

    return look(CollectionStore(*load_settings(asked["config"], **asked["overrides"])))


def look(store: CollectionStore) -> dict[str, Any]:
    """Compare what the store holds with the ledger: `problems`, and how many chunks were `sampled`."""
    from kb.errors import KbError
    from kb.ledger.ledger import Ledger

    with Ledger(store.folder, read_only=True) as ledger:
        generation = ledger.current_generation()
        assert generation is not None, "whoever asks has looked"
        live = ledger.live_chunks(generation.number, ledger.sample_ids(generation.number, SAMPLE))
        sample = [live[chunk_id] for chunk_id in sorted(live)]
        try:
            held = store.held(ledger, generation)
            with closing(store.open(held, ledger.generation_folder(held), ledger.root())) as opened:
                problems = list(_compare(ledger, generation, opened, sample))
        except KbError as error:
            problems = [str(error)]
    return {"problems": problems, "sampled": len(sample)}


def _compare(ledger: Ledger, generation: Generation, store: Store, sample: Sequence[HashedChunk]) -> Iterator[str]:
    held, live = list(store.chunk_ids()), ledger.live_ids(generation.number)
    if len(held) != store.count():
        yield f"the store counts {store.count():,} rows and lists {len(held):,}"
    if lost := sorted(live - set(held)):
        yield f"the store lacks {some(lost)} of {len(live):,} chunks"
    if extra := sorted(set(held) - live):
        yield f"the store holds {some(extra)} that are in no document"
    known = ledger.known_vectors(generation.fingerprint, [one.text_hash for one in sample])
    present = set(held)
    there = [one for one in sample if one.chunk.id in present and one.text_hash in known]
    if not there:
        return
    stored = store.vectors([one.chunk.id for one in there])
    others = [i.chunk.id for i in there if not _same(known[i.text_hash], stored.get(i.chunk.id))]
    if others:
        yield f"the store holds other vectors than the ledger for {some(others)} of {len(there):,} chunks"
    yield from searched(store, there, known)


def searched(store: Store, there: Sequence[HashedChunk], known: Mapping[str, FloatArray]) -> Iterator[str]:
    """What is wrong with the hits when chunks are searched for by their vectors, and by their places."""
    import numpy as np

    found = store.search(np.stack([known[one.text_hash] for one in there]), _NEIGHBOURS)
    # Of many chunks with one text only some can be among the first: then all of those are as near.
    missed = [
        one.chunk.id
        for one, hits in zip(there, found, strict=True)
        if one.chunk.id not in dict(hits) and not (len(hits) == _NEIGHBOURS and hits[-1][1] >= _SAME_VECTOR)
    ]
    if len(missed) > _MOST_MISSED * len(there):
        yield f"a search for its own vector does not find {some(missed)} of {len(there):,} chunks"
    placed = there[:_PLACES]
    misplaced = [one.chunk.id for one in placed if not _at_its_place(store, one, known[one.text_hash])]
    if misplaced:
        yield f"the store names another source or page than the ledger for {some(misplaced)} of {len(placed):,} chunks"


def _at_its_place(store: Store, one: HashedChunk, vector: FloatArray) -> bool:
    """Whether the row of a chunk names its document, source and page."""
    where: dict[str, str | int] = {"document_id": one.chunk.document_id, "source": one.source}
    if one.chunk.page is not None:
        where["page"] = one.chunk.page
    (hits,) = store.search(vector[None, :], _NEIGHBOURS, where)
    full = len(hits) == _NEIGHBOURS and hits[-1][1] >= _SAME_VECTOR
    return one.chunk.id in dict(hits) or full


def _same(known: FloatArray, stored: FloatArray | None) -> bool:
    import numpy as np

    if stored is None or stored.shape != known.shape or not np.isfinite(stored).all():
        return False
    lengths = float(np.linalg.norm(known) * np.linalg.norm(stored))
    return lengths > 0 and float(known @ stored) / lengths >= _SAME_VECTOR


def some(ids: Sequence[str]) -> str:
    """How many they are, and the first of them."""
    more = ", …" if len(ids) > _NAMED else ""
    return f"{len(ids):,} ({', '.join(ids[:_NAMED])}{more})"


if __name__ == "__main__":
    main()
