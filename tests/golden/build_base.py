"""Render the PDF and DOCX documents of the sample knowledge base from their markdown sources.

`python tests/golden/build_base.py` writes `knowledge_base/NAME` for every `tests/golden/sources/NAME.md` whose name
ends in `.pdf.md` or `.docx.md`. With `--check` it writes nothing there, renders to a temporary folder, and fails when
a committed file is missing or its text isn't that of a fresh rendering.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree
from zipfile import ZipFile

import pypdfium2
from _fonts import FontError
from _render_docx import render_docx
from _render_pdf import render_pdf
from _source import SourceError, parse

SOURCES = Path(__file__).parent / "sources"
BASE = Path(__file__).parents[2] / "knowledge_base"
WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"


def main(arguments: list[str] | None = None) -> int:
    """Run the command.

    Returns:
        0 when all is well, 1 when `--check` found a difference, 2 when a source can't be rendered.
    """
    parser = argparse.ArgumentParser(description="Render the PDF and DOCX documents of the sample knowledge base.")
    parser.add_argument("--check", action="store_true", help="compare the committed files with a fresh rendering")
    check = parser.parse_args(arguments).check
    sources = sorted([*SOURCES.rglob("*.pdf.md"), *SOURCES.rglob("*.docx.md")])
    if not sources:
        print(f"error: no sources below {SOURCES}", file=sys.stderr)
        return 2
    try:
        return _check(sources) if check else _build(sources, BASE)
    except (SourceError, FontError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def text_of(path: Path) -> str:
    """Give the title and text of a PDF or DOCX file, for comparing: pages or paragraphs, one after the other."""
    if path.suffix == ".pdf":
        with pypdfium2.PdfDocument(path) as pdf:
            pages = [page.get_textpage().get_text_range() for page in pdf]
            return "\f".join([pdf.get_metadata_value("Title"), *pages])
    lines = []
    with ZipFile(path) as parts:
        for name in ("docProps/core.xml", "word/document.xml", "word/footnotes.xml"):
            if name in parts.namelist():
                root = ElementTree.fromstring(parts.read(name))
                lines += ["".join(x.itertext()) for x in root.iter() if x.tag.endswith(("}title", "}p"))]
    return "\n".join(lines)


def _build(sources: list[Path], folder: Path) -> int:
    """Render every source below a folder, and print a line for each."""
    for path in sources:
        target = _target(path, folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            detail = _render(path, target)
        except FontError as error:
            raise FontError(f"{path}: {error}") from error
        print(f"{target.relative_to(folder)}: {detail}, {target.stat().st_size / 1000:.0f} kB")
    return 0


def _render(path: Path, target: Path) -> str:
    source = parse(path)
    if target.suffix == ".pdf":
        fit = render_pdf(source, target)
        return f"{len(source.pages)} pages at {fit.size:g} pt"
    render_docx(source, target)
    return f"{len(source.notes)} footnotes"


def _check(sources: list[Path]) -> int:
    """Compare the committed files with a rendering of every source, and print the names of those that differ."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        _build(sources, folder)
        stale = [target for path in sources if not _same(target := _target(path, BASE), _target(path, folder))]
    for path in stale:
        print(f"error: {path} isn't what its source gives; run python tests/golden/build_base.py", file=sys.stderr)
    return 1 if stale else 0


def _same(committed: Path, fresh: Path) -> bool:
    return committed.is_file() and text_of(committed) == text_of(fresh)


def _target(source: Path, folder: Path) -> Path:
    return folder / source.relative_to(SOURCES).with_suffix("")


if __name__ == "__main__":
    sys.exit(main())
