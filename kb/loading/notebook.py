"""Jupyter notebooks: Markdown cells as Markdown, code cells as fenced code, each with its output in words.

Formats 3 and 4 are read. Pictures and widgets are not, and HTML only where the program that shows
it gives no plain text beside it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import Field

from kb.components import Parts
from kb.errors import LoadError
from kb.loading._clean import clean
from kb.loading._data_uris import without_data
from kb.loading._decode import decode
from kb.loading._files import document_id, read_bytes
from kb.loading._markdown_blocks import find_blocks
from kb.loading._text_builder import TextBuilder
from kb.records import Block, Document, Heading
from kb.settings import ComponentOptions

SUFFIXES = (".ipynb",)
VERSION = 1
"""Raised by every change that could give another text, so that the next ingest reads files anew."""
PACKAGES = ("charset-normalizer",)
"""Packages on which the text depends."""

_WIDGET = "application/vnd.jupyter.widget-view+json"
_OBJECT_NAME = re.compile(r"<[^<>\n]*>")
"""`<Figure size 640x480 with 1 Axes>`: what Python calls an object that only a picture shows."""
_LANGUAGE = re.compile(r"[\w+#.-]{1,40}")
_BACKTICKS = re.compile("`{3,}")


class Options(ComponentOptions):
    """How notebooks are read."""

    max_output_characters: int = Field(2000, ge=0)
    """The most characters of one cell's output; 0 for none. A table or message fits, a log is cut."""


class NotebookLoader:
    """Reads notebooks cell by cell."""

    def __init__(self, options: Options) -> None:
        self._most = options.max_output_characters

    def load(self, path: Path, relative: str) -> Document:
        """Read one notebook.

        Raises:
            LoadError: it is no JSON, or JSON but no notebook.
        """
        decoded = decode(read_bytes(path, relative), relative)
        notebook = _parse(decoded.text, relative)
        language = _language(notebook)
        out = _Text()
        cut = 0
        for cell in _cells(notebook):
            source = _shown(_joined(cell.get("source", cell.get("input"))))
            if cell.get("cell_type") != "code":
                out.add_words(source, cell)
                continue
            out.add_code(source, language)
            output = _shown("\n".join(_outputs(cell))) if self._most else ""
            cut += len(output) > self._most
            out.add_code(_bounded(output, self._most), "", above="Output:\n")
        warnings = [decoded.warning] if decoded.warning else []
        if cut:
            cells = "one cell" if cut == 1 else f"{cut} cells"
            warnings.append(
                f"the output of {cells} is cut to {self._most:,} characters; "
                "raise [loading.notebook] max_output_characters to read more"
            )
        if not out.text:
            warnings.append("no text in it")
        return Document(
            id=document_id(relative),
            path=relative,
            text=out.text,
            title=_title(notebook, out.headings),
            kind="notebook",
            headings=tuple(out.headings),
            blocks=tuple(out.blocks),
            warnings=tuple(warnings),
        )


def build(options: Options, parts: Parts) -> NotebookLoader:
    """Build the loader."""
    return NotebookLoader(options)


class _Text:
    """Collects the cells, and where headings and blocks are."""

    def __init__(self) -> None:
        self.headings: list[Heading] = []
        self.blocks: list[Block] = []
        self._pieces: list[str] = []
        self._length = 0

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def add_words(self, source: str, cell: dict[str, Any]) -> None:
        """Add a cell of words; its Markdown is looked at by itself, so that a fence left open ends with it."""
        kind = cell.get("cell_type")
        if kind == "heading" and source.strip():  # of format 3
            level = cell.get("level")
            marks = "#" * (level if isinstance(level, int) and 1 <= level <= 6 else 1)
            source = f"{marks} {' '.join(source.split())}"
        start = self._add(source)
        if kind == "raw":  # for another program, such as LaTeX
            return
        headings, blocks = find_blocks(source)
        self.headings += [Heading(h.level, h.text, start + h.start, start + h.end) for h in headings]
        self.blocks += [Block(b.kind, start + b.start, start + b.end) for b in blocks]

    def add_code(self, source: str, language: str, above: str = "") -> None:
        """Add fenced code, below a line that says what it is; a fence within it doesn't close it."""
        if source.strip():
            fence = "`" * (1 + max((len(run) for run in _BACKTICKS.findall(source)), default=2))
            start = self._add(f"{above}{fence}{language}\n{source}\n{fence}")
            self.blocks.append(Block("code", start + len(above), self._length))

    def _add(self, text: str) -> int:
        if text.strip():
            separator = "\n\n" if self._length else ""
            self._pieces += (separator, text)
            self._length += len(separator) + len(text)
        return self._length - len(text)


def _parse(text: str, relative: str) -> dict[str, Any]:
    if not text.strip():
        raise LoadError(relative, "the file is empty; copy or download it again")
    try:
        notebook = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = f"it is not valid JSON ({error}), so it is cut off or damaged; restore it from a copy"
        raise LoadError(relative, reason) from error
    if isinstance(notebook, dict) and (_has_list(notebook, "cells") or _has_list(notebook, "worksheets")):
        return notebook
    raise LoadError(relative, "this is JSON, but no notebook: it has neither cells nor worksheets")


def _has_list(table: dict[str, Any], key: str) -> bool:
    return isinstance(table.get(key), list)


def _cells(notebook: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The cells in order; in format 3 they stand in worksheets."""
    for sheet in (notebook, *_tables(notebook.get("worksheets"))):
        yield from _tables(sheet.get("cells"))


def _tables(values: Any) -> Iterator[dict[str, Any]]:
    """The JSON objects of a list; a damaged notebook may hold anything."""
    yield from (value for value in values if isinstance(value, dict)) if isinstance(values, list) else ()


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _joined(value: Any) -> str:
    """A text, which a notebook holds whole or in pieces that keep their line ends."""
    if isinstance(value, list):
        return "".join(piece for piece in value if isinstance(piece, str))
    return value if isinstance(value, str) else ""


def _shown(text: str) -> str:
    return without_data(clean(text)).strip("\n")


def _outputs(cell: dict[str, Any]) -> Iterator[str]:
    """What a cell printed, gave, or failed with, in words."""
    for output in _tables(cell.get("outputs")):
        kind = output.get("output_type")
        if kind == "stream":
            # A progress bar is written again and again over itself; its last state is what is seen.
            lines = _joined(output.get("text")).replace("\r\n", "\n").split("\n")
            yield "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines).rstrip()
        elif kind in ("error", "pyerr"):
            yield ": ".join(filter(None, (_joined(output.get("ename")), _joined(output.get("evalue")))))
        else:
            yield _shown_data(_table(output.get("data")) or {"text/plain": output.get("text")}).rstrip()


def _shown_data(data: dict[str, Any]) -> str:
    """The words of one result, which is given in several forms of which a notebook shows the richest."""
    words = _joined(data.get("text/markdown")) or _joined(data.get("text/plain"))
    if _WIDGET in data:
        return ""
    if words.strip() and not _OBJECT_NAME.fullmatch(words.strip()):
        return words
    from kb.loading._html_read import HtmlReader

    reader, out = HtmlReader(), TextBuilder()  # such as a table with colours
    reader.read(_joined(data.get("text/html")))
    reader.write(out)
    return out.text()


def _bounded(output: str, most: int) -> str:
    left_out = len(output) - most
    return f"{output[:most]}\n[… {left_out:,} more characters]" if left_out > 0 else output


def _language(notebook: dict[str, Any]) -> str:
    """The language of the code cells, as a word behind a fence; "" when the notebook doesn't say."""
    metadata = _table(notebook.get("metadata"))
    declared = (
        _table(metadata.get("language_info")).get("name"),
        _table(metadata.get("kernelspec")).get("language"),
        *(cell.get("language") for cell in _cells(notebook)),  # of format 3
    )
    return next((name for name in declared if isinstance(name, str) and _LANGUAGE.fullmatch(name)), "")


def _title(notebook: dict[str, Any], headings: list[Heading]) -> str:
    """The first heading, of level 1 where there is one, else what the notebook's metadata say."""
    first = min(headings, key=lambda heading: heading.level != 1, default=None)
    given = _joined(_table(notebook.get("metadata")).get("title"))
    return first.text if first else " ".join(clean(given).split())
