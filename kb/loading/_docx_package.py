"""A Word file as a zip of XML parts: opened with limits, without entities, and by its relationships."""

from __future__ import annotations

import posixpath
import re
import zipfile
import zlib
from functools import lru_cache
from io import BytesIO
from typing import Any

from lxml import etree

from kb.errors import LoadError
from kb.loading._files import BYTES_PER_MEGABYTE

_OLD_OFFICE = b"\xd0\xcf\x11\xe0"
_ZIP = b"PK"
MAX_RATIO = 300
"""Word's most repetitive tables pack at about 100 to 1, a bomb at 1,000."""
RATIO_FROM_BYTES = BYTES_PER_MEGABYTE
"""Small parts of one repeated letter harm nobody."""
_DOCTYPE = re.compile(rb"<!\s*(?:DOCTYPE|ENTITY)")
_BROKEN_ZIP = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    ValueError,
    NotImplementedError,
    RuntimeError,
    OverflowError,
)


@lru_cache(maxsize=4096)  # Word has about 1,000 names
def local_name(tag: Any) -> str:
    """The name without its namespace, which differs in Strict files; "" for comments."""
    return str(tag).rpartition("}")[2] if isinstance(tag, str) else ""


def attribute(element: Any, name: str) -> str | None:
    """The value of an attribute, whatever its namespace."""
    return next((str(value) for key, value in element.attrib.items() if local_name(key) == name), None)


def child(element: Any, *names: str) -> Any:
    """The descendant along a path of names, or None."""
    for name in names:
        element = next((e for e in element if local_name(e.tag) == name), None)
        if element is None:
            return None
    return element


def child_value(element: Any, *names: str) -> str | None:
    """The `val` attribute of the descendant along a path of names, or None."""
    found = child(element, *names) if element is not None else None
    return attribute(found, "val") if found is not None else None


class Package:
    """The parts of one Word file."""

    def __init__(self, data: bytes, relative: str, max_bytes: int) -> None:
        """Open the zip and find its main part.

        Raises:
            LoadError: it is no zip, damaged, a bomb, or not a Word document.
        """
        self.relative = relative
        self._left = max_bytes
        self._zip = _open_zip(data, relative)
        self.main = self._main_part()
        self.document = self.part(self.main)
        if local_name(self.document.tag) != "document":
            raise LoadError(
                relative, f"this is no Word document but an Office file of <{local_name(self.document.tag)}>"
            )

    def part(self, name: str) -> Any:
        """Parse one part.

        Raises:
            LoadError: it is missing, damaged, or unpacks to more than the limit.
        """
        try:
            entry = self._zip.getinfo(name)
            self._refuse_bomb(entry)
            with self._zip.open(entry) as file:
                data = file.read(self._left + 1)
        except KeyError as error:
            raise LoadError(self.relative, f"its part {name} is missing; open and save it anew in Word") from error
        except _BROKEN_ZIP as error:
            raise LoadError(self.relative, f"its part {name} is damaged ({error}); restore it from a copy") from error
        self._left -= len(data)
        if _DOCTYPE.search(data):
            raise self._declares_entities(name)
        parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
        try:
            root = etree.fromstring(data, parser)
        except (etree.XMLSyntaxError, ValueError) as error:
            raise LoadError(self.relative, f"its part {name} is damaged ({error}); restore it from a copy") from error
        if root.getroottree().docinfo.internalDTD is not None:  # in UTF-16 the search above sees none
            raise self._declares_entities(name)
        return root

    def optional(self, name: str | None) -> Any:
        """Parse a part that need not be there; None when it is not."""
        return self.part(name) if name is not None and name in self._zip.NameToInfo else None

    def related(self, source: str) -> list[tuple[str, str, str]]:
        """What a part refers to within the file: (id, last word of the type, part name)."""
        folder, name = posixpath.split(source)
        relationships = self.optional(posixpath.join(folder, "_rels", f"{name}.rels"))
        found = []
        for element in relationships if relationships is not None else ():
            kind, target = attribute(element, "Type"), attribute(element, "Target")
            if kind and target and attribute(element, "TargetMode") != "External":
                part = posixpath.normpath(posixpath.join("/", folder, target)).lstrip("/")
                found.append((attribute(element, "Id") or "", kind.rpartition("/")[2], part))
        return found

    def first_related(self, kind: str) -> Any:
        """The first part of a kind that the main part refers to, parsed, or None."""
        return self.optional(next((part for _, k, part in self.related(self.main) if k == kind), None))

    def _main_part(self) -> str:
        main = next((part for _, kind, part in self.related("") if kind == "officeDocument"), "word/document.xml")
        if main not in self._zip.NameToInfo:
            raise LoadError(
                self.relative, "this is a zip archive, but no Word document; give it the suffix of its kind"
            )
        return main

    def _declares_entities(self, name: str) -> LoadError:
        return LoadError(self.relative, f"its part {name} declares entities, which Word never does; it is not opened")

    def _refuse_bomb(self, entry: zipfile.ZipInfo) -> None:
        ratio = entry.file_size / max(1, entry.compress_size)
        size = f"its part {entry.filename} unpacks to {entry.file_size / BYTES_PER_MEGABYTE:.0f} MB"
        if entry.file_size > RATIO_FROM_BYTES and ratio > MAX_RATIO:
            raise LoadError(self.relative, f"{size}, {ratio:.0f} times its packed size; it is refused as a zip bomb")
        if entry.file_size > self._left:
            raise LoadError(
                self.relative,
                f"{size}, more than is allowed; raise [loading.docx] max_unpacked_megabytes if it is no bomb",
            )


def _open_zip(data: bytes, relative: str) -> zipfile.ZipFile:
    if not data:
        raise LoadError(relative, "the file is empty (0 bytes); copy or download it again")
    if data.startswith(_OLD_OFFICE):
        if "EncryptedPackage".encode("utf-16-le") in data:
            raise LoadError(relative, "it is password-protected; open it in Word and save it without a password")
        if "WordDocument".encode("utf-16-le") in data:
            raise LoadError(relative, "this is the old .doc format; open it in Word and save it as .docx")
        raise LoadError(
            relative, "this is an old .doc or a password-protected file; save it in Word as .docx without one"
        )
    if data.startswith(b"{\\rtf"):
        raise LoadError(relative, "this is an RTF file; open it in Word and save it as .docx")
    try:
        return zipfile.ZipFile(BytesIO(data))
    except _BROKEN_ZIP as error:
        if data.startswith(_ZIP):
            raise LoadError(relative, "it is truncated or corrupt: the zip has no directory; copy it again") from error
        raise LoadError(relative, f"this is not a Word document; it begins with {data[:16]!r}") from error
