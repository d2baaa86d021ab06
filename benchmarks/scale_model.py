"""What 10⁵, 10⁶ and 10⁸ chunks take, by a model that fits what `store_scale` measured.

    python -m benchmarks.store_scale --chunks 10000 100000 300000 --out scale.jsonl
    python -m benchmarks.scale_model scale.jsonl

The model of each figure is a + b·n, n being the number of chunks; of an approximate search, which looks at
more links the more there are, a + b·log₂ n. It is fitted by least squares of the relative error. The
greatest relative error at a measured size is printed beside it: what a model of the size beyond is worth.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

SIZES = (100_000, 1_000_000, 100_000_000)
APPROXIMATE = ("chroma", "chroma, server", "faiss, hnsw", "qdrant, server")
"""Engines whose search follows links from neighbour to neighbour."""

Figures = Mapping[str, Callable[[Mapping[str, Any]], float]]
FIGURES: Figures = {
    "disk": lambda line: line["disk_bytes"],
    "memory": lambda line: line["held_bytes"] + line["mapped_bytes"],
    "adding": lambda line: line["add_seconds"],
    "a question": lambda line: line["warm_ms"]["top 50"] / 1000,
}
SECONDS = ("adding", "a question")


@dataclass(frozen=True)
class Model:
    """y = fixed + each · size(n)."""

    fixed: float
    each: float
    logarithmic: bool

    @classmethod
    def fitted(cls, chunks: Sequence[int], measured: Sequence[float], *, logarithmic: bool) -> Model:
        """Fit by least squares of (model − measured) / measured; neither number may be negative."""
        sizes = [cls.size(count, logarithmic=logarithmic) for count in chunks]
        weighted = np.array([(1 / y, size / y) for size, y in zip(sizes, measured, strict=True)])
        (fixed, each), *_ = np.linalg.lstsq(weighted, np.ones(len(measured)), rcond=None)
        if each < 0:
            return cls(float(np.mean(measured)), 0.0, logarithmic)
        if fixed < 0:
            column = weighted[:, 1]
            return cls(0.0, float(column.sum() / (column @ column)), logarithmic)
        return cls(float(fixed), float(each), logarithmic)

    @staticmethod
    def size(chunks: int, *, logarithmic: bool) -> float:
        """What the figure grows with."""
        return math.log2(chunks) if logarithmic else chunks

    def at(self, chunks: int) -> float:
        """The figure with so many chunks."""
        return self.fixed + self.each * self.size(chunks, logarithmic=self.logarithmic)


def shown(figure: str, value: float) -> str:
    """A figure with a unit that suits its size."""
    units = (
        ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"), (0.001, "ms"))
        if figure in SECONDS
        else ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"))
    )
    unit, name = next((pair for pair in units if value >= pair[0]), units[-1])
    number = value / unit
    return f"{number:,.0f} {name}" if number >= 10 else f"{number:.1f} {name}"


def main() -> int:
    """Fit and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="what store_scale --out has written")
    lines: dict[str, list[Any]] = defaultdict(list)
    for text in parser.parse_args().file.read_text().splitlines():
        lines[json.loads(text)["engine"]].append(json.loads(text))
    sizes = sorted({line["chunks"] for of_engine in lines.values() for line in of_engine})
    heads = ["store", "figure", *(f"{n:,}" for n in sizes), "off by"]
    heads += [f"model: {n:,}" for n in SIZES]
    print(f"| {' | '.join(heads)} |\n|---|---|" + "---:|" * (len(heads) - 2))
    for engine, of_engine in lines.items():
        for figure, value in FIGURES.items():
            measured = {line["chunks"]: value(line) for line in of_engine}
            if len(measured) < 2:
                continue
            logarithmic = figure == "a question" and engine in APPROXIMATE
            model = Model.fitted(list(measured), list(measured.values()), logarithmic=logarithmic)
            off = max(abs(model.at(count) - y) / y for count, y in measured.items())
            cells = [shown(figure, measured[n]) if n in measured else "" for n in sizes]
            cells += [f"{off:.0%}", *(shown(figure, model.at(count)) for count in SIZES)]
            print(f"| {engine} | {figure} | {' | '.join(cells)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
