"""Arguments that several evaluations have."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_half(parser: argparse.ArgumentParser) -> None:
    """Add `--half`."""
    parser.add_argument(
        "--half",
        choices=("all", "odd", "even"),
        default="all",
        help="ask only the questions at odd or even places: choose settings by one half, report the other",
    )


def add_out(parser: argparse.ArgumentParser) -> None:
    """Add `--out`."""
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the result, question by question (JSON)")
