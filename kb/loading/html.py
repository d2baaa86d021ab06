"""HTML: what a reader sees of a page, with its headings, lists, tables and code."""

from __future__ import annotations

from pathlib import Path

from kb.components import Parts
from kb.loading._files import document_id, read_bytes
from kb.loading._text_builder import TextBuilder
from kb.loading._titles import sensible_title
from kb.records import Document
from kb.settings import ComponentOptions

SUFFIXES = (".html", ".htm", ".xhtml")
VERSION = 1
"""Raised by every change that could give another text, so that the next ingest reads files anew."""
PACKAGES = ("charset-normalizer",)
"""Packages on which the text depends."""


class Options(ComponentOptions):
    """HTML has no options."""


class HtmlLoader:
    """Reads saved web pages; scripts are not run, and nothing is fetched."""

    def load(self, path: Path, relative: str) -> Document:
        """Read one page.

        Raises:
            LoadError: the file is binary, of no known encoding, or cannot be opened.
        """
        from kb.loading._html_decode import decode_html
        from kb.loading._html_read import HtmlReader

        decoded = decode_html(read_bytes(path, relative), relative)
        is_xml = path.suffix.lower() == ".xhtml" or decoded.text.startswith("<?xml")
        reader = HtmlReader()
        reader.read(decoded.text, xml=is_xml)
        out = TextBuilder()
        reader.write(out)
        if not out.text():
            reader.write(out, menus=True)
        text = out.text()
        warnings = [decoded.warning] if decoded.warning else []
        if not text.strip():
            has_script = "<script" in decoded.text.lower()
            hint = "; a script would fill it: save the page from a browser" if has_script else ""
            warnings.append(f"no text in it{hint}")
        return Document(
            id=document_id(relative),
            path=relative,
            text=text,
            title=sensible_title(reader.title) or next((h.text for h in out.headings if h.level == 1), ""),
            kind="html",
            metadata=reader.metadata,
            headings=tuple(out.headings),
            blocks=tuple(out.blocks),
            warnings=tuple(warnings),
        )


def build(options: Options, parts: Parts) -> HtmlLoader:
    """Build the loader."""
    return HtmlLoader()
