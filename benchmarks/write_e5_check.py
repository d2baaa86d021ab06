"""Write the vectors that e5's graph is checked against: `python benchmarks/write_e5_check.py`.

Only needed when the texts of `kb/embedding/_e5_check.py` change.
"""

from __future__ import annotations

import numpy as np

from kb.embedding._e5_check import TEXTS, VECTORS_FILE
from kb.embedding._e5_graph import graph_bytes
from kb.embedding._e5_model import E5Model
from kb.embedding._e5_tokenizer import E5Tokenizer, PieceTable
from kb.embedding._e5_weights import E5Weights
from kb.embedding._manifest import find_weights


def main() -> None:
    """Embed the texts in float32 and write the file."""
    weights = E5Weights(find_weights())
    tokenizer = E5Tokenizer(weights, PieceTable.of(weights))
    model = E5Model(weights, graph_bytes(weights, "float32"))
    vectors = np.array([model.mean_state(tokenizer.ids(text)) for text in TEXTS])
    np.save(VECTORS_FILE, vectors.astype(np.float16))
    print(f"{VECTORS_FILE}: {len(TEXTS)} vectors")


if __name__ == "__main__":
    main()
