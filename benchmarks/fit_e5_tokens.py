"""Fit what is kept of e5's token states: `python -m benchmarks.fit_e5_tokens FOLDER... --output FILE`.

Each folder holds the plain text files of one language, as for `benchmarks/fit_e5_mean.py`: neutral
text, no test set. Written is a float32 array (2, 384): of each number of a token state of unit length
the mean and the standard deviation, each language with the same weight.

The stored one was fitted on 20 passages in each of 17 languages (cs de el en es fr hu it ja ko nl pl
pt ru sv uk zh), 57,000 tokens: GNOME's help in all of them, and the Debian Reference in those that it
is written in (de en fr ja zh).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from benchmarks.fit_e5_mean import sample
from kb.embedding._e5_graph import graph_bytes
from kb.embedding._e5_model import E5Model
from kb.embedding._e5_tokenizer import E5Tokenizer, PieceTable
from kb.embedding._e5_tokens import TOKENS_FILE
from kb.embedding._e5_weights import E5Weights
from kb.embedding._manifest import find_weights
from kb.embedding.e5 import MAX_TOKENS, PASSAGE_PREFIX, PASSAGE_PREFIX_TOKENS, SPECIAL_TOKENS


def main() -> None:
    """Compute the states of the samples and write mean and directions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, help="one folder of text files for each language")
    parser.add_argument("--passages", type=int, default=20, help="for each language (%(default)s)")
    parser.add_argument("--output", type=Path, default=TOKENS_FILE, help="%(default)s")
    arguments = parser.parse_args()

    weights = E5Weights(find_weights())
    tokenizer = E5Tokenizer(weights, PieceTable.of(weights))
    model = E5Model(weights, graph_bytes(weights, "int8"))
    languages = []
    for folder in arguments.folders:
        texts = sample(folder, arguments.passages)
        ids = [tokenizer.ids(PASSAGE_PREFIX + text)[: MAX_TOKENS - SPECIAL_TOKENS] for text in texts]
        states = [model.mean_and_states(content)[1][PASSAGE_PREFIX_TOKENS:] for content in ids]
        languages.append(np.concatenate(states))
        print(f"{folder.name}: {len(texts)} passages, {len(languages[-1]):,} tokens", flush=True)
    mean = np.mean([states.mean(axis=0, dtype=np.float64) for states in languages], axis=0)
    variance = np.mean([np.square(states - mean).mean(axis=0) for states in languages], axis=0)
    np.save(arguments.output, np.array([mean, np.sqrt(variance)], np.float32))
    print(f"written to {arguments.output}: mean of length {np.linalg.norm(mean):.3f}, variance {variance.sum():.3f}")


if __name__ == "__main__":
    main()
