"""Markdown: the text as written, with headings, blocks and front matter known."""

from __future__ import annotations

from pathlib import Path

from kb.components import Parts
from kb.loading._clean import clean
from kb.loading._data_uris import without_data
from kb.loading._decode import decode
from kb.loading._files import document_id, read_bytes
from kb.loading._front_matter import read_front_matter
from kb.loading._markdown_blocks import find_blocks
from kb.records import Document
from kb.settings import ComponentOptions

SUFFIXES = (".md", ".markdown")
VERSION = 1
"""Raised by every change that could give another text, so that the next ingest reads files anew."""
PACKAGES = ("charset-normalizer", "PyYAML")
"""Packages on which the text depends."""


class Options(ComponentOptions):
    """Markdown has no options."""


class MarkdownLoader:
    """Reads Markdown; markup stays in the text, since a quote must be found in it."""

    def load(self, path: Path, relative: str) -> Document:
        """Read one Markdown file.

        Raises:
            LoadError: the file is binary, of no known encoding, or cannot be opened.
        """
        decoded = decode(read_bytes(path, relative), relative)
        text = clean(decoded.text)
        front = read_front_matter(text)
        stays = front.length if front.warning else 0
        text = text[front.length :].lstrip("\n") if front.length and not stays else text
        text = text[:stays] + without_data(text[stays:])
        headings, blocks = find_blocks(text, stays)
        warnings = [warning for warning in (decoded.warning, front.warning) if warning]
        if not text.strip():
            warnings.append("no text in it")
        title = str(front.metadata.get("title", "")).strip()
        return Document(
            id=document_id(relative),
            path=relative,
            text=text,
            title=title or next((heading.text for heading in headings if heading.level == 1), ""),
            kind="markdown",
            metadata=front.metadata,
            headings=headings,
            blocks=blocks,
            warnings=tuple(warnings),
        )


def build(options: Options, parts: Parts) -> MarkdownLoader:
    """Build the loader."""
    return MarkdownLoader()
