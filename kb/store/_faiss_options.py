"""The options of the FAISS store; in a file of their own, which needs no FAISS."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field

from kb.settings import ComponentOptions


class Options(ComponentOptions):
    """Which index, and how it is built and searched."""

    index: Literal["flat", "hnsw", "ivf"] = "flat"
    """`flat` compares all rows and is exact; `hnsw` follows a graph of neighbours; `ivf` looks into some lists."""
    fold_rows: int = Field(4_096, ge=1)
    """Rows that are kept beside the index, and compared exactly, before they are put into it.

    4,096 rows of 384 dimensions are 6 MB, compared in about a millisecond.
    """
    max_neighbors: int = Field(32, ge=2, le=1_024)
    """`hnsw`: links of a row (M); FAISS's own default."""
    ef_construction: int = Field(40, ge=1)
    """`hnsw`: neighbours looked at when a row is added; FAISS's own default."""
    ef_search: int = Field(100, ge=1)
    """`hnsw`: neighbours looked at in a search."""
    lists: int = Field(0, ge=0)
    """`ivf`: into so many lists the rows are divided; 0: four times the root of their number."""
    probes: int = Field(16, ge=1)
    """`ivf`: lists looked into in a search."""


TRAINING_ROWS = 39
"""Rows that k-means wants for each list; with fewer FAISS warns of a poor division (`min_points_per_centroid`)."""

_LISTS_BY_ROOT = 4
"""Lists for the root of the number of rows: FAISS's guidelines to choose an index say 4 to 16."""


def lists_for(options: Options, rows: int) -> int:
    """Into how many lists `rows` rows are divided; 0 while they are too few to find lists by."""
    most = rows // TRAINING_ROWS
    if options.lists:
        return options.lists if most >= options.lists else 0
    return min(_LISTS_BY_ROOT * math.isqrt(rows), most)


def shape(options: Options) -> str:
    """What shapes the index, for the book: an index that was built with other values is not what is configured."""
    match options.index:
        case "flat":
            return "index = flat"
        case "hnsw":
            return f"index = hnsw, max_neighbors = {options.max_neighbors}, ef_construction = {options.ef_construction}"
        case "ivf":
            return f"index = ivf, lists = {options.lists}"
