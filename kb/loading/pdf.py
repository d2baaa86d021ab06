"""PDF: what is visible on each page, with page numbers, and the outline's entries as headings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from pydantic import Field

from kb.components import Parts
from kb.errors import LoadError
from kb.loading._clean import clean
from kb.loading._files import document_id, read_bytes
from kb.loading._pdf_read import (
    Bookmark,
    PypdfReader,
    RawPage,
    RawPdf,
    UnreadableError,
    blank_pages,
    read_with_pdfium,
)
from kb.loading._pdf_text import MAX_JUNK_SHARE, junk_share, marks_are_hyphens, mend_page, without_running_lines
from kb.loading._titles import sensible_title
from kb.records import Document, Heading, Page, Scalar
from kb.settings import ComponentOptions

SUFFIXES = (".pdf",)
VERSION = 3
"""Raised by every change that could give another text, so that the next ingest reads files anew."""
PACKAGES = ("pypdfium2", "pypdf")
"""Packages on which the text depends."""

HEADER_WITHIN = 1024
"""`%PDF-` may stand after junk, but within so many bytes (ISO 32000-1, annex H)."""
MIN_SAME_LENGTH = 0.9
"""pypdf's text is taken for pdfium's when it has at least so many of its characters and words."""


class Options(ComponentOptions):
    """How PDFs are read."""

    passwords: tuple[str, ...] = Field((), exclude=True, repr=False)
    """Tried on files that need one. Not part of the fingerprint: they change no text."""
    drop_running_lines: bool = True
    """Keep headers and footers that repeat on most pages only once."""


class PdfLoader:
    """Reads PDFs with pdfium, page by page, and with pypdf what pdfium cannot."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def load(self, path: Path, relative: str) -> Document:
        """Read one PDF.

        Raises:
            LoadError: it needs a password or OCR, is damaged, or is no PDF.
        """
        data = read_bytes(path, relative)
        if not data:
            raise LoadError(relative, "the file is empty (0 bytes); copy or download it again")
        file = _File(data, relative, self._options)
        pages, warnings = file.mended_pages()
        if self._options.drop_running_lines:
            pages = list(without_running_lines(pages))
        text, spans = _assemble(pages)
        info = {key: clean(value).strip() for key, value in file.raw.info.items()}
        title = sensible_title(info.get("Title", ""))
        metadata: dict[str, Scalar] = {"author": info["Author"]} if info.get("Author") else {}
        headings = _headings(file.raw.bookmarks, text, spans)
        if not title:
            title = next((heading.text for heading in headings if heading.level == 1), "")
        return Document(
            id=document_id(relative),
            path=relative,
            text=text,
            title=title,
            kind="pdf",
            metadata=metadata,
            pages=spans,
            headings=headings,
            warnings=tuple(warnings),
        )


def build(options: Options, parts: Parts) -> PdfLoader:
    """Build the loader."""
    return PdfLoader(options)


class _File:
    """One file while it is read."""

    def __init__(self, data: bytes, relative: str, options: Options) -> None:
        self.data = data
        self.relative = relative
        self.options = options
        self.raw = self._read()

    def _read(self) -> RawPdf:
        try:
            return read_with_pdfium(self.data, self.options.passwords)
        except UnreadableError as error:
            pdfium_error = error
        if b"%PDF-" not in self.data[:HEADER_WITHIN]:
            start = self.data[:20].decode("ascii", "replace")
            raise LoadError(self.relative, f"this is not a PDF; it begins with {start!r}") from pdfium_error
        if self.second is not None:  # pdfium also says "password" of some damaged and empty files
            return RawPdf(tuple(self.second.page(number) for number in range(self.second.page_count)))
        if self.second_error and self.second_error.needs_password:
            raise LoadError(
                self.relative,
                "it needs a password; put it into [loading.pdf] passwords, or save the file without one",
            ) from self.second_error
        raise LoadError(
            self.relative, f"it is damaged ({self.second_error}); open and save it anew, or download it again"
        ) from pdfium_error

    @cached_property
    def _second(self) -> PypdfReader | UnreadableError:
        try:
            return PypdfReader(self.data, self.options.passwords)
        except UnreadableError as error:
            return error

    @property
    def second(self) -> PypdfReader | None:
        """The second library's view of the file; opened only when needed."""
        return self._second if isinstance(self._second, PypdfReader) else None

    @property
    def second_error(self) -> UnreadableError | None:
        return self._second if isinstance(self._second, UnreadableError) else None

    @cached_property
    def _blank(self) -> set[int]:
        """The pages, counted from 0, that are really empty."""
        empty = [number for number, page in enumerate(self.raw.pages) if not page.drawn]
        return blank_pages(self.data, self.options.passwords, empty)

    def mended_pages(self) -> tuple[list[str], list[str]]:
        """All pages' texts, and warnings.

        Raises:
            LoadError: pages are drawn, but none has text.
        """
        best = [self._best(number, page) for number, page in enumerate(self.raw.pages)]
        texts = [mend_page(page.text) if not page.problem else "" for page in best]
        if self.raw.has_form and self.second is not None:
            for number in range(len(texts)):
                values = self.second.field_values(number)
                texts[number] = "\n".join(filter(None, (texts[number], *(clean(value) for value in values))))
        scanned = [n for n, page in enumerate(best, 1) if page.drawn and not page.problem and not texts[n - 1].strip()]
        broken = [(n, page.problem) for n, page in enumerate(best, 1) if page.problem]
        if not any(map(str.strip, texts)) and (scanned or broken):
            if scanned:
                raise LoadError(self.relative, "no text layer; it needs OCR (for example `ocrmypdf in.pdf out.pdf`)")
            raise LoadError(self.relative, f"no page can be read: {broken[0][1]}")
        warnings = [f"page {n} is left out: {problem}; save the file anew, or run OCR" for n, problem in broken]
        if scanned:
            warnings.append(f"no text layer on {_pages_phrase(scanned)}; OCR is needed if there are words")
        if not texts:
            warnings.append("no text in it: the PDF has no pages")
        elif not any(map(str.strip, texts)):
            warnings.append("no text in it: all pages are blank")
        return texts, warnings

    def _best(self, number: int, page: RawPage) -> RawPage:
        """The page as the better library reads it."""
        junk = _is_junk(page.text)
        empty = not page.drawn and number not in self._blank
        if not (page.problem or page.doubtful or empty or junk) or self.second is None:
            return page
        other = self.second.page(number) if number < self.second.page_count else RawPage(problem="it does not exist")
        if page.problem or not page.drawn:
            if other.text.strip() and not _is_junk(other.text):
                return other
            if page.problem:
                return page
            return replace(page, problem=other.problem) if other.problem else page
        if other.problem or _is_junk(other.text):
            return replace(page, problem="its fonts don't tell which letters they show; it needs OCR") if junk else page
        return other if junk or _as_long(other.text, page.text) else page


def _is_junk(text: str) -> bool:
    return junk_share(text) > MAX_JUNK_SHARE or not marks_are_hyphens(text)


def _as_long(text: str, than: str) -> bool:
    """Whether a text has as many words and letters as another: none were dropped or glued."""
    words, others = text.split(), than.split()
    letters, other_letters = sum(map(len, words)), sum(map(len, others))
    return len(words) >= MIN_SAME_LENGTH * len(others) and letters >= MIN_SAME_LENGTH * other_letters


def _pages_phrase(numbers: Sequence[int]) -> str:
    """`page 3`, or `pages 3, 7-9`."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    phrase = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)
    return f"page {phrase}" if len(numbers) == 1 else f"pages {phrase}"


def _assemble(texts: Sequence[str]) -> tuple[str, tuple[Page, ...]]:
    """Join the pages with blank lines; a blank page takes no room, but keeps its number."""
    parts: list[str] = []
    pages = []
    length = 0
    for number, text in enumerate(texts, 1):
        if not text.strip():
            pages.append(Page(number, length, length))
            continue
        if length:
            parts.append("\n\n")
            length += 2
        parts.append(text)
        pages.append(Page(number, length, length + len(text)))
        length += len(text)
    return "".join(parts), tuple(pages)


def _headings(bookmarks: Sequence[Bookmark], text: str, pages: Sequence[Page]) -> tuple[Heading, ...]:
    """Find the outline's titles as lines of their pages; a title that is no line gives no heading."""
    found: dict[int, Heading] = {}
    lines_of: dict[int, list[tuple[str, int, int]]] = {}
    for bookmark in bookmarks:
        if bookmark.page >= len(pages):
            continue
        if bookmark.page not in lines_of:
            lines_of[bookmark.page] = _lines(text, pages[bookmark.page])
        words = " ".join(clean(bookmark.title).split())
        key = _key(words)
        for line, start, end in lines_of[bookmark.page]:
            if key and line == key and start not in found:
                found[start] = Heading(bookmark.level, words, start, end)
                break
    return tuple(found[start] for start in sorted(found))


def _lines(text: str, page: Page) -> list[tuple[str, int, int]]:
    lines = []
    start = page.start
    for line in text[page.start : page.end].split("\n"):
        lines.append((_key(line), start, start + len(line)))
        start += len(line) + 1
    return lines


def _key(line: str) -> str:
    return "".join(line.split()).casefold()
