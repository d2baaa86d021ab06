"""A Word file as a zip of XML parts, its main part found by its relationships."""

from __future__ import annotations

from typing import Any

from kb.errors import LoadError
from kb.loading._zip_package import PackageFormat, ZipPackage, attribute, child, local_name

_WORD = PackageFormat("docx", "Word document", "Word", ".docx", ".doc", "WordDocument")


def child_value(element: Any, *names: str) -> str | None:
    """The `val` attribute of the descendant along a path of names, or None."""
    found = child(element, *names) if element is not None else None
    return attribute(found, "val") if found is not None else None


class Package(ZipPackage):
    """The parts of one Word file."""

    def __init__(self, data: bytes, relative: str, max_bytes: int) -> None:
        """Open the zip and find its main part.

        Raises:
            LoadError: it is no zip, damaged, a bomb, or not a Word document.
        """
        if data.startswith(b"{\\rtf"):
            raise LoadError(relative, "this is an RTF file; open it in Word and save it as .docx")
        super().__init__(data, relative, max_bytes, _WORD)
        self.main = self.main_part("word/document.xml")
        self.document = self.part(self.main)
        if local_name(self.document.tag) != "document":
            raise LoadError(
                relative, f"this is no Word document but an Office file of <{local_name(self.document.tag)}>"
            )

    def first_related(self, kind: str) -> Any:
        """The first part of a kind that the main part refers to, parsed, or None."""
        return self.optional(next((part for _, k, part in self.related(self.main) if k == kind), None))
