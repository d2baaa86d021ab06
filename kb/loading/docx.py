"""Word: the whole text of .docx, .docm and .dotx, tables, lists, notes and text boxes included.

Read: inserted text, headers, footers and notes once each. Not read: deleted and hidden text, and
comments, which are talk about the document. Word files have no pages until they are printed.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from kb.components import Parts
from kb.errors import LoadError
from kb.loading._clean import clean
from kb.loading._files import BYTES_PER_MEGABYTE, document_id, read_bytes
from kb.records import Document
from kb.settings import ComponentOptions

SUFFIXES = (".docx", ".docm", ".dotx")
VERSION = 1
"""Raised by every change that could give another text, so that the next ingest reads files anew."""
PACKAGES = ()
"""Packages on which the text depends."""


class Options(ComponentOptions):
    """How Word files are read."""

    max_unpacked_megabytes: float = Field(64.0, gt=0)
    """The XML of all parts read; 5,000 pages have about 50 MB, a bomb has gigabytes."""


class DocxLoader:
    """Reads Word files by walking their XML."""

    def __init__(self, options: Options) -> None:
        self._max_bytes = int(options.max_unpacked_megabytes * BYTES_PER_MEGABYTE)

    def load(self, path: Path, relative: str) -> Document:
        """Read one Word file.

        Raises:
            LoadError: it is damaged, protected by a password, a bomb, or of another format.
        """
        from kb.loading._docx_package import Package
        from kb.loading._docx_read import DocxReader
        from kb.loading._office_properties import read_properties

        package = Package(read_bytes(path, relative), relative, self._max_bytes)
        reader = DocxReader(package)
        try:
            reader.read()
        except RecursionError as error:
            raise LoadError(relative, "its tables are nested too deeply to be read; open and save it anew") from error
        text = reader.out.text()
        title, metadata = read_properties(package)
        headings = tuple(reader.out.headings)
        first = next((heading.text for heading in headings if heading.level == 1), "")
        warnings = list(dict.fromkeys(reader.warnings)) + ([] if text.strip() else ["no text in it"])
        return Document(
            id=document_id(relative),
            path=relative,
            text=text,
            title=clean(reader.title) or first or title,
            kind="docx",
            metadata=metadata,
            headings=headings,
            blocks=tuple(reader.out.blocks),
            warnings=tuple(warnings),
        )


def build(options: Options, parts: Parts) -> DocxLoader:
    """Build the loader."""
    return DocxLoader(options)
