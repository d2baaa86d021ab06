"""How fast PDFs are read, beside bare pypdfium2: `python benchmarks/pdf_speed.py [FOLDER …]`.

The floor is pypdfium2 alone: open the file, take the text of every page, close it. Both sides read
each file in turn, in seconds of the processor, so that a busy machine slows both alike; the ratio of
their medians is the figure to watch. Measured are the PDFs of `knowledge_base/` and of the folders
given; files without text and files that cannot be read are left out, since nothing could be compared.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import pypdfium2

from kb.errors import LoadError
from kb.loading import load_document

SAMPLES = Path(__file__).resolve().parents[1] / "knowledge_base"
SLOWEST = 8
"""Files shown: those on which the loader takes longest, compared with the floor."""

Row = tuple[str, int, float, float]
"""Path, pages, seconds of pypdfium2, of the loader: medians over the rounds."""


def read_bare(path: Path) -> int:
    """Take the text of every page; gives the number of pages."""
    document = pypdfium2.PdfDocument(path)
    try:
        for number in range(len(document)):
            page = document[number]
            text_page = page.get_textpage()
            text_page.get_text_bounded(errors="replace")
            text_page.close()
            page.close()
        return len(document)
    finally:
        document.close()


def read_whole(path: Path) -> int:
    """Load the document as an ingest does; gives the number of pages."""
    return len(load_document(path).pages)


def has_text(path: Path) -> bool:
    """Whether both sides read the file and find words in it."""
    try:
        read_bare(path)
        return bool(load_document(path).text.strip())
    except (LoadError, pypdfium2.PdfiumError):
        return False


def seconds(read: Callable[[Path], int], path: Path) -> float:
    started = time.process_time()
    read(path)
    return time.process_time() - started


def measure(folder: Path, rounds: int) -> list[Row]:
    """Measure each readable PDF below a folder; the first reading of a file isn't counted."""
    rows = []
    for path in sorted(folder.rglob("*.pdf")):
        if has_text(path):
            taken = [(seconds(read_bare, path), seconds(read_whole, path)) for _ in range(rounds)]
            bare, whole = (median(side) for side in zip(*taken, strict=True))
            rows.append((str(path.relative_to(folder)), read_bare(path), bare, whole))
    return rows


def table(folder: Path, rows: Sequence[Row]) -> str:
    """The files with the highest ratios, all together, and the median of the ratios."""
    total = (f"all {len(rows)} files", *(sum(column) for column in tuple(zip(*rows, strict=True))[1:]))
    slowest = sorted(rows, key=lambda row: row[3] / row[2], reverse=True)[:SLOWEST]
    lines = [f"{folder}\n{'':<40} {'pages':>6} {'bare/s':>8} {'kb/s':>8} {'ratio':>6}"]
    for name, pages, bare, whole in (*slowest, total):
        lines.append(f"{name[-40:]:<40} {pages:6} {pages / bare:8.0f} {pages / whole:8.0f} {whole / bare:6.2f}")
    lines.append(f"{'median of the files':<40} {median(row[3] / row[2] for row in rows):31.2f}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER", help="further folders with PDFs")
    parser.add_argument("--rounds", type=int, default=7, help="%(default)s")
    options = parser.parse_args()
    for folder in (SAMPLES, *options.folders):
        rows = measure(folder, options.rounds)
        print(table(folder, rows) if rows else f"{folder}: no PDF with text")


if __name__ == "__main__":
    main()
