"""Fit what the e5 embedder subtracts: `python benchmarks/fit_e5_mean.py FOLDER... --output FILE`.

Each folder holds the plain text files (`*.txt`, UTF-8) of one language; every language has the same
weight, and within it every file: one file for each kind of text is best. The texts should be
neutral: manuals, guides, stories, no test set. Passages are runs of paragraphs of up to 800
characters, embedded as passages, raw.

Written is an array (13, 384): first the mean of the languages' means, then the twelve directions in
which languages differ most (the first right singular vectors of their means' differences).

The stored one was fitted on 60 passages in each of 18 languages (ar cs de en es fr hu id it ja ko
nl pl pt ru uk vi zh): manual pages and guides of Debian, GNOME's help, the stories of a game, and
articles on how cultures see the sky.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from kb.embedding._e5_graph import graph_bytes
from kb.embedding._e5_model import E5Model
from kb.embedding._e5_tokenizer import E5Tokenizer, PieceTable
from kb.embedding._e5_weights import E5Weights
from kb.embedding._manifest import find_weights
from kb.embedding.e5 import LANGUAGES_FILE, MAX_TOKENS, PASSAGE_PREFIX, SPECIAL_TOKENS

PASSAGE_CHARACTERS = 800
"""About what a chunk of 200 to 400 tokens holds."""
LEAST_PASSAGE_CHARACTERS = 60
MOST_SYMBOLS = 0.35
"""Passages with a larger share of characters that are no letters are tables or code."""
SEED = 7
DIRECTIONS = 12
"""From 10 to 14 nothing changes; all 17 of 18 languages cost Chinese .4 points of nDCG@10: the last are noise."""


def passages(text: str, characters: int) -> Iterator[str]:
    """Join paragraphs to passages of at most `characters`."""
    passage = ""
    for paragraph in (" ".join(part.split()) for part in re.split(r"\n\s*\n", text)):
        if passage and len(passage) + len(paragraph) > characters:
            yield passage
            passage = ""
        passage = f"{passage}\n{paragraph}".strip()[:characters]
    if passage:
        yield passage


def is_prose(passage: str) -> bool:
    """Leave out headings, tables and code."""
    symbols = sum(not (c.isalpha() or c.isspace()) for c in passage)
    return len(passage) >= LEAST_PASSAGE_CHARACTERS and symbols / len(passage) < MOST_SYMBOLS


def sample(folder: Path, count: int) -> list[str]:
    """Draw `count` different passages from the files of `folder`, evenly, in a fixed order."""
    chance = random.Random(SEED)
    piles = []
    for file in sorted(folder.rglob("*.txt")):
        # A third of the size in writing where each character says three times as much.
        text = file.read_text("utf-8", errors="ignore")
        dense = sum(ord(c) > 0x2E80 for c in text) > len(text) / 4
        pile = [p for p in passages(text, PASSAGE_CHARACTERS // (3 if dense else 1)) if is_prose(p)]
        chance.shuffle(pile)
        piles.append(pile)
    drawn: dict[str, None] = {}
    while len(drawn) < count and any(piles):
        for pile in piles:
            if pile and len(drawn) < count:
                drawn[pile.pop()] = None
    return list(drawn)


def main() -> None:
    """Embed the samples and write mean and directions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, help="one folder of text files for each language")
    parser.add_argument("--passages", type=int, default=60, help="for each language (%(default)s)")
    parser.add_argument("--output", type=Path, default=LANGUAGES_FILE, help="%(default)s")
    arguments = parser.parse_args()

    weights = E5Weights(find_weights())
    tokenizer = E5Tokenizer(weights, PieceTable.of(weights))
    model = E5Model(weights, graph_bytes(weights, "int8"))
    means = []
    for folder in arguments.folders:
        texts = sample(folder, arguments.passages)
        ids = [tokenizer.ids(PASSAGE_PREFIX + text)[: MAX_TOKENS - SPECIAL_TOKENS] for text in texts]
        vectors = np.array([model.mean_state(content) for content in ids])
        means.append(vectors.mean(axis=0))
        print(f"{folder.name}: {len(texts)} passages, length of their mean {np.linalg.norm(means[-1]):.3f}", flush=True)
    mean = np.mean(means, axis=0)
    sizes, directions = np.linalg.svd(np.array(means) - mean, full_matrices=False)[1:]
    fitted = np.vstack([mean, directions[:DIRECTIONS]]).astype(np.float32)
    np.save(arguments.output, fitted)
    print(f"mean of length {np.linalg.norm(mean):.3f}; sizes of the directions {sizes.round(3).tolist()}")
    print(f"{fitted.shape} written to {arguments.output}")


if __name__ == "__main__":
    main()
