"""Markdown of any size in English, Chinese and Japanese, made of the sample documents' clauses and words.

The same seed gives the same text. Sentences are put together anew and words exchanged, so that hardly
one comes twice: a splitter that remembers what it has counted gains as little as on real text.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kb.loading._markdown_blocks import find_blocks
from kb.records import Document
from kb.sentences import sentence_spans

KNOWLEDGE_BASE = Path(__file__).resolve().parents[1] / "knowledge_base"
FOLDERS = {"en": ("api", "handbook", "support"), "zh": ("zh",), "ja": ("ja",)}
COMMAS = {"zh": "，", "ja": "、"}
SECTION_BLOCKS = (1, 9)
"""Paragraphs, lists, tables and fences between two headings: at least, at most."""
EXCHANGED = 0.25
"""The share of words (English) or clauses (Chinese, Japanese) in which something is exchanged."""

_MARKUP = re.compile(r"[\n|#`*>\[\]{}=]")
_CLAUSE = re.compile(r"[^、，：；。！？\s]{2,}")
_WORD = re.compile(r"[A-Za-z]{2,}")


@dataclass(frozen=True, slots=True)
class Language:
    """What is put together anew."""

    name: str
    sentences: list[str]
    parts: list[str]
    """Words (English) or clauses (Chinese, Japanese)."""

    @classmethod
    def read(cls, name: str) -> Language:
        """From the sample documents in that language."""
        texts = [
            path.read_text("utf-8")
            for folder in FOLDERS[name]
            for path in sorted((KNOWLEDGE_BASE / folder).iterdir())
            if path.suffix in {".md", ".txt"}
        ]
        sentences = [text[start:end] for text in texts for start, end in sentence_spans(text)]
        plain = [sentence for sentence in sentences if not _MARKUP.search(sentence)]
        return cls(name, plain, (_WORD if name == "en" else _CLAUSE).findall("\n".join(plain)))

    def sentence(self, dice: random.Random) -> str:
        """One that has hardly come before."""
        if self.name == "en":
            return _WORD.sub(
                lambda word: dice.choice(self.parts) if dice.random() < EXCHANGED else word.group(),
                dice.choice(self.sentences),
            )
        clauses = [dice.choice(self.parts) for _ in range(dice.randint(1, 4))]
        for at, clause in enumerate(clauses):
            if dice.random() < EXCHANGED:
                place = dice.randrange(len(clause))
                clauses[at] = clause[:place] + dice.choice(self.parts)[:2] + clause[place + 2 :]
        return COMMAS[self.name].join(clauses) + "。"

    def phrase(self, dice: random.Random) -> str:
        """A few words, as in a heading or a table cell."""
        return (
            " ".join(dice.choices(self.parts, k=dice.randint(1, 5))) if self.name == "en" else dice.choice(self.parts)
        )

    def paragraph(self, dice: random.Random) -> str:
        """One to a dozen sentences, mostly few."""
        number = min(dice.randint(1, 12), dice.randint(1, 12))
        return (" " if self.name == "en" else "").join(self.sentence(dice) for _ in range(number))

    def block(self, dice: random.Random) -> str:
        """A paragraph, or now and then a list, a table or a fence."""
        kind = dice.random()
        if kind < 0.8:
            return self.paragraph(dice)
        rows = range(dice.randint(2, 9))
        if kind < 0.9:
            return "\n".join(f"- {self.sentence(dice)}" for _ in rows)
        if kind < 0.96:
            cells = [f"| {self.phrase(dice)} | {self.phrase(dice)} | {dice.randint(1, 999)} |" for _ in rows]
            return "\n".join(["| A | B | C |", "|---|---|---|", *cells])
        return "\n".join(["```", *(f"{dice.choice(self.parts)} = {dice.randint(1, 999)}" for _ in rows), "```"])


def made_blocks(seed: int, section_blocks: tuple[int, int] = SECTION_BLOCKS) -> Iterator[str]:
    """Headings, paragraphs and other blocks without end, each section in one language."""
    dice = random.Random(seed)
    languages = [Language.read(name) for name in FOLDERS]
    while True:
        language = dice.choice(languages)
        yield f"{'#' * dice.randint(1, 4)} {language.phrase(dice)}"
        for _ in range(dice.randint(*section_blocks)):
            yield language.block(dice)


def made_markdown(size: int, seed: int, section_blocks: tuple[int, int] = SECTION_BLOCKS) -> str:
    """Text of `size` bytes of UTF-8 and what its last block has beyond that."""
    blocks: list[str] = []
    for block in made_blocks(seed, section_blocks):
        if size <= 0:
            break
        blocks.append(block)
        size -= len(block.encode()) + 2
    return "\n\n".join(blocks) + "\n"


def as_document(text: str) -> Document:
    """The document that the Markdown loader makes of `text`."""
    headings, blocks = find_blocks(text)
    return Document("made", "made.md", text, "Made", "markdown", headings=headings, blocks=blocks)
