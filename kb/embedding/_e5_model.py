"""Runs the graph of multilingual-e5-small: token ids → one vector, and one of each token when they are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnxruntime

from kb.embedding._e5_tokens import unit
from kb.embedding._e5_weights import E5Weights, unpack

if TYPE_CHECKING:
    from numpy.typing import NDArray

ERRORS_ONLY = 3


class E5Model:
    """A loaded graph with its word embeddings. Threads may use it at the same time."""

    def __init__(self, weights: E5Weights, graph: bytes) -> None:
        """Load `graph`; raises onnxruntime's errors when it is none."""
        self.begin_id = weights.begin_id
        self.end_id = weights.end_id
        self._words = weights.blocks("emb.word", weights.hidden)
        positions = weights.vector("emb.pos").reshape(-1, weights.hidden)
        self._places = positions + weights.vector("emb.type")[: weights.hidden]
        self._session = onnxruntime.InferenceSession(graph, _session_options(), providers=["CPUExecutionProvider"])

    def mean_state(self, content: list[int]) -> NDArray[np.float32]:
        """The mean of the token states of one text, of unit length; `content` is without special tokens.

        One text a pass: 8-bit activations are scaled over all that is in a pass, so that neighbours
        or padding would change a text's vector.
        """
        (vectors,) = self._session.run(["embedding"], self._inputs(content))
        vector: NDArray[np.float32] = vectors[0]
        return vector

    def mean_and_states(self, content: list[int]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The same vector, bit for bit, and from the same pass the unit state of each of `content`: (tokens, 384)."""
        vectors, states = self._session.run(["embedding", "states"], self._inputs(content))
        return vectors[0], unit(states[0, 1:-1])

    def _inputs(self, content: list[int]) -> dict[str, NDArray[np.float32]]:
        ids = [self.begin_id, *content, self.end_id]
        embedded = unpack(self._words[ids]) + self._places[: len(ids)]
        return {"embedded": embedded[np.newaxis]}


def _session_options() -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    # One thread a text, several texts at once: nothing to synchronise, and no way to differ.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    # The graph is written as it is to be run; automatic fusions made it slower here
    # (SkipLayerNormalization takes four times as long as its two parts) and depend on the version.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    # Patterns are kept for each length of text, and nearly each text has its own.
    options.enable_mem_pattern = False
    options.log_severity_level = ERRORS_ONLY
    return options
