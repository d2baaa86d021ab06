"""How fast text is cut, beside other splitters: `python -m benchmarks.chunking_speed`.

All cut the same documents, in turn, to the same size by the same tokenizer (e5's). The peers get it
as a function that counts, the form in which each of them is fastest; `recursive` reads the headings
and blocks of the Markdown in the time that is measured. What the chunks hold is checked: none may be
larger than the size, and no character lost. At last, ten times the text has to take no more than
eleven times as long.

The peers (`benchmarks/requirements-peers.txt`) want an environment of their own: `--peers PYTHON`
runs all in that one, which needs kb's packages too. Without it, those that are not installed are named
and left out.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.made_markdown import as_document, made_markdown
from kb.components import Chunker, Parts, build_component
from kb.embedding._e5_tokenizer import E5Tokenizer, PieceTable
from kb.embedding._e5_weights import E5Weights
from kb.embedding._manifest import find_weights

ROOT = Path(__file__).resolve().parents[1]
SIZE_TOKENS = 400
OURS = "kb recursive"
DOCUMENT_BYTES = (5_000, 20_000, 80_000, 300_000, 600_000)
"""From a page or two to a book; each size has as many bytes of the whole as the others."""
GROWTH, MOST_GROWTH = 10, 11
GROWTH_BYTES = 300_000
GROWTH_ROUNDS = 5

Split: TypeAlias = Callable[[str], Sequence[str]]
Count: TypeAlias = Callable[[str], int]


@dataclass(slots=True)
class Result:
    """One splitter, over all documents."""

    splitter: str
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    chunks: int = 0
    tokens: int = 0
    over_size: int = 0
    lost_characters: int = 0
    """Other than white space."""

    def line(self, size: int) -> str:
        """A row of the table."""
        speed, cpu_speed = size / 1e6 / self.seconds, size / 1e6 / self.cpu_seconds
        return (
            f"{self.splitter:<12} {speed:6.2f} {cpu_speed:8.2f} {self.chunks:8,} {self.tokens / self.chunks:12.0f} "
            f"{self.over_size:10,} {self.lost_characters:10,}"
        )


def chonkie(count: Count) -> Split:
    module: Any = importlib.import_module("chonkie")
    splitter = module.RecursiveChunker(tokenizer=count, chunk_size=SIZE_TOKENS)
    return lambda text: [chunk.text for chunk in splitter.chunk(text)]


def langchain(count: Count) -> Split:
    module: Any = importlib.import_module("langchain_text_splitters")
    split: Split = module.RecursiveCharacterTextSplitter.from_language(
        module.Language.MARKDOWN, chunk_size=SIZE_TOKENS, chunk_overlap=0, length_function=count
    ).split_text
    return split


def semchunk(count: Count) -> Split:
    module: Any = importlib.import_module("semchunk")
    split: Split = module.chunkerify(count, SIZE_TOKENS)
    return split


PEERS = (chonkie, langchain, semchunk)


def ours() -> tuple[Chunker, Count]:
    """The chunker with its default options but for the size, and the count that it goes by."""
    embedder = build_component("embedding", "e5", {}, Parts())
    parts = Parts(embedder=embedder, count_tokens=embedder.count_tokens)
    chunker: Chunker = build_component("chunking", "recursive", {"size_tokens": SIZE_TOKENS}, parts)
    return chunker, embedder.count_tokens


def plain_count() -> Count:
    """The tokenizer as a peer's user would have it: an object of the package `tokenizers`."""
    weights = E5Weights(find_weights())
    tokenizer = E5Tokenizer(weights, PieceTable.of(weights))._load_fast()
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False))


def documents(size: int) -> Iterator[str]:
    """About `size` bytes, the sizes mixed."""
    number, left = 0, dict.fromkeys(DOCUMENT_BYTES, size // len(DOCUMENT_BYTES))
    while any(left.values()):
        for most in DOCUMENT_BYTES:
            if length := min(left[most], most):
                yield made_markdown(length, number)
                left[most] -= length
                number += 1


def compare(texts: Sequence[str], splitters: dict[str, tuple[Split, Count]]) -> list[Result]:
    """Cut each text by all in turn, each time another one first."""
    results = {name: Result(name) for name in splitters}
    for number, text in enumerate(texts):
        names = list(splitters)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            split, count = splitters[name]
            started, cpu_started = time.perf_counter(), time.process_time()
            chunks = split(text)
            results[name].seconds += time.perf_counter() - started
            results[name].cpu_seconds += time.process_time() - cpu_started
            check(results[name], text, chunks, count)
    return list(results.values())


def check(result: Result, text: str, chunks: Sequence[str], count: Count) -> None:
    """Add what the chunks of one text hold."""
    tokens = [count(chunk.strip()) for chunk in chunks]
    result.chunks += len(chunks)
    result.tokens += sum(tokens)
    result.over_size += sum(number > SIZE_TOKENS for number in tokens)
    missing = Counter(text) - Counter("".join(chunks))
    result.lost_characters += sum(number for character, number in missing.items() if not character.isspace())


def growth(split: Split) -> float:
    """How much longer a text takes than the mean of the `GROWTH` parts that it is made of.

    Parts and whole are cut in turn, as a machine's speed changes from one second to the next.
    """
    parts = [made_markdown(GROWTH_BYTES, seed) for seed in range(GROWTH)]
    seconds: dict[bool, float] = {}
    for _ in range(GROWTH_ROUNDS):
        for whole in (False, True):
            started = time.process_time()
            for text in ["\n".join(parts)] if whole else parts:
                split(text)
            seconds[whole] = seconds.get(whole, 0.0) + time.process_time() - started
    return GROWTH * seconds[True] / seconds[False]


def faults(results: Sequence[Result], longer: float) -> Iterator[str]:
    """What must not be."""
    mine, *others = results
    for other in others:
        if other.seconds < mine.seconds:
            yield f"{other.splitter} is faster"
    if mine.over_size or mine.lost_characters:
        yield f"{mine.over_size} chunks over the size, {mine.lost_characters} characters lost"
    if longer > MOST_GROWTH:
        yield f"{GROWTH} times the text takes {longer:.1f} times as long"


def run(size: int, as_json: bool) -> None:
    """Measure and print; ends with 1 when something must not be."""
    chunker, count = ours()
    raw = plain_count()

    def recursive(text: str) -> list[str]:
        return [chunk.text for chunk in chunker.chunk(as_document(text))]

    splitters: dict[str, tuple[Split, Count]] = {OURS: (recursive, count)}
    for peer in PEERS:
        try:
            splitters[peer.__name__] = peer(raw), raw
        except ModuleNotFoundError as error:
            print(f"not measured: {peer.__name__} ({error}); see --peers", file=sys.stderr)
    warm_up = made_markdown(50_000, 0)
    for split, _ in splitters.values():
        split(warm_up)
    texts = list(documents(size))
    size = sum(len(text.encode()) for text in texts)
    results = compare(texts, splitters)
    longer = growth(recursive)
    if as_json:
        print(json.dumps({"bytes": size, "growth": round(longer, 2), "results": list(map(asdict, results))}))
    else:
        print(f"{size / 1e6:.1f} MB in {len(texts)} documents, {SIZE_TOKENS} tokens")
        print(f"{'':<12} {'MB/s':>6} {'MB/s CPU':>8} {'chunks':>8} {'mean tokens':>12} {'over size':>10} {'lost':>10}")
        print("\n".join(result.line(size) for result in results))
        print(f"{OURS}: {GROWTH} times the text takes {longer:.1f} times as long")
    if found := list(faults(results, longer)):
        raise SystemExit("; ".join(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, metavar="PYTHON", help="the Python of an environment with the peers")
    parser.add_argument("--megabytes", type=float, default=20, help="of text; %(default)s")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if options.peers is None:
        run(int(options.megabytes * 1e6), options.json)
        return
    arguments = ["--megabytes", str(options.megabytes), *(["--json"] if options.json else [])]
    # Not resolved: a virtual environment's Python is a link.
    python = options.peers.absolute()
    done = subprocess.run([python, "-m", "benchmarks.chunking_speed", *arguments], cwd=ROOT, check=False)
    raise SystemExit(done.returncode)


if __name__ == "__main__":
    main()
