"""The model that says what larger collections take: it finds what made the numbers, and says how far it is off."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.scale_model import Model, shown

SIZES = (10_000, 100_000, 300_000)


@pytest.mark.parametrize(("fixed", "each"), [(5e6, 1_700.0), (0.0, 3.0), (2e5, 0.0)])
def test_a_straight_line_is_found_again(fixed: float, each: float) -> None:
    model = Model.fitted(SIZES, [fixed + each * n for n in SIZES], logarithmic=False)
    assert model.at(1_000_000) == pytest.approx(fixed + each * 1_000_000, rel=1e-6)


def test_what_grows_with_the_logarithm_is_found_again() -> None:
    model = Model.fitted(SIZES, [0.001 + 0.0002 * math.log2(n) for n in SIZES], logarithmic=True)
    assert model.at(10**8) == pytest.approx(0.001 + 0.0002 * math.log2(10**8), rel=1e-6)


def test_nothing_becomes_less_with_more_chunks() -> None:
    assert Model.fitted(SIZES, [3.0, 2.0, 1.0], logarithmic=False).at(10**8) == pytest.approx(2.0)
    below_nothing = Model.fitted(SIZES, [n - 5_000.0 for n in SIZES], logarithmic=False)
    assert (below_nothing.fixed, below_nothing.at(0)) == (0.0, 0.0)


def test_figures_have_units_that_suit_them() -> None:
    assert shown("adding", 0.0042) == "4.2 ms"
    assert shown("adding", 7_200) == "2.0 h"
    assert shown("disk", 3.4e11) == "340 GB"


def test_the_command_prints_measured_figures_beside_the_model(tmp_path: Path) -> None:
    lines = [
        {
            "engine": "faiss, flat",
            "chunks": n,
            "disk_bytes": 2_000 * n,
            "held_bytes": 10 * n,
            "mapped_bytes": 1_536 * n,
            "add_seconds": n / 20_000,
            "warm_ms": {"top 50": n / 10_000},
        }
        for n in SIZES
    ]
    file = tmp_path / "scale.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    command = [sys.executable, "-m", "benchmarks.scale_model", str(file)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]).stdout
    row = next(row for row in printed.splitlines() if row.startswith("| faiss, flat | disk"))
    assert [cell.strip() for cell in row.split("|")[3:-1]] == [
        "20 MB", "200 MB", "600 MB", "0%", "200 MB", "2.0 GB", "200 GB",
    ]  # fmt: skip
