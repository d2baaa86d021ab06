"""Files → documents: one file here for each kind, chosen by a file's suffix.

`load_text` and `load_document` are all that a caller needs. Nothing heavy is imported before a
file of its kind is read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kb.loading._files import BYTES_PER_MEGABYTE, check_file, document_id, readable_path
from kb.loading._other_kinds import why_not_read

if TYPE_CHECKING:
    from kb.components import Loader
    from kb.records import Document

__all__ = [
    "document_id",
    "load_document",
    "load_text",
    "loader_fingerprint",
    "loader_suffixes",
    "look_at_page",
    "readable_path",
    "why_not_read",
]

DEFAULT_MAX_BYTES = 100 * BYTES_PER_MEGABYTE
"""As `[loading] max_file_megabytes`; a larger file is nearly always no document of words."""

FINGERPRINT_LENGTH = 12
"""Hex digits; fingerprints are only compared with others of the same loader."""


def load_text(path: str | PathLike[str]) -> str:
    """Give a file's whole text as it is indexed.

    Raises:
        LoadError: the file cannot be read; the message says why and what would help.
    """
    return load_document(path).text


def load_document(
    path: str | PathLike[str],
    relative: str | None = None,
    *,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> Document:
    """Read one file by the loader of its suffix.

    Args:
        path: The file.
        relative: Its path as citations show it; the file's name when not given.
        options: Options tables by the loader's name, as `[loading.pdf]` in config.toml.
        max_bytes: Larger files are refused.

    Raises:
        LoadError: the file cannot be read; `path` is `relative`.
        ConfigError: an option is unknown or has a wrong value.
    """
    from kb.errors import LoadError

    file = Path(path)
    name = readable_path(file.name if relative is None else relative)
    check_file(file, name, max_bytes)
    suffix = file.suffix.lower()
    loader_name = loader_suffixes().get(suffix)
    if loader_name is None:
        raise LoadError(name, why_not_read(suffix, loader_suffixes()))
    loader = _loader(loader_name, options or {})
    try:
        return loader.load(file, name)
    except LoadError:
        raise
    except Exception as error:  # a fault that nobody foresaw costs this file, not the run
        reason = f"the loader {loader_name} failed on it ({type(error).__name__}: {error}); please report this file"
        raise LoadError(name, reason) from error


def look_at_page(
    path: str | PathLike[str],
    relative: str,
    wanted: Mapping[str, Any],
    *,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> bytes:
    """Draw a page of a PDF, or find a quote on it. The file may do what it likes to this process: use one of its own.

    Args:
        path: The file.
        relative: Its path as citations show it.
        wanted: What is asked of the page, as plain values: `number`, from 1; and `width` for a picture, which comes
            as PNG, or the page's `text` as it was loaded with `start` and `end` of the quote in it. The quote's places
            come as JSON: `width` and `height` of the page in points, and `quotes`, a box for each line, as shares of
            the page's sides from its upper left corner.
        options: As `load_document` takes them.
        max_bytes: Larger files are refused.

    Raises:
        LoadError: the page cannot be shown.
    """
    from kb.errors import LoadError
    from kb.loading._files import read_bytes
    from kb.loading._pdf_read import UnreadableError
    from kb.loading._pdf_view import picture_of_page, places_on_page

    check_file(Path(path), relative, max_bytes)
    data = read_bytes(Path(path), relative)
    passwords = tuple((options or {}).get("pdf", {}).get("passwords", ()))
    look = picture_of_page if "width" in wanted else places_on_page
    try:
        return look(data, passwords, **wanted)
    except UnreadableError as error:
        reason = "the file needs a password" if error.needs_password else str(error)
        raise LoadError(relative, f"the page cannot be shown ({reason}); what was read of it is in the text") from error


@cache
def loader_suffixes() -> Mapping[str, str]:
    """Which loader reads which suffix, asked of every loader: `{".md": "markdown", …}`."""
    from kb.components import component_module
    from kb.settings import component_names

    found: dict[str, str] = {}
    for name in component_names("loading"):
        for suffix in component_module("loading", name).SUFFIXES:
            if suffix in found:
                raise ValueError(f"the loaders {found[suffix]} and {name} both claim {suffix}")
            found[suffix] = name
    return MappingProxyType(found)


def loader_fingerprint(name: str, options: Mapping[str, Any]) -> str:
    """What decides how a loader reads: its version, its options, and the packages that do the work.

    Raises:
        ConfigError: an option is unknown or has a wrong value.
    """
    from kb.components import component_module
    from kb.settings import explain_validation

    module = component_module("loading", name)
    chosen = explain_validation(module.Options, options, section=f"loading.{name}").model_dump_json()
    packages = [f"{package} {_version(package)}" for package in module.PACKAGES]
    parts = "\n".join((str(module.VERSION), chosen, *packages))
    return f"{name}-{hashlib.sha256(parts.encode('utf-8')).hexdigest()[:FINGERPRINT_LENGTH]}"


@cache
def _version(package: str) -> str:
    """The installed version; looking for it takes some milliseconds."""
    from importlib.metadata import version

    return version(package)


def _loader(name: str, options: Mapping[str, Mapping[str, Any]]) -> Loader:
    from kb.components import Parts, build_component

    loader: Loader = build_component("loading", name, options.get(name, {}), Parts())
    return loader
