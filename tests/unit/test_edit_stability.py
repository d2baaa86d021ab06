"""What an edit costs: how many chunks of a long document have to be embedded again."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cache
from typing import TypeAlias

import pytest

from benchmarks.made_markdown import FOLDERS, SECTION_BLOCKS, Language, as_document, made_markdown
from kb.chunking._spans import Budget
from kb.chunking.recursive import Options, RecursiveChunker
from kb.sentences import sentence_spans
from tests.contracts._counting import words

PAGES_200 = 600_000
"""Bytes: of 3,000 letters a page, or 1,000 Chinese or Japanese characters."""
MOST_CHANGED = 3
MEAN_CHANGED = 2
PARAGRAPH_TOKENS = Options().size_tokens // 2
Edit: TypeAlias = Callable[[str, random.Random], str]

LAYOUTS = {"sections": SECTION_BLOCKS, "hundreds of paragraphs without a heading": (200, 400)}


known_words = cache(words)


def count_words(texts: Sequence[str]) -> list[int]:
    return list(map(known_words, texts))


def chunk_ids(text: str) -> set[str]:
    options = Options()
    budget = Budget(words, options.size_tokens, options.header_tokens, 8192, count_words)
    return {chunk.id for chunk in RecursiveChunker(options, budget, "test").chunk(as_document(text))}


def another_sentence(text: str, dice: random.Random) -> str:
    """One sentence somewhere in the text replaced by another one of its language."""
    start, end = sentence_near(text, dice.randrange(len(text)))
    name = "en" if text[start:end].isascii() else dice.choice(("zh", "ja"))
    return text[:start] + language(name).sentence(dice) + text[end:]


def more_words(text: str, dice: random.Random) -> str:
    """A few words put into a sentence somewhere in the text."""
    start, end = sentence_near(text, dice.randrange(len(text)))
    at = dice.randrange(start, end)
    return f"{text[:at]} {language(dice.choice(list(FOLDERS))).phrase(dice)} {text[at:]}"


def paragraph_at_the_top(text: str, dice: random.Random) -> str:
    paragraph = language(dice.choice(list(FOLDERS))).paragraph(dice)
    # Not one that is a chunk or more by itself.
    return f"{paragraph}\n\n{text}" if words(paragraph) <= PARAGRAPH_TOKENS else paragraph_at_the_top(text, dice)


def paragraph_below_the_title(text: str, dice: random.Random) -> str:
    title, rest = text.split("\n\n", 1)
    return f"{title}\n\n{paragraph_at_the_top(rest, dice)}"


def sentence_near(text: str, offset: int) -> tuple[int, int]:
    """A sentence of a plain paragraph: the first one behind `offset`, or else the first one of all."""
    at = offset
    for block in text[offset:].split("\n\n")[1:]:
        at = text.index(block, at)
        if block[:1] not in "#-|`" and (spans := sentence_spans(block)):
            start, end = spans[offset % len(spans)]
            return at + start, at + end
    return sentence_near(text, 0)


language = cache(Language.read)

# How often each is tried.
EDITS: dict[Edit, int] = {another_sentence: 15, more_words: 10, paragraph_at_the_top: 5, paragraph_below_the_title: 8}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_of_a_200_page_document_changes_few_chunks(edit: Edit, layout: str) -> None:
    dice = random.Random(7)
    text = made_markdown(PAGES_200, 7, LAYOUTS[layout])
    before = chunk_ids(text)
    assert len(before) > 500
    changed = [len(chunk_ids(edit(text, dice)) - before) for _ in range(EDITS[edit])]
    assert min(changed) >= 1
    assert max(changed) <= MOST_CHANGED
    assert sum(changed) / len(changed) <= MEAN_CHANGED


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_sentence_that_is_changed_and_changed_back_changes_nothing(layout: str) -> None:
    text = made_markdown(PAGES_200 // 10, 8, LAYOUTS[layout])
    start, end = sentence_near(text, len(text) // 2)
    edited = f"{text[:start]}Another sentence.{text[end:]}"
    assert chunk_ids(edited) != chunk_ids(text) == chunk_ids(edited.replace("Another sentence.", text[start:end]))
