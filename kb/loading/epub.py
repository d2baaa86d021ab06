"""EPUB: the chapters of an e-book in reading order, each read as a page of HTML."""

from __future__ import annotations

import posixpath
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pydantic import Field

from kb.components import Parts
from kb.errors import LoadError
from kb.loading._clean import clean
from kb.loading._files import BYTES_PER_MEGABYTE, document_id, read_bytes
from kb.loading._text_builder import TextBuilder
from kb.loading._titles import sensible_title
from kb.records import Document, Scalar
from kb.settings import ComponentOptions

if TYPE_CHECKING:
    from kb.loading._zip_package import ZipPackage

SUFFIXES = (".epub",)
VERSION = 1
"""Raised by every change that could give another text, so that the next ingest reads files anew."""
PACKAGES = ("charset-normalizer",)
"""Packages on which the text depends."""

_TEXTS = ("application/xhtml+xml", "text/html", "application/x-dtbook+xml", "text/x-oeb1-document")
_SCRAMBLED_FONTS = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")
"""Ways of protecting the fonts only, which free books use too."""


class Options(ComponentOptions):
    """How e-books are read."""

    max_unpacked_megabytes: float = Field(64.0, gt=0)
    """The text of all chapters with its markup; the longest novels have about 10 MB, a bomb has gigabytes."""


class EpubLoader:
    """Reads e-books."""

    def __init__(self, options: Options) -> None:
        self._max_bytes = int(options.max_unpacked_megabytes * BYTES_PER_MEGABYTE)

    def load(self, path: Path, relative: str) -> Document:
        """Read one e-book.

        Raises:
            LoadError: it is damaged, protected, a bomb, or of another format.
        """
        from kb.loading._zip_package import PackageFormat, ZipPackage

        kind = PackageFormat("epub", "book in EPUB format", "Calibre", ".epub")
        package = ZipPackage(read_bytes(path, relative), relative, self._max_bytes, kind)
        root, folder = _package_document(package)
        chapters = _chapters(root, folder)
        _refuse_protected(package, chapters)
        out = TextBuilder()
        warnings = [warning for name in chapters if (warning := _read_chapter(package, name, out))]
        text = out.text()
        if not text.strip():
            warnings.append("no text in it")
        title, metadata = _properties(root)
        return Document(
            id=document_id(relative),
            path=relative,
            text=text,
            title=title or next((heading.text for heading in out.headings if heading.level == 1), ""),
            kind="epub",
            metadata=metadata,
            headings=tuple(out.headings),
            blocks=tuple(out.blocks),
            warnings=tuple(dict.fromkeys(warnings)),
        )


def build(options: Options, parts: Parts) -> EpubLoader:
    """Build the loader."""
    return EpubLoader(options)


def _package_document(package: ZipPackage) -> tuple[Any, str]:
    """The part that lists the book's parts, and the folder from which it names them."""
    from kb.loading._zip_package import attribute

    container = package.optional("META-INF/container.xml")
    places = [attribute(element, "full-path") for element in _named(container, "rootfile")]
    name = next((place for place in places if place and place in package), None)
    if name is None:
        raise LoadError(
            package.relative, f"this is a zip archive, but no {package.kind.name}; give it the suffix of its kind"
        )
    return package.part(name), posixpath.dirname(name)


def _chapters(root: Any, folder: str) -> list[str]:
    """The names of the parts that hold text, in reading order."""
    from kb.loading._zip_package import attribute

    parts = {
        attribute(item, "id"): _part_name(folder, attribute(item, "href") or "")
        for item in _named(root, "item")
        if (attribute(item, "media-type") or "").lower() in _TEXTS
    }
    order = [attribute(reference, "idref") for reference in _named(root, "itemref")]
    return list(dict.fromkeys(parts[identity] for identity in order if identity in parts))


def _part_name(folder: str, address: str) -> str:
    """The part's name in the zip, of an address as links have it."""
    return posixpath.normpath(posixpath.join("/", folder, unquote(address.partition("#")[0]))).lstrip("/")


def _refuse_protected(package: ZipPackage, chapters: list[str]) -> None:
    from kb.loading._zip_package import attribute, child

    wanted = set(chapters)
    for element in _named(package.optional("META-INF/encryption.xml"), "EncryptedData"):
        method, reference = child(element, "EncryptionMethod"), child(element, "CipherData", "CipherReference")
        if method is not None and attribute(method, "Algorithm") in _SCRAMBLED_FONTS:
            continue
        if reference is not None and _part_name("", attribute(reference, "URI") or "") in wanted:
            raise LoadError(
                package.relative, "it is protected against copying (DRM) and cannot be read; use a copy without"
            )


def _read_chapter(package: ZipPackage, name: str, out: TextBuilder) -> str | None:
    """Write one chapter's text; gives a warning when something was lost or guessed."""
    from kb.loading._html_decode import decode_html
    from kb.loading._html_read import HtmlReader

    if name not in package:
        return f"its part {name} is missing"
    data = package.read(name)
    try:
        decoded = decode_html(data, package.relative)
    except LoadError as error:
        return f"its part {name} is left out: {error.reason}"
    reader = HtmlReader()
    reader.read(decoded.text, xml=True)
    reader.write(out)
    return decoded.warning and f"its part {name}: {decoded.warning}"


def _properties(root: Any) -> tuple[str, dict[str, Scalar]]:
    """Title, authors and language."""
    found = {
        name: [" ".join(clean("".join(element.itertext())).split()) for element in _named(root, name)]
        for name in ("title", "creator", "language")
    }
    title = next(filter(None, map(sensible_title, found["title"])), "")
    author, language = ", ".join(filter(None, found["creator"])), next(filter(None, found["language"]), "")
    return title, {key: value for key, value in (("author", author), ("language", language)) if value}


def _named(root: Any, name: str) -> list[Any]:
    """All elements of a name below a root, which may be None."""
    from kb.loading._zip_package import local_name

    return [element for element in root.iter() if local_name(element.tag) == name] if root is not None else []
