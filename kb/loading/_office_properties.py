"""What an Office file's properties say about it."""

from __future__ import annotations

from kb.loading._clean import clean
from kb.loading._titles import sensible_title
from kb.loading._zip_package import ZipPackage, local_name
from kb.records import Scalar


def read_properties(package: ZipPackage) -> tuple[str, dict[str, Scalar]]:
    """Title, "" when a program made it, and author."""
    part = next((name for _, kind, name in package.related("") if kind == "core-properties"), None)
    root = package.optional(part)
    values = {local_name(e.tag): clean(e.text or "").strip() for e in (root if root is not None else ())}
    author = values.get("creator", "")
    return sensible_title(values.get("title", "")), {"author": author} if author else {}
