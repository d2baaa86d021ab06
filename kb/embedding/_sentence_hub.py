"""A model named as on the Hugging Face hub: from the cache, or fetched once, and then read like any folder."""

from __future__ import annotations

import re
from pathlib import Path

from huggingface_hub import HfApi, snapshot_download
from huggingface_hub.errors import RepositoryNotFoundError
from huggingface_hub.utils.tqdm import disable_progress_bars, enable_progress_bars

from kb.embedding._sentence_folder import SECTION, has_weights
from kb.errors import ConfigError, ServiceError

SECONDS_TO_ANSWER = 10.0
"""The library would wait for a hub that does not answer for as long as it takes."""
_OTHER_ENGINES = ["onnx/*", "openvino/*", "*.onnx", "*.h5", "*.msgpack", "*.ot", "*.gguf", "*.ckpt"]
"""What other engines read; it can be several times as large as the model."""


def is_hub_name(model: str) -> bool:
    """Whether it has the form `owner/name`, which no path with a beginning of its own has."""
    return re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", model, re.ASCII) is not None


def model_folder(name: str, cache_dir: str, *, quiet: bool) -> Path:
    """The folder in the hub's cache; fetches what is missing.

    Raises:
        ConfigError: the hub has no such model, or it needs a token.
        ServiceError: it isn't in the cache, and the hub can't be reached.
    """
    place = str(Path(cache_dir).expanduser()) if cache_dir else None
    return _cached(name, place) or _fetched(name, place, quiet=quiet)


def _cached(name: str, place: str | None) -> Path | None:
    for ignored in ([*_OTHER_ENGINES, "*.bin"], _OTHER_ENGINES):
        try:
            folder = snapshot_download(name, cache_dir=place, ignore_patterns=ignored, local_files_only=True)
        except (OSError, ValueError):  # nothing there, or not all
            continue
        if has_weights(Path(folder)):
            return Path(folder)
    return None


def _fetched(name: str, place: str | None, *, quiet: bool) -> Path:
    if quiet:
        disable_progress_bars()
    try:
        files = HfApi().model_info(name, timeout=SECONDS_TO_ANSWER).siblings or []
        both = any(file.rfilename.endswith(".safetensors") and "/" not in file.rfilename for file in files)
        ignored = [*_OTHER_ENGINES, "*.bin"] if both else _OTHER_ENGINES
        return Path(snapshot_download(name, cache_dir=place, ignore_patterns=ignored))
    except RepositoryNotFoundError as error:
        raise ConfigError(
            f"{SECTION} model: there is no folder {name!r}, and the hub has no such model, or shows it only with a "
            "token (HF_TOKEN): check the name"
        ) from error
    except Exception as error:  # connections fail by errors of the HTTP client, which is the hub library's own matter
        raise ServiceError(
            f"{SECTION} model: {name!r} is no folder, is not (wholly) in the cache, and could not be fetched from the "
            f"hub ({type(error).__name__}). Where there is a network, run: hf download {name} --local-dir "
            f"{name.rpartition('/')[2]} - then copy that folder here, and give its path as model",
            service="the hub",
        ) from error
    finally:
        if quiet:
            enable_progress_bars()
