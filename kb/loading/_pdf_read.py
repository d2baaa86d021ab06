"""The two PDF libraries: pdfium, right and fast on nearly everything, and pypdf for the rest.

pdfium is not thread-safe (wrong text, even a crash), so one lock is held while it works on a file.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

from kb.loading._pdf_places import read_by_places

PDFIUM = threading.Lock()
"""Held by whoever has a file open."""
_PDFIUM_PASSWORD_ERROR = 4
MAX_BOOKMARKS = 10_000
"""More are damage: a loop in the outline."""
MAX_FIELD_CHARACTERS = 10_000

_LINE_END_HYPHEN = re.compile(r"(?<=\w)-[ \t]*\n(?=\w)")
_SHOWS_TEXT = re.compile(rb"T[jJ]|['\"]")
"""The operators that show text."""


class UnreadableError(Exception):
    """A library cannot open the file; `needs_password` is what it believes."""

    def __init__(self, reason: str, *, needs_password: bool = False) -> None:
        self.needs_password = needs_password
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class RawPage:
    """One page as a library gives it."""

    text: str = ""
    doubtful: bool = False
    """Whether letters in it may be swapped."""
    drawn: bool = True
    """Whether anything is drawn on it: a page without text that is drawn is a scan."""
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Bookmark:
    """An entry of the outline; `page` counts from 0."""

    level: int
    title: str
    page: int


@dataclass(frozen=True, slots=True)
class RawPdf:
    """A whole file as pdfium gives it."""

    pages: tuple[RawPage, ...]
    bookmarks: tuple[Bookmark, ...] = ()
    info: dict[str, str] = field(default_factory=dict)
    has_form: bool = False


def read_with_pdfium(data: bytes, passwords: tuple[str, ...]) -> RawPdf:
    """Read all pages.

    Raises:
        UnreadableError: pdfium cannot open the file with any of the passwords, nor without one.
    """
    import pypdfium2

    with PDFIUM:
        document = open_pdfium(data, passwords)
        try:
            pages = tuple(_pdfium_page(document, number) for number in range(len(document)))
            info = document.get_metadata_dict(skip_empty=True)
            has_form = document.get_formtype() != pypdfium2.raw.FORMTYPE_NONE
            return RawPdf(pages, _bookmarks(document), info, has_form)
        finally:
            document.close()


def open_pdfium(data: bytes, passwords: tuple[str, ...]) -> Any:
    """Open a file, by whoever holds the lock.

    Raises:
        UnreadableError: pdfium cannot open it with any of the passwords, nor without one.
    """
    import pypdfium2

    problem: pypdfium2.PdfiumError | None = None
    for password in (None, *passwords):
        try:
            return pypdfium2.PdfDocument(data, password=password)
        except pypdfium2.PdfiumError as error:
            problem = error
            if error.err_code != _PDFIUM_PASSWORD_ERROR:
                break
    needs_password = problem is not None and problem.err_code == _PDFIUM_PASSWORD_ERROR
    raise UnreadableError(str(problem), needs_password=needs_password) from problem


def _pdfium_page(document: Any, number: int) -> RawPage:
    import pypdfium2

    try:
        page = document[number]
    except pypdfium2.PdfiumError as error:
        return RawPage(problem=str(error).rstrip("."))
    try:
        text, doubtful = read_by_places(page)
        drawn = bool(text.strip()) or next(iter(page.get_objects(max_depth=1)), None) is not None
        return RawPage(text, doubtful=doubtful, drawn=drawn)
    except pypdfium2.PdfiumError as error:
        return RawPage(problem=str(error).rstrip("."))
    finally:
        page.close()


def _bookmarks(document: Any) -> tuple[Bookmark, ...]:
    import pypdfium2

    found: list[Bookmark] = []
    try:
        for entry in document.get_toc():
            if len(found) >= MAX_BOOKMARKS:
                return ()
            destination = entry.get_dest()
            page = destination.get_index() if destination else None
            if page is not None and page >= 0:
                found.append(Bookmark(entry.level + 1, entry.get_title(), page))
    except (pypdfium2.PdfiumError, UnicodeDecodeError):
        return ()  # headings are a help; a damaged outline costs nothing else
    return tuple(found)


class PypdfReader:
    """A second opinion on a file that pdfium cannot read, or on some of its pages.

    pypdf raises a dozen kinds of exception on damaged files, AssertionError and AttributeError
    among them, so every one of them is caught here and told as a reason.
    """

    def __init__(self, data: bytes, passwords: tuple[str, ...]) -> None:
        with _told():
            try:
                self._reader = _open_pypdf(data, passwords)
                self.page_count = len(self._reader.pages)
            except UnreadableError:
                raise
            except Exception as error:
                raise UnreadableError(_reason(error)) from error

    def page(self, number: int) -> RawPage:
        """Read one page, counted from 0."""
        with _told() as complaints:
            try:
                page = self._reader.pages[number]
                text = page.extract_text()
                if not text.strip() and complaints:
                    return RawPage(problem=complaints[0])
                # As pdfium marks it; what becomes of it is decided in one place, for both.
                return RawPage(_LINE_END_HYPHEN.sub("\x02", text), drawn="/Contents" in page)
            except Exception as error:  # noqa: BLE001 see the class
                return RawPage(problem=_reason(error))

    def field_values(self, number: int) -> list[str]:
        """What is filled into the form fields of one page, each as `name: value`."""
        values = []
        with _told():
            try:
                for reference in self._reader.pages[number].get("/Annots") or ():
                    widget = reference.get_object()
                    name, value = widget.get("/T"), widget.get("/V")
                    if isinstance(name, str) and isinstance(value, str) and value.strip() and value != "/Off":
                        values.append(f"{name}: {value[:MAX_FIELD_CHARACTERS].lstrip('/')}")
            except Exception as error:  # noqa: BLE001 see the class
                values.append(f"(form fields not readable: {_reason(error)})")
        return values


def blank_pages(data: bytes, passwords: tuple[str, ...], numbers: Collection[int]) -> set[int]:
    """Which of the pages, counted from 0, are blank: their content can be unpacked and shows no text.

    pdfium shows a damaged page as an empty one. Only the pages asked for are looked at: for a list of
    all pages pypdf takes as long as pdfium for their text.
    """
    blank: set[int] = set()
    with _told() as complaints:
        try:
            root = _open_pypdf(data, passwords).trailer["/Root"]["/Pages"].get_object()
            for number, page in _find_pages(root, 0, frozenset(numbers), {id(root)}):
                complaints.clear()
                contents = page.get("/Contents")
                content = contents.get_object() if contents is not None else ()
                streams = content if isinstance(content, (list, tuple)) else (content,)
                shows = any(_SHOWS_TEXT.search(stream.get_object().get_data()) for stream in streams)
                if not shows and not complaints:
                    blank.add(number)
        except Exception:  # noqa: BLE001 see PypdfReader; what was not found blank gets a closer look
            return blank
    return blank


def _find_pages(node: Any, first: int, numbers: frozenset[int], seen: set[int]) -> Iterator[tuple[int, Any]]:
    """The wanted pages below a node of the page tree whose first page is number `first`."""
    for kid in node["/Kids"]:
        child = kid.get_object()
        inner = "/Kids" in child
        after = first + (max(0, int(child["/Count"])) if inner else 1)
        wanted = frozenset(number for number in numbers if first <= number < after)
        if wanted and not inner:
            yield first, child
        elif wanted and id(child) not in seen:
            seen.add(id(child))  # a damaged tree may hold itself
            yield from _find_pages(child, first, wanted, seen)
        first = after


def _open_pypdf(data: bytes, passwords: tuple[str, ...]) -> Any:
    import pypdf

    reader = pypdf.PdfReader(BytesIO(data))
    if reader.is_encrypted and not any(reader.decrypt(password) for password in ("", *passwords)):
        raise UnreadableError("it is encrypted", needs_password=True)
    return reader


def _reason(error: Exception) -> str:
    return (str(error) or type(error).__name__).split("\n", 1)[0].rstrip(".")


class _Collector(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.complaints: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.complaints.append(record.getMessage().split("\n", 1)[0])


@contextmanager
def _told() -> Iterator[list[str]]:
    """Collect what pypdf logs, instead of its going to stderr: what matters becomes a warning."""
    logger = logging.getLogger("pypdf")
    collector = _Collector()
    level, propagate = logger.level, logger.propagate
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    logger.addHandler(collector)
    try:
        yield collector.complaints
    finally:
        logger.removeHandler(collector)
        logger.setLevel(level)
        logger.propagate = propagate
