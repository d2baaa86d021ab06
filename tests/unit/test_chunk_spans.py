"""From spans to chunks: ids, pages, heading paths, and headers within their budget."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kb.chunking._spans import Budget, build_chunks, chunk_id, trim
from kb.records import Block, Chunk, Document, Heading, Page

MANUAL = """# Gateway

Intro.

## Limits

### Requests

Sixty a minute.

## Errors
### ERR_429

Wait.
"""


def words(text: str) -> int:
    return len(text.split())


def strict_words(text: str) -> int:
    """Counts the blank line between header and text as three tokens."""
    return len(text.split()) + 3 * text.count("\n\n")


def headings_of(text: str) -> tuple[Heading, ...]:
    found, at = [], 0
    for line in text.splitlines(keepends=True):
        if line.startswith("#"):
            mark, _, name = line.rstrip().partition(" ")
            found.append(Heading(len(mark), name, at, at + len(line.rstrip())))
        at += len(line)
    return tuple(found)


def manual(title: str = "Gateway", text: str = MANUAL) -> Document:
    return Document("d", "manual.md", text, title, "markdown", headings=headings_of(text))


def chunk_at(
    document: Document, words_there: str, header_tokens: int = 20, count: Callable[[str], int] = words, room: int = 500
) -> Chunk:
    start = document.text.index(words_there)
    budget = Budget(count, text_tokens=20, header_tokens=header_tokens, room=room)
    (chunk,) = build_chunks(document, [(start, start + len(words_there))], budget)
    return chunk


@pytest.mark.parametrize(
    ("text", "expected"),
    [("  a b \n", (2, 5)), ("\u3000字\u3000", (1, 2)), ("a", (0, 1)), (" \n\t", (0, 0)), ("", (0, 0))],
)
def test_trim_takes_white_space_of_every_script_from_both_ends(text: str, expected: tuple[int, int]) -> None:
    assert trim(text, 0, len(text)) == expected


def test_equal_texts_of_one_document_get_different_ids_and_keep_them_when_text_is_put_before() -> None:
    def ids(text: str, spans: list[tuple[int, int]]) -> list[str]:
        return [c.id for c in build_chunks(manual(text=text), spans, Budget(words, 20, 0, 500))]

    before = ids("same same other", [(0, 4), (5, 9), (10, 15)])
    after = ids("new same same other", [(0, 3), (4, 8), (9, 13), (14, 19)])
    assert len(set(before)) == 3
    assert after[1:] == before


def test_equal_texts_of_two_documents_get_different_ids() -> None:
    assert chunk_id("a", "text", 0) != chunk_id("b", "text", 0)


@pytest.mark.parametrize(
    ("there", "path"),
    [
        ("Intro.", ("Gateway",)),
        ("Sixty", ("Gateway", "Limits", "Requests")),
        ("Wait.", ("Gateway", "Errors", "ERR_429")),
        # A chunk that begins with heading lines is about what the last of them says.
        ("## Limits", ("Gateway", "Limits", "Requests")),
        ("## Errors", ("Gateway", "Errors", "ERR_429")),
        ("# Gateway", ("Gateway",)),
    ],
)
def test_heading_path_holds_the_headings_open_at_the_start(there: str, path: tuple[str, ...]) -> None:
    assert chunk_at(manual(), there).heading_path == path


def test_text_before_the_first_heading_has_no_path() -> None:
    assert chunk_at(manual(text="Preface.\n\n# One\n"), "Preface.").heading_path == ()


def test_a_chunk_has_the_page_on_which_it_starts_and_blank_pages_count() -> None:
    pages = (Page(1, 0, 4), Page(2, 4, 4), Page(3, 4, 8))
    document = Document("d", "scan.pdf", "one two ", "", "pdf", pages=pages)
    chunks = build_chunks(document, [(0, 3), (4, 7)], Budget(words, 20, 0, 500))
    assert [chunk.page for chunk in chunks] == [1, 3]


def test_header_is_title_and_heading_path_without_saying_the_title_twice() -> None:
    assert chunk_at(manual(), "Sixty").header == "Gateway › Limits › Requests"
    assert chunk_at(manual(title="Manual"), "Sixty").header == "Manual › Gateway › Limits › Requests"
    assert chunk_at(manual(title=""), "Sixty").embedded_text == "Gateway › Limits › Requests\n\nSixty"


def test_title_comes_from_the_content_never_from_the_file_name() -> None:
    assert chunk_at(manual(title="", text="Only text."), "Only").header == ""


@pytest.mark.parametrize(
    ("header_tokens", "header"),
    [
        (7, "Manual › Gateway › Limits › Requests"),
        (6, "Manual › Gateway › Requests"),
        (4, "Manual › Requests"),
        (2, "Requests"),
        (1, "Requests"),
        (0, ""),
    ],
)
def test_a_header_that_is_too_long_keeps_the_title_and_the_innermost_heading(header_tokens: int, header: str) -> None:
    assert chunk_at(manual(title="Manual"), "Sixty", header_tokens).header == header


def test_header_gives_way_where_header_and_text_together_are_more_than_the_embedder_takes() -> None:
    # "Manual › Gateway › Limits › Requests" has 7 words, the text 3, the joint 3 more.
    for room, header_words in ((13, 7), (12, 5), (9, 3), (7, 1), (6, 0)):
        chunk = chunk_at(manual(title="Manual"), "Sixty a minute.", 20, strict_words, room)
        assert words(chunk.header) == header_words
        assert strict_words(chunk.embedded_text) <= room


def test_a_continued_table_has_its_head_row_in_the_header_and_its_beginning_has_not() -> None:
    text = "# T\n\n| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n\nafter"
    table = Block("table", 5, text.index("\n\nafter"))
    document = Document("d", "t.md", text, "T", "markdown", headings=headings_of(text), blocks=(table,))
    assert chunk_at(document, "| 3 | 4 |").header == "T\n\n| a | b |"
    assert chunk_at(document, "| a | b |").header == "T"
    assert chunk_at(document, "after").header == "T"
    # The head row says what the numbers mean, so it stays longest.
    assert chunk_at(document, "| 3 | 4 |", header_tokens=5).header == "| a | b |"
    assert chunk_at(document, "| 3 | 4 |", header_tokens=4).header == "T"


def test_a_table_of_one_row_and_the_text_within_a_head_row_have_no_head_row_above() -> None:
    text = "a,b c,d\n1,2 3,4"
    for table in (Block("table", 0, len(text)), Block("table", 0, text.index("\n"))):
        document = Document("d", "t.csv", text, "", "csv", blocks=(table,))
        assert chunk_at(document, "c,d").header == ""
        assert chunk_at(document, "3,4").header == ("a,b c,d" if table.end == len(text) else "")


def test_line_ends_in_a_title_do_not_reach_the_header() -> None:
    assert chunk_at(manual(title="Gateway\nmanual", text="Only."), "Only.").header == "Gateway manual"
