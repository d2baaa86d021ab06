"""A file that is a zip of XML parts (Office, e-books): opened with limits, and without entities."""

from __future__ import annotations

import posixpath
import re
import zipfile
import zlib
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from typing import Any

from lxml import etree

from kb.errors import LoadError
from kb.loading._files import BYTES_PER_MEGABYTE

OLD_OFFICE = b"\xd0\xcf\x11\xe0"
"""The first bytes of the Office files before 2007, and of those with a password."""
_ZIP = b"PK"
MAX_RATIO = 300
"""Word's most repetitive tables pack at about 100 to 1, a bomb at 1,000."""
RATIO_FROM_BYTES = BYTES_PER_MEGABYTE
"""Small parts of one repeated letter harm nobody."""
_ENTITIES = re.compile(rb"<!\s*ENTITY")
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


@dataclass(frozen=True, slots=True)
class PackageFormat:
    """What messages call a kind of file."""

    loader: str
    """The loader's name, whose option `max_unpacked_megabytes` is the limit."""
    name: str
    """Without an article: `Word document`."""
    program: str
    """What writes and mends such files."""
    suffix: str
    old_suffix: str = ""
    """That of the format before 2007; "" when there was none."""
    old_stream: str = ""
    """The stream by which a file of the old format is known."""


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


class ZipPackage:
    """The parts of one file."""

    def __init__(self, data: bytes, relative: str, max_bytes: int, kind: PackageFormat) -> None:
        """Open the zip.

        Args:
            data: The file.
            relative: Its path, for messages.
            max_bytes: What all parts that are read may unpack to, together.
            kind: Which format it should be.

        Raises:
            LoadError: it is no zip, damaged, or of an older format.
        """
        self.relative = relative
        self.kind = kind
        self._left = max_bytes
        self._zip = _open_zip(data, relative, kind)

    def __contains__(self, name: str) -> bool:
        return name in self._zip.NameToInfo

    def names(self) -> list[str]:
        """The names of all parts, in the order of the zip."""
        return self._zip.namelist()

    def read(self, name: str) -> bytes:
        """Unpack one part.

        Raises:
            LoadError: it is missing, damaged, or unpacks to more than the limit.
        """
        try:
            entry = self._zip.getinfo(name)
            self._refuse_bomb(entry)
            with self._zip.open(entry) as file:
                data = file.read(self._left + 1)
        except KeyError as error:
            reason = f"its part {name} is missing; open and save it anew in {self.kind.program}"
            raise LoadError(self.relative, reason) from error
        except _BROKEN_ZIP as error:
            raise LoadError(self.relative, f"its part {name} is damaged ({error}); restore it from a copy") from error
        self._left -= len(data)
        return data

    def part(self, name: str) -> Any:
        """Parse one part as XML.

        Raises:
            LoadError: it is missing, damaged, declares entities, or unpacks to more than the limit.
        """
        data = self.read(name)
        if _ENTITIES.search(data):
            raise self._declares_entities(name)
        parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
        try:
            root = etree.fromstring(data, parser)
        except (etree.XMLSyntaxError, ValueError) as error:
            raise LoadError(self.relative, f"its part {name} is damaged ({error}); restore it from a copy") from error
        dtd = root.getroottree().docinfo.internalDTD
        if dtd is not None and dtd.entities():  # in UTF-16 the search above sees none
            raise self._declares_entities(name)
        return root

    def optional(self, name: str | None) -> Any:
        """Parse a part that need not be there; None when it is not."""
        return self.part(name) if name is not None and name in self else None

    def related(self, source: str) -> list[tuple[str, str, str]]:
        """What a part of an Office file refers to within it: (id, last word of the type, part name)."""
        folder, name = posixpath.split(source)
        relationships = self.optional(posixpath.join(folder, "_rels", f"{name}.rels"))
        found = []
        for element in relationships if relationships is not None else ():
            kind, target = attribute(element, "Type"), attribute(element, "Target")
            if kind and target and attribute(element, "TargetMode") != "External":
                part = posixpath.normpath(posixpath.join("/", folder, target)).lstrip("/")
                found.append((attribute(element, "Id") or "", kind.rpartition("/")[2], part))
        return found

    def main_part(self, default: str) -> str:
        """The name of an Office file's main part.

        Raises:
            LoadError: there is none, so it is some other zip.
        """
        main = next((part for _, kind, part in self.related("") if kind == "officeDocument"), default)
        if main not in self:
            raise LoadError(
                self.relative, f"this is a zip archive, but no {self.kind.name}; give it the suffix of its kind"
            )
        return main

    def _declares_entities(self, name: str) -> LoadError:
        return LoadError(
            self.relative,
            f"its part {name} declares entities, which {self.kind.program} never does; it is not opened",
        )

    def _refuse_bomb(self, entry: zipfile.ZipInfo) -> None:
        ratio = entry.file_size / max(1, entry.compress_size)
        size = f"its part {entry.filename} unpacks to {entry.file_size / BYTES_PER_MEGABYTE:.0f} MB"
        if entry.file_size > RATIO_FROM_BYTES and ratio > MAX_RATIO:
            raise LoadError(self.relative, f"{size}, {ratio:.0f} times its packed size; it is refused as a zip bomb")
        if entry.file_size > self._left:
            raise LoadError(
                self.relative,
                f"{size}, more than is allowed; raise [loading.{self.kind.loader}] max_unpacked_megabytes "
                "if it is no bomb",
            )


def _open_zip(data: bytes, relative: str, kind: PackageFormat) -> zipfile.ZipFile:
    if not data:
        raise LoadError(relative, "the file is empty (0 bytes); copy or download it again")
    if kind.old_suffix and data.startswith(OLD_OFFICE):
        raise LoadError(relative, _old_office_reason(data, kind))
    try:
        return zipfile.ZipFile(BytesIO(data))
    except _BROKEN_ZIP as error:
        if data.startswith(_ZIP):
            raise LoadError(relative, "it is truncated or corrupt: the zip has no directory; copy it again") from error
        raise LoadError(relative, f"this is not a {kind.name}; it begins with {data[:16]!r}") from error


def _old_office_reason(data: bytes, kind: PackageFormat) -> str:
    if "EncryptedPackage".encode("utf-16-le") in data:
        return f"it is password-protected; open it in {kind.program} and save it without a password"
    if kind.old_stream.encode("utf-16-le") in data:
        return f"this is the old {kind.old_suffix} format; open it in {kind.program} and save it as {kind.suffix}"
    return (
        f"this is an old {kind.old_suffix} or a password-protected file; "
        f"save it in {kind.program} as {kind.suffix} without one"
    )
