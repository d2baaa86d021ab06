"""The folder of a sentence-transformers model: whether it is one, what of it decides its vectors, its prompts.

Nothing here loads torch, so a run that embeds nothing doesn't wait for it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kb.errors import ConfigError

SECTION = "[embedding.sentence_transformers]"
_MODULES = "modules.json"
_PROMPTS = "config_sentence_transformers.json"
_QUERY_PROMPTS = ("query",)
_DOCUMENT_PROMPTS = ("document", "passage", "corpus")
"""The names under which models keep them, as `encode_document` of sentence-transformers looks for them."""
_DECIDING = frozenset({".json", ".safetensors", ".bin", ".txt", ".model"})
"""Weights, configuration and vocabulary. Pictures, model cards and weights for other engines decide nothing."""
_WEIGHTS = (".safetensors", ".bin")
_OTHER_ENGINES = frozenset({"onnx", "openvino"})


def checked(folder: Path) -> Path:
    """The folder itself, when it holds a model.

    Raises:
        ConfigError: it doesn't exist, is a file, or holds no model of sentence-transformers.
    """
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise ConfigError(
            f"{SECTION} model: {folder} {what}; give the folder that holds the model's files ({_MODULES} and others)"
        )
    if not (folder / _MODULES).is_file():
        raise ConfigError(
            f"{SECTION} model: {folder} is no model of sentence-transformers, as it has no {_MODULES}; give the folder "
            "that holds it, or save the model there by SentenceTransformer.save"
        )
    if not has_weights(folder):
        raise ConfigError(
            f"{SECTION} model: {folder} holds no weights (*.safetensors or *.bin): copy or fetch the model again, and "
            "with git see that git-lfs is installed"
        )
    return folder


def has_weights(folder: Path) -> bool:
    """Whether weights lie in the folder or in that of one of its modules."""
    return any(file.suffix in _WEIGHTS for file in _files(folder))


def digest(folder: Path) -> str:
    """SHA-256 of all that decides the vectors; another name or place of the folder changes nothing."""
    whole = hashlib.sha256()
    for file in _files(folder):
        with file.open("rb") as content:
            found = hashlib.file_digest(content, "sha256").hexdigest()
        whole.update(f"{file.relative_to(folder).as_posix()} {found}\n".encode())
    return whole.hexdigest()


def stamp(folder: Path) -> str:
    """What changes when a file does: names, sizes and times, which stand for the contents where these are large."""
    lines = [str(folder.resolve())]
    for file in _files(folder):
        status = file.stat()
        lines.append(f"{file.relative_to(folder).as_posix()} {status.st_size} {status.st_mtime_ns}")
    return "\n".join(lines)


def own_prompts(folder: Path) -> tuple[str, str]:
    """What the model itself says should stand before a question and before a passage; mostly nothing."""
    try:
        found = json.loads((folder / _PROMPTS).read_bytes())
    except (OSError, ValueError):
        return "", ""
    prompts = found.get("prompts") if isinstance(found, dict) else None
    if not isinstance(prompts, dict):
        return "", ""
    return _first(prompts, _QUERY_PROMPTS), _first(prompts, _DOCUMENT_PROMPTS)


def _first(prompts: dict[str, Any], names: tuple[str, ...]) -> str:
    return next((prompt for name in names if isinstance(prompt := prompts.get(name), str)), "")


def _files(folder: Path) -> Iterator[Path]:
    """The files that decide, of the folder and of those of its modules (`1_Pooling`), in one order everywhere."""
    subfolders = [
        path
        for path in folder.iterdir()
        if path.is_dir() and path.name not in _OTHER_ENGINES and not path.name.startswith(".")
    ]
    for place in (folder, *sorted(subfolders)):
        files = [path for path in place.iterdir() if path.suffix in _DECIDING and path.is_file()]
        loads_safetensors = any(path.suffix == ".safetensors" for path in files)
        for path in sorted(files):
            # The prompts are known apart from it, and the rest names versions. Beside safetensors no .bin is read.
            if path != folder / _PROMPTS and not (loads_safetensors and path.suffix == ".bin"):
                yield path
