"""PowerPoint: the text of .pptx, .pptm, .ppsx and .potx, slide by slide, with the speaker's notes.

Each slide is a page, and its title a heading. Hidden slides are read too: their numbers count in
PowerPoint, and what is hidden in a talk is often the detail that someone looks for afterwards.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from kb.components import Parts
from kb.errors import LoadError
from kb.loading._files import BYTES_PER_MEGABYTE, document_id, read_bytes
from kb.records import Block, Document, Heading, Page
from kb.settings import ComponentOptions

if TYPE_CHECKING:
    from kb.loading._pptx_read import Slide

SUFFIXES = (".pptx", ".pptm", ".ppsx", ".potx")
VERSION = 1
"""Raised by every change that could give another text, so that the next ingest reads files anew."""
PACKAGES = ()
"""Packages on which the text depends."""


class Options(ComponentOptions):
    """How presentations are read."""

    max_unpacked_megabytes: float = Field(64.0, gt=0)
    """The XML of all parts read; 1,000 slides of text have about 4 MB, a bomb has gigabytes."""


class PptxLoader:
    """Reads presentations by walking their XML."""

    def __init__(self, options: Options) -> None:
        self._max_bytes = int(options.max_unpacked_megabytes * BYTES_PER_MEGABYTE)

    def load(self, path: Path, relative: str) -> Document:
        """Read one presentation.

        Raises:
            LoadError: it is damaged, protected by a password, a bomb, or of another format.
        """
        from kb.loading._office_properties import read_properties
        from kb.loading._pptx_read import Presentation, SlideReader

        package = Presentation(read_bytes(path, relative), relative, self._max_bytes)
        reader = SlideReader(package)
        out = _Text()
        first_title = ""
        try:
            for number, part in enumerate(package.slides, 1):
                slide = reader.read(part)
                first_title = first_title or slide.title
                out.add(slide, number)
        except RecursionError as error:
            raise LoadError(relative, "its groups are nested too deeply to be read; open and save it anew") from error
        title, metadata = read_properties(package)
        return Document(
            id=document_id(relative),
            path=relative,
            text=out.text,
            title=first_title or title,
            kind="pptx",
            metadata=metadata,
            pages=tuple(out.pages),
            headings=tuple(out.headings),
            blocks=tuple(out.blocks),
            warnings=() if out.text else ("no text in it",),
        )


def build(options: Options, parts: Parts) -> PptxLoader:
    """Build the loader."""
    return PptxLoader(options)


class _Text:
    """Puts slides below each other, and remembers where what is."""

    def __init__(self) -> None:
        self.pages: list[Page] = []
        self.headings: list[Heading] = []
        self.blocks: list[Block] = []
        self._pieces: list[str] = []
        self._length = 0

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def add(self, slide: Slide, number: int) -> None:
        """Add a slide as a page; a blank one takes no room, but keeps its number.

        One without a title is headed by its number: else its text would stand below the title of
        a slide before it.
        """
        if not slide.title and not slide.body:
            self.pages.append(Page(number, self._length, self._length))
            return
        title = slide.title or f"Slide {number}"
        start = self._add(title)
        self.headings.append(Heading(1, title, start, self._length))
        if slide.body:
            body = self._add(slide.body)
            self.blocks += [Block(block.kind, body + block.start, body + block.end) for block in slide.blocks]
        self.pages.append(Page(number, start, self._length))

    def _add(self, text: str) -> int:
        separator = "\n\n" if self._length else ""
        self._pieces += (separator, text)
        self._length += len(separator) + len(text)
        return self._length - len(text)
