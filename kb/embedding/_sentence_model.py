"""A sentence-transformers model in memory: vectors and token counts. The only importer of torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer
from transformers.utils import logging as transformers_logging

from kb.embedding._sentence_facts import Facts
from kb.embedding._sentence_folder import SECTION, digest
from kb.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray

ENDLESS_TOKENS = 8_192
"""For a model that names no limit, as one that averages the vectors of words: no chunk comes near it."""
_NO_LIMIT = 1_000_000
"""Tokenizers without a limit give one of thirty digits."""
_PROBE = "Read the 2nd page. 请看第二页。二ページ目を見てください。"
_LONGEST_REASON = 200


class SentenceModel:
    """The model of one folder.

    Each text has a pass of its own, by one thread: vectors then depend on nothing but the text. In a
    batch the last bits change with the texts beside it, and with more threads with their number. On a
    processor that costs nothing: 32 texts of 115 tokens took 13.9 s of one, 13.5 s in batches of four
    and 17.3 s in batches of 16 (twelve layers, 768 wide), as padding eats what a batch saves.
    """

    def __init__(self, folder: Path, device: str, max_tokens: int | None = None) -> None:
        """Load it from files alone: nothing is fetched, and no code of the model's own is run.

        Raises:
            ConfigError: it can't be loaded.
        """
        _check_device(device)
        try:
            with _no_words():
                self._model = SentenceTransformer(
                    str(folder),
                    device=device or None,
                    local_files_only=True,
                    trust_remote_code=False,
                    model_kwargs={"dtype": torch.float32},
                )
        except Exception as error:  # a damaged file makes the libraries raise anything
            raise ConfigError(_why(folder, error)) from error
        self._model.eval()
        self._model.default_prompt_name = None  # a prefix is given or not, never put there behind our back
        self._tokenizer = self._model.tokenizer
        if self._tokenizer is None:
            raise ConfigError(f"{SECTION} model: {folder} has no tokenizer, so chunks cannot be sized for it")
        own = self._model.max_seq_length
        self.max_tokens = ENDLESS_TOKENS if own is None or own > _NO_LIMIT else int(own)
        self.on_processor = self._model.device.type == "cpu"
        # The model's own is set to truncate by every pass, so that counting by it would meet passes of other threads.
        backend = getattr(self._tokenizer, "backend_tokenizer", self._tokenizer)
        self._counter = Tokenizer.from_str(backend.to_str()) if isinstance(backend, Tokenizer) else None
        if self._counter is not None:
            self._counter.no_truncation()
            self._counter.no_padding()
        if max_tokens is not None:
            self._model.max_seq_length = max_tokens
        self.vector(_PROBE, "")  # sets the truncation, which several threads would else do at once

    def vector(self, text: str, prefix: str) -> NDArray[np.float32]:
        """Embed one text behind a prefix: float32, shape (dimension,), of length one; what is too long is cut.

        Raises:
            ConfigError: the model gives no numbers.
        """
        if self.on_processor and torch.get_num_threads() != 1:
            torch.set_num_threads(1)
        raw = self._model.encode([_sound(text)], prompt=prefix or None, batch_size=1, show_progress_bar=False)
        vector = np.asarray(raw[0], np.float64)
        length = np.sqrt(np.square(vector).sum())
        if not np.isfinite(length) or not length:
            raise ConfigError(f"{SECTION} model: it gives a vector that is zero or not finite: its weights are damaged")
        unit: NDArray[np.float32] = (vector / length).astype(np.float32)
        return unit

    def count(self, text: str, prefix: str = "") -> int:
        """Count the tokens that a text adds to those of a prefix; at least as many as it has alone."""
        alone = self._tokens(_sound(text))
        if not prefix or not text:
            return alone
        # Where prefix and text meet, they may be cut otherwise than apart.
        return max(alone, self._tokens(prefix + _sound(text)) - self._tokens(prefix))

    def overhead(self, prefix: str) -> int:
        """Count the tokens of a prefix and the special tokens."""
        counter = self._counter
        special = (
            self._tokenizer.num_special_tokens_to_add() if counter is None else counter.num_special_tokens_to_add(False)
        )
        return int(special) + self._tokens(prefix)

    def _tokens(self, text: str) -> int:
        if self._counter is not None:
            return len(self._counter.encode(text, add_special_tokens=False))
        return len(self._tokenizer.encode(text, add_special_tokens=False, verbose=False))


def measure(folder: Path, device: str, document_prefix: str) -> Facts:
    """Load a model to see what it is, and that its files hold all of it.

    A weight that the files lack is made at random, of which the libraries tell no more than a line in a
    log. So it is loaded twice, and has to give the same vector.

    Raises:
        ConfigError: it can't be loaded, or its files lack weights.
    """
    found = digest(folder)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = SentenceModel(folder, device)
        vector, limit, overhead = model.vector(_PROBE, ""), model.max_tokens, model.overhead(document_prefix)
        del model
        torch.manual_seed(2)
        again = SentenceModel(folder, device).vector(_PROBE, "")
    if not np.allclose(vector, again, atol=1e-3):
        raise ConfigError(
            f"{SECTION} model: the files in {folder} lack some of the model's weights: copy or fetch them again"
        )
    return Facts(found, len(vector), limit, overhead)


def _check_device(device: str) -> None:
    if not device:
        return
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # what torch raises for one it doesn't have
        raise ConfigError(
            f"{SECTION} device = {device!r} cannot be used ({_in_short(error)}); leave it empty to have one chosen"
        ) from error


def _why(folder: Path, error: Exception) -> str:
    if "trust_remote_code" in str(error):
        return (
            f"{SECTION} model: {folder} brings code of its own that would have to be run, which kb never does: choose "
            "another model"
        )
    return (
        f"{SECTION} model: {folder} cannot be loaded ({_in_short(error)}): its files may be damaged or not complete; "
        "copy or fetch them again"
    )


def _in_short(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:_LONGEST_REASON]}"


def _sound(text: str) -> str:
    """Half of a surrogate pair, which no tokenizer takes, becomes a question mark."""
    return text.encode("utf-8", "replace").decode()


@contextmanager
def _no_words() -> Iterator[None]:
    """Keep the libraries' bars and tables off the terminal while a model is loaded."""
    verbosity, bars = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(verbosity)
        if bars:
            transformers_logging.enable_progress_bar()
