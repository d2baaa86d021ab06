"""Every vector that was ever paid for, by embedder and text: the same text is never embedded twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from kb.errors import LedgerError
from kb.ledger.connection import LedgerConnection
from kb.ledger.schema import EVEN_SAMPLE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    FloatArray: TypeAlias = NDArray[np.float32]

_FORMAT = "<f4"
"""float32, little endian on every machine, so that the file can be moved."""


class Vectors(LedgerConnection):
    """The part of the ledger that keeps vectors; they belong to no generation."""

    def known_vectors(self, fingerprint: str, text_hashes: Sequence[str]) -> dict[str, FloatArray]:
        """The vectors of those texts that were embedded before, each of shape (dimension,)."""
        import numpy as np

        with self.snapshot():
            rows = self._rows_of(
                "SELECT text_hash, vector FROM vectors WHERE fingerprint = ? AND text_hash IN (?)",
                (fingerprint,),
                text_hashes,
            )
        return {text: np.frombuffer(vector, dtype=_FORMAT).astype(np.float32) for text, vector in rows}

    def script_samples(self, generation: int, fingerprint: str, limit: int) -> dict[str, FloatArray]:
        """Vectors of at most `limit` live chunks, by script, each of shape (n, dimension).

        An even sample, the same each time.
        """
        import numpy as np

        with self.snapshot():
            rows = self._rows(
                f"WITH sample AS ({EVEN_SAMPLE}) SELECT c.script, v.vector FROM sample "
                "JOIN chunks c ON c.generation = ? AND c.chunk_id = sample.chunk_id "
                "JOIN vectors v ON v.fingerprint = ? AND v.text_hash = c.text_hash",
                (generation, limit, generation, fingerprint),
            )
        found: dict[str, list[FloatArray]] = {}
        for script, vector in rows:
            found.setdefault(script, []).append(np.frombuffer(vector, dtype=_FORMAT).astype(np.float32))
        return {script: np.stack(vectors) for script, vectors in sorted(found.items())}

    def unknown_texts(self, fingerprint: str, text_hashes: Sequence[str], *, tokens: bool = False) -> list[str]:
        """Those hashes, each once and in their order, whose texts must still be embedded.

        With `tokens` also those that have a vector, and no token vectors.
        """
        kept = "vectors JOIN token_vectors USING (fingerprint, text_hash)" if tokens else "vectors"
        with self.snapshot():
            rows = self._rows_of(
                f"SELECT text_hash FROM {kept} WHERE fingerprint = ? AND text_hash IN (?)", (fingerprint,), text_hashes
            )
        known = {text for (text,) in rows}
        return [text for text in dict.fromkeys(text_hashes) if text not in known]

    def put_vectors(self, fingerprint: str, items: Iterable[tuple[str, FloatArray]]) -> None:
        """Keep (text hash, vector) pairs: all of them or, after an error, none.

        Raises:
            LedgerError: a vector is not finite; it must not be found again as if it were paid for.
        """
        import numpy as np

        rows = []
        for text, vector in items:
            if vector.ndim != 1 or not np.isfinite(vector).all():
                raise LedgerError(
                    f"the embedder {fingerprint} gave something that is no vector of finite numbers for the text "
                    f"with hash {text}. Nothing of this batch was kept; run again, or choose another embedder"
                )
            rows.append((fingerprint, text, vector.astype(_FORMAT).tobytes()))
        with self.transaction():
            self._connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)
