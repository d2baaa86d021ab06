"""Where the default chunker cuts, what it keeps together, and what an edit moves."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchmarks.made_markdown import as_document, made_markdown
from kb.chunking._spans import Budget
from kb.chunking.recursive import Options, RecursiveChunker, build
from kb.components import Parts, build_component
from kb.errors import ConfigError
from kb.records import Block, BlockKind, Chunk, Document, Heading, Page

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+|[^\w\s]")


def tokens(text: str) -> int:
    """One for each word, sign, and Han or kana character."""
    return len(_WORD.findall(text))


def utf8_bytes(text: str) -> int:
    return len(text.encode())


def chunker(count: Callable[[str], int] = tokens, **options: int) -> RecursiveChunker:
    settings = Options(**{"size_tokens": 30, "min_tokens": 0, "header_tokens": 0, **options})
    return RecursiveChunker(settings, Budget(count, settings.size_tokens, settings.header_tokens, 8192), "test")


def markdown(text: str, blocks: Sequence[tuple[BlockKind, str]] = (), pages: tuple[Page, ...] = ()) -> Document:
    """A document whose headings are its `#` lines, and whose blocks are the given pieces of its text."""
    headings, at = [], 0
    for line in text.splitlines(keepends=True):
        if line.startswith("#"):
            mark, _, name = line.rstrip().partition(" ")
            headings.append(Heading(len(mark), name, at, at + len(line.rstrip())))
        at += len(line)
    found = tuple(Block(kind, text.index(part), text.index(part) + len(part)) for kind, part in blocks)
    return Document("d", "d.md", text, "", "markdown", pages=pages, headings=tuple(headings), blocks=found)


def texts(chunks: Sequence[Chunk]) -> list[str]:
    return [chunk.text for chunk in chunks]


def sentence(words: int, name: str = "word") -> str:
    """A sentence of exactly `words` tokens, its full stop included."""
    return f"{name.capitalize()} " + " ".join([name] * (words - 2)) + "."


def prose(paragraphs: int, seed: int) -> str:
    dice = random.Random(seed)
    names = ["gateway", "window", "limit", "request", "answer", "token", "retry", "ledger", "store", "chunk"]
    return "\n\n".join(
        " ".join(
            " ".join(dice.choices(names, k=dice.randint(4, 12))).capitalize() + "." for _ in range(dice.randint(1, 4))
        )
        for _ in range(paragraphs)
    )


# Boundaries


def test_what_fits_is_one_chunk() -> None:
    assert texts(chunker().chunk(markdown("One.\n\nTwo.\n"))) == ["One.\n\nTwo."]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{sentence(20)}\n\n{sentence(8)} {sentence(8)}", [20, 16]),
        (f"{sentence(12)}\n{sentence(12)} {sentence(12)}", [12, 24]),
        (f"{sentence(12)} {sentence(12)} Aa {'aa ' * 5}, {'aa ' * 9}", [24, 16]),
        ("aa " * 20 + ", " + "aa " * 20, [21, 20]),
        ("aa " * 50, [29, 11, 10]),
        ("知识库的文档检索向量。" * 4, [22, 22]),
        ("知识库的文档检索向量，" * 4, [22, 22]),
        ("知" * 65, [30, 30, 5]),
    ],
    ids=["blank line", "line", "sentence", "clause", "space", "Han sentence", "Han clause", "character"],
)
def test_text_is_cut_at_its_best_boundary(text: str, expected: list[int]) -> None:
    assert [tokens(chunk.text) for chunk in chunker().chunk(markdown(text))] == expected


def test_a_blank_line_in_the_second_half_is_better_than_a_fuller_chunk() -> None:
    text = f"{sentence(18)}\n\n{sentence(10)} {sentence(10)} {sentence(8)}"
    assert [tokens(chunk.text) for chunk in chunker().chunk(markdown(text))] == [18, 28]


def test_a_small_last_chunk_takes_a_paragraph_from_the_one_before() -> None:
    text = f"{sentence(14)}\n\n{sentence(14)}\n\n{sentence(5)}"
    assert [tokens(chunk.text) for chunk in chunker(min_tokens=7).chunk(markdown(text))] == [14, 19]


def test_a_small_first_paragraph_takes_sentences_from_the_next() -> None:
    text = f"Intro.\n\n{sentence(10)} {sentence(10)} {sentence(10)}"
    assert [tokens(chunk.text) for chunk in chunker(min_tokens=7).chunk(markdown(text))] == [12, 20]


def test_lines_that_were_only_wrapped_are_not_cut_amid_a_sentence() -> None:
    words = (sentence(14) + " " + sentence(14, "PDF") + " " + sentence(14, "API")).split()
    wrapped = "\n".join(" ".join(words[at : at + 6]) for at in range(0, len(words), 6))
    assert all(chunk.text.endswith(".") for chunk in chunker().chunk(markdown(wrapped)))


def test_lines_without_full_stops_are_cut_at_line_ends() -> None:
    text = "\n".join(f"Host{at} up" for at in range(60))
    for chunk in chunker().chunk(markdown(text)):
        assert chunk.text.startswith("Host")
        assert chunk.text.endswith("up")


def test_a_letter_is_not_torn_from_its_marks_nor_an_emoji_sequence_when_it_fits() -> None:
    family = "👩\u200d👩\u200d👧"  # 18 bytes
    for unit in (family, "e\u0301\u0323", "👍🏽"):
        for chunk in chunker(utf8_bytes, size_tokens=40).chunk(markdown(unit * 30)):
            assert chunk.text.replace(unit, "") == ""


def test_an_emoji_of_more_tokens_than_a_chunk_is_cut_inside() -> None:
    couple = "👩🏽\u200d❤\ufe0f\u200d💋\u200d👨🏾"  # 35 bytes
    chunks = chunker(utf8_bytes, size_tokens=16).chunk(markdown(couple))
    assert "".join(texts(chunks)) == couple
    assert max(utf8_bytes(chunk.text) for chunk in chunks) <= 16


def test_a_single_character_of_more_tokens_than_a_chunk_is_a_chunk() -> None:
    chunks = chunker(lambda text: 20 * text.count("\ufdfa") + text.count("a"), size_tokens=16).chunk(
        markdown("aa\ufdfa\ufdfaaa")
    )
    assert texts(chunks) == ["aa", "\ufdfa", "\ufdfa", "aa"]


def test_a_count_that_does_not_add_up_still_gives_exact_sizes() -> None:
    def count(text: str) -> int:  # every blank line costs more than its length lets expect
        return tokens(text) + 5 * text.count("\n\n")

    chunks = chunker(count).chunk(markdown("\n\n".join(sentence(3, f"word{at}") for at in range(40))))
    assert max(count(chunk.text) for chunk in chunks) == 27  # 4 × 3 + 3 × 5; a fifth paragraph would make 35


# Sections


def test_a_section_is_a_chunk_of_its_own() -> None:
    text = "# One\n\nFirst text.\n\n# Two\n\nSecond text.\n"
    assert texts(chunker().chunk(markdown(text))) == ["# One\n\nFirst text.", "# Two\n\nSecond text."]


def test_tiny_sections_are_joined_while_they_fit() -> None:
    text = "\n\n".join(f"## Q{at}\n\nAnswer {at}." for at in range(6))  # 6 tokens each
    chunks = chunker(min_tokens=10).chunk(markdown(text))
    assert all(10 <= tokens(chunk.text) <= 30 and chunk.text.startswith("## Q") for chunk in chunks)
    assert sum(tokens(chunk.text) for chunk in chunks) == 36


def test_a_tiny_section_joins_the_one_before_rather_than_the_next_chapter() -> None:
    text = f"# A\n\n{sentence(10)}\n\n## Note\n\nTiny.\n\n# B\n\n{sentence(10)}"
    first, second = chunker(min_tokens=8).chunk(markdown(text))
    assert first.text.endswith("Tiny.")
    assert second.heading_path == ("B",)


def test_a_tiny_section_that_fits_nowhere_stands_alone() -> None:
    text = f"# A\n\n{sentence(26)}\n\n# B\n\nTiny.\n\n# C\n\n{sentence(26)}"
    assert [chunk.heading_path for chunk in chunker(min_tokens=8).chunk(markdown(text))] == [("A",), ("B",), ("C",)]


@pytest.mark.parametrize("min_tokens", [0, 12])
def test_a_heading_stays_with_what_follows_it(min_tokens: int) -> None:
    long = " ".join(sentence(9) for _ in range(3))
    text = f"# Manual\n\n## Part\n\n{long}\n\n{long}\n\n## Empty\n\n### Inner\n\n{'知' * 40}\n\n## Last\n\n{'aa ' * 28}"
    for chunk in chunker(min_tokens=min_tokens).chunk(markdown(text)):
        assert not chunk.text.splitlines()[-1].startswith("#")


def test_a_heading_longer_than_a_chunk_is_text_like_any_other() -> None:
    text = f"# {sentence(40)}\n\nText."
    chunks = chunker().chunk(markdown(text))
    assert max(tokens(chunk.text) for chunk in chunks) <= 30
    assert "".join("".join(texts(chunks)).split()) == "".join(text.split())


def test_a_page_that_ends_with_a_sentence_is_a_boundary_and_one_that_does_not_is_none() -> None:
    finished, unfinished = "The first page ends.\n", "The first page goes"
    for first, expected in ((finished, 2), (unfinished, 1)):
        text = first + "\non with this."
        pages = (Page(1, 0, len(first)), Page(2, len(first), len(text)))
        assert len(chunker().chunk(markdown(text, pages=pages))) == expected


def test_a_heading_at_the_end_of_a_page_stays_with_the_text_on_the_next() -> None:
    text = "# Why?\nBecause."
    pages = (Page(1, 0, 7), Page(2, 7, len(text)))
    assert texts(chunker().chunk(markdown(text, pages=pages))) == [text]


# Blocks

TABLE = "| name | value |\n|---|---|\n" + "\n".join(f"| row{at} | {at} |" for at in range(3))
CODE = "```\n" + "\n\n".join(f"call{at}()" for at in range(4)) + "\n```"
LIST = "\n".join(f"- item {at} of this." for at in range(4))
MATH = "$$\na + b + c + d = e\nf - g - h = i\n$$"


@pytest.mark.parametrize("kind", ["table", "code", "list", "math"])
@pytest.mark.parametrize("around", range(0, 29, 4))
def test_a_block_that_fits_is_never_cut(kind: BlockKind, around: int) -> None:
    part = {"table": TABLE, "code": CODE, "list": LIST, "math": MATH}[kind]
    for heading in ("", "# Heading\n\n"):
        text = f"{heading}{'aa ' * around}\n\n{part}\n\n{'bb ' * around}"
        size = tokens(part)
        for overlap in (0, size // 3):
            chunks = chunker(size_tokens=size, overlap_tokens=overlap).chunk(markdown(text, [(kind, part)]))
            assert sum(part in chunk.text for chunk in chunks) == 1
            assert max(tokens(chunk.text) for chunk in chunks) <= size


def test_a_heading_in_a_block_is_no_boundary() -> None:
    code = "```\n# comment\nrun()\n```"
    assert texts(chunker().chunk(markdown(code, [("code", code)]))) == [code]


def test_a_table_that_does_not_fit_is_cut_between_rows_with_its_head_row_in_the_header() -> None:
    table = "| name | value |\n|---|---|\n" + "\n".join(f"| row{at} | {at} |" for at in range(20))
    chunks = chunker(header_tokens=12).chunk(markdown(f"# Values\n\n{table}\n\nAfter.", [("table", table)]))
    assert chunks[0].text.startswith("# Values\n\n| name | value |\n|---|---|\n| row0 | 0 |")
    assert chunks[-1].text == "After."
    for chunk in chunks[1:-1]:
        assert chunk.header == "Values\n\n| name | value |"
        assert re.match(r"\| row\d+ \|", chunk.text)
    rows = [row for chunk in chunks for row in chunk.text.split("\n") if row.startswith("| row")]
    assert rows == [f"| row{at} | {at} |" for at in range(20)]


def test_the_head_of_a_table_is_never_left_without_a_row() -> None:
    table = "| name | value |\n|---|---|\n" + "\n".join(f"| row{at} | {at} |" for at in range(20))
    for before in range(30):
        for chunk in chunker().chunk(markdown(f"{'aa ' * before}\n\n{table}", [("table", table)])):
            assert not chunk.text.endswith(("| value |", "|---|"))


def test_a_list_that_does_not_fit_is_cut_between_items() -> None:
    items = "\n".join(f"- item {at} is\n  wrapped here." for at in range(20))
    for chunk in chunker().chunk(markdown(items, [("list", items)])):
        assert chunk.text.startswith("- item")
        assert chunk.text.endswith("here.")


def test_a_list_stays_with_the_line_that_announces_it() -> None:
    text = f"{sentence(16)}\n\nThe steps are these:\n\n{LIST}"
    first, second = chunker(size_tokens=32).chunk(markdown(text, [("list", LIST)]))
    assert tokens(first.text) == 16
    assert second.text.startswith("The steps are these:\n\n- item 0")


def test_code_that_does_not_fit_is_cut_at_blank_lines_before_other_lines() -> None:
    code = "```\n" + "\n\n".join(f"def f{at}():\n    return g{at}()" for at in range(9)) + "\n```"
    chunks = chunker().chunk(markdown(code, [("code", code)]))
    assert len(chunks) > 1
    assert all(chunk.text.startswith(("def", "```")) for chunk in chunks)


# Overlap


def test_overlap_begins_at_a_sentence_and_is_within_the_size() -> None:
    text = " ".join(sentence(3 + at % 3, f"ab{at}") for at in range(25))
    chunks = chunker(overlap_tokens=10).chunk(markdown(text))
    assert len(chunks) > 3
    for before, chunk in pairwise(chunks):
        assert before.start < chunk.start < before.end < chunk.end
        assert chunk.text.startswith("Ab")
        assert tokens(text[chunk.start : before.end]) <= 10
        assert tokens(chunk.text) <= 30


def test_overlap_takes_nothing_from_above_a_heading_or_from_a_block() -> None:
    table = "| n | v |\n|---|---|\n" + "\n".join(f"| r{at} | {at} |" for at in range(9))
    text = f"# A\n\n{sentence(9)}\n\n# B\n\n{sentence(20)} {sentence(5)}\n\n{table}\n\n{sentence(25)}"
    chunks = chunker(overlap_tokens=8).chunk(markdown(text, [("table", table)]))
    rows = [row for chunk in chunks for row in chunk.text.split("\n") if row.startswith("| r")]
    assert rows == [f"| r{at} | {at} |" for at in range(9)]
    assert [chunk.heading_path for chunk in chunks if "# A" in chunk.text] == [("A",)]
    assert chunks[1].text.startswith("# B")


# Edits


def test_an_edit_at_the_top_leaves_all_chunks_of_other_sections_alone() -> None:
    sections = [f"## Section {at}\n\n{prose(6, at)}" for at in range(12)]
    before = chunker(min_tokens=8).chunk(markdown("\n\n".join(sections)))
    changed = [sections[0] + "\n\nOne more paragraph at the end of the first section.", *sections[1:]]
    after = chunker(min_tokens=8).chunk(markdown("\n\n".join(changed)))

    def ids(chunks: Sequence[Chunk]) -> list[str]:
        return [chunk.id for chunk in chunks if chunk.heading_path != ("Section 0",)]

    assert ids(before) == ids(after)
    assert len(ids(before)) > 40


@pytest.mark.parametrize("added", ["One word more. ", "A new paragraph of its own, somewhat longer.\n\n"])
def test_an_edit_in_a_long_text_without_headings_moves_few_boundaries(added: str) -> None:
    kept = []
    for seed in range(10):
        text = prose(150, seed)
        before = {chunk.id for chunk in chunker().chunk(markdown(text))}
        after = {chunk.id for chunk in chunker().chunk(markdown(added + text))}
        kept.append(len(before & after) / len(before))
    assert sum(kept) / len(kept) > 0.95
    assert min(kept) > 0.85


# Cost

SHAPES: dict[str, Callable[[int], Document]] = {
    "prose": lambda n: markdown(prose(n, 3)),
    "sections": lambda n: markdown("\n\n".join(f"## S{at}\n\n{sentence(40)}" for at in range(n))),
    "one line of words": lambda n: markdown("word " * n * 30),
    "Han without a space": lambda n: markdown("知" * n * 60),
    "one long word": lambda n: markdown("x" * n * 100),
    "tiny paragraphs": lambda n: markdown("a\n\n" * n * 20),
    "far apart": lambda n: markdown(("a" + " " * 300) * n),
    "many blocks": lambda n: _many_blocks(n),
    "one large table": lambda n: _large_table(n),
    "emoji sequence": lambda n: markdown("👩\u200d" * n * 30),
}


def _many_blocks(n: int) -> Document:
    rows, blocks, at = [], [], 0
    for number in range(n * 2):
        rows.append(f"- item {number}\n- other {number}")
        blocks.append(Block("list", at, at + len(rows[-1])))
        at += len(rows[-1]) + 2
    return Document("d", "d.md", "\n\n".join(rows), "", "markdown", blocks=tuple(blocks))


def _large_table(n: int) -> Document:
    table = "| a | b |\n|---|---|\n" + "\n".join(f"| {at} | value |" for at in range(n * 5))
    return Document("d", "d.md", table, "", "markdown", blocks=(Block("table", 0, len(table)),))


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("overlap", [0, 10])
def test_each_character_is_counted_a_few_times_whatever_the_text(
    shape: Callable[[int], Document], overlap: int
) -> None:
    counted = 0

    def count(text: str) -> int:
        nonlocal counted
        counted += len(text)
        return -(-len(text.encode()) // 3)

    document = shape(200)
    chunker(count, overlap_tokens=overlap, min_tokens=8).chunk(document)
    assert counted <= (4.5 if not overlap else 7) * len(document.text)


@pytest.mark.parametrize("size", [20_000, 200_000])
def test_each_character_is_counted_about_once_when_counts_of_words_add_up(size: int) -> None:
    counted = 0

    def count(text: str) -> int:
        nonlocal counted
        counted += len(text)
        return tokens(text)

    def count_words(words: Sequence[str]) -> list[int]:
        return list(map(count, words))

    document = as_document(made_markdown(size, 5))
    settings = Options()
    budget = Budget(count, settings.size_tokens, settings.header_tokens, 8192, count_words)
    RecursiveChunker(settings, budget, "test").chunk(document)
    # Above one: headers, and sentences of Chinese and Japanese paragraphs, which have no spaces, that are cut.
    assert counted <= 1.5 * len(document.text)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_time_grows_no_faster_than_the_text(shape: Callable[[int], Document]) -> None:
    def seconds(document: Document) -> float:
        best = 1e9
        for _ in range(3):
            started = time.process_time()
            chunker(lambda text: len(text) // 4 + 1, min_tokens=8).chunk(document)
            best = min(best, time.process_time() - started)
        return best

    small, large = shape(100), shape(2000)
    # Twenty times the text: 20, and twice that where caches and garbage count; quadratic time would be 400.
    assert seconds(large) <= 100 * max(seconds(small), 0.0005)


# Settings


def embedder(max_tokens: int) -> Any:
    return SimpleNamespace(
        name="small", fingerprint="small", max_tokens=max_tokens, token_overhead=5, count_tokens=tokens
    )


def lent(max_tokens: int) -> Parts:
    return Parts(embedder=embedder(max_tokens), count_tokens=cast(Any, tokens))


def test_a_size_that_does_not_fit_the_embedder_is_refused_with_what_fits() -> None:
    build(Options(size_tokens=100, header_tokens=20), lent(125))
    with pytest.raises(ConfigError, match=r"\[chunking.recursive\] size_tokens = 101 .* lower size_tokens to 100 or"):
        build(Options(size_tokens=101, header_tokens=20), lent(125))


def test_an_overlap_of_more_than_half_the_size_is_refused() -> None:
    build(Options(size_tokens=100, overlap_tokens=50), lent(512))
    with pytest.raises(ConfigError, match="overlap_tokens = 51; allowed: at most 50"):
        build(Options(size_tokens=100, overlap_tokens=51), lent(512))


def test_an_embedder_that_cannot_count_is_refused() -> None:
    with pytest.raises(ConfigError, match="counts tokens"):
        build(Options(), Parts())


def test_the_fingerprint_names_what_shapes_the_chunks() -> None:
    ways: list[dict[str, int]] = [
        {},
        {"size_tokens": 299},
        {"overlap_tokens": 9},
        {"min_tokens": 9},
        {"header_tokens": 9},
    ]
    assert len({build(Options(**way), lent(512)).fingerprint for way in ways}) == len(ways)


def test_the_fingerprint_names_the_vocabulary_of_an_embedder_that_has_more_than_one() -> None:
    def fingerprint(**more: Any) -> str:
        parts = Parts(embedder=SimpleNamespace(**vars(embedder(512)), **more), count_tokens=cast(Any, tokens))
        return build(Options(), parts).fingerprint

    assert fingerprint() == build(Options(), lent(512)).fingerprint
    assert len({fingerprint(), fingerprint(counts_by="bytes"), fingerprint(counts_by="cl100k_base")}) == 3


def test_the_fingerprint_of_chunks_for_a_service_says_what_counts_its_tokens() -> None:
    options = {"vocabulary": "bytes", "dimensions": 8}
    service = build_component("embedding", "openai", options, Parts(secret={"OPENAI_API_KEY": "none"}.get))
    parts = Parts(embedder=service, count_tokens=service.count_tokens)
    assert build(Options(), parts).fingerprint.endswith(f" for {service.fingerprint} counted by bytes")
