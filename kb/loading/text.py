"""Plain text: the file's words as they are, whatever its encoding."""

from __future__ import annotations

from pathlib import Path

from kb.components import Parts
from kb.loading._clean import clean
from kb.loading._decode import decode
from kb.loading._files import document_id, read_bytes
from kb.records import Document, Heading
from kb.settings import ComponentOptions

SUFFIXES = (".txt", ".log", ".rst")
VERSION = 1
"""Raised by every change that could give another text, so that the next ingest reads files anew."""
PACKAGES = ("charset-normalizer",)
"""Packages on which the text depends."""

_ADORNMENTS = "=-`:.'\"~^_*+#"
"""Punctuation that reStructuredText writers underline titles with."""


class Options(ComponentOptions):
    """Plain text has no options."""


class TextLoader:
    """Reads text files; `.rst` files also give their headings."""

    def load(self, path: Path, relative: str) -> Document:
        """Read one text file.

        Raises:
            LoadError: the file is binary, of no known encoding, or cannot be opened.
        """
        decoded = decode(read_bytes(path, relative), relative)
        text = clean(decoded.text)
        headings = _rst_headings(text) if path.suffix.lower() == ".rst" else ()
        warnings = [decoded.warning] if decoded.warning else []
        if not text.strip():
            warnings.append("no text in it")
        return Document(
            id=document_id(relative),
            path=relative,
            text=text,
            title=next((heading.text for heading in headings if heading.level == 1), ""),
            kind="text",
            headings=headings,
            warnings=tuple(warnings),
        )


def build(options: Options, parts: Parts) -> TextLoader:
    """Build the loader."""
    return TextLoader()


def _rst_headings(text: str) -> tuple[Heading, ...]:
    """Titles of reStructuredText: a line underlined with punctuation at least as long.

    The levels are those of the underlines' characters in order of appearance, a title with an
    overline apart, as docutils counts them.
    """
    levels: dict[tuple[str, bool], int] = {}
    headings = []
    lines = text.split("\n")
    start = 0
    for number, line in enumerate(lines[:-1]):
        rule, before = lines[number + 1].rstrip(), lines[number - 1].rstrip() if number else ""
        words = line.strip()
        overlined = bool(before) and before == rule
        title = words and _adorns(rule) and len(rule) >= len(words) and not _adorns(words)
        if title and (overlined or (line[0] != " " and not before)):
            level = levels.setdefault((rule[0], overlined), len(levels) + 1)
            headings.append(Heading(level, words, start, start + len(line)))
        start += len(line) + 1
    return tuple(headings)


def _adorns(line: str) -> bool:
    return len(line) >= 3 and line[0] in _ADORNMENTS and line == line[0] * len(line)
