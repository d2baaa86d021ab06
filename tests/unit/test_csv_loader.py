"""CSV: rows stay rows as the file has them, whatever stands in cells, and each chunk of a cut table knows the head."""

from __future__ import annotations

import csv
import io
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from kb.components import Parts, build_component
from kb.embedding import hashing
from kb.loading import load_document
from kb.loading.csv import find_delimiter, read_rows
from kb.records import Document

Load = Callable[..., Document]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Load a file of a text or of bytes."""

    def load_it(content: str | bytes, suffix: str = ".csv") -> Document:
        path = tmp_path / f"file-name{suffix}"
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return load_document(path)

    return load_it


def test_rows_become_lines_of_one_table_with_the_head_row_first(load: Load) -> None:
    document = load("商品,価格,備考\r\n座布団,3000円,\r\n花瓶,,割れ物\r\n")
    assert document.text == "商品,価格,備考\n座布団,3000円\n花瓶,,割れ物"
    assert [(b.kind, b.start, b.end) for b in document.blocks] == [("table", 0, len(document.text))]
    assert document.title == ""
    assert document.warnings == ()


def test_delimiters_quotes_and_line_breaks_in_a_cell_leave_the_row_whole(load: Load) -> None:
    document = load('id,note\n1,"line one\r\n  line two, with ""quotes"""\n2, "spaced" \n')
    assert document.text == 'id,note\n1,"line one line two, with ""quotes"""\n2,spaced'


@pytest.mark.parametrize(
    ("row", "line"),
    [
        ('a,",",c,d', 'a,",",c,d'),
        ('"a","b  b","","d"', "a,b  b,,d"),
        ('5" 管, ø 3 ,"c;d",', '5" 管, ø 3 ,c;d'),
        ('"5"" long","say ""no""",x,y', '"5"" long","say ""no""",x,y'),
        ('"品名\n（予備）",単価,数,計', "品名 （予備）,単価,数,計"),
    ],
)
def test_a_row_can_be_found_in_the_file_and_has_quotes_only_where_it_needs_them(
    load: Load, row: str, line: str
) -> None:
    assert load(f"1,2,3,4\n{row}\n5,6,7,8\n").text == f"1,2,3,4\n{line}\n5,6,7,8"


@pytest.mark.parametrize(
    ("content", "delimiter"),
    [
        ("Artikel;Preis\nStuhl;3,50\nTisch;12,00\n", ";"),
        ("Stuhl;3,50\nTisch;12,00\n", ";"),
        ("a;b\nx;1,5\ny;2,5;\nz;3,5\n", ";"),
        ("编号\t名称\n1\t退款, 七天\n", "\t"),
        ("a|b|c\n1|2|3\n", "|"),
        ('"a; b",c\n"d; e",f\n', ","),
        ("name,tags\np,x;y\nq,y;z\n", ","),
        ("a,b,c\n1\n1,2,3,4\n1,2\n", ","),
        ("comment\nI like it, really\nNo\nYes, but late, too\n", ""),
    ],
)
def test_the_delimiter_is_told_by_evidence(content: str, delimiter: str) -> None:
    assert find_delimiter(content) == delimiter


def test_rows_may_have_different_lengths(load: Load) -> None:
    assert load("a;b;c\n1;;\n1;2;3;4\n;;\n1;2\n").text == "a;b;c\n1\n1;2;3;4\n1;2"


def test_a_single_column_is_not_cut_at_its_commas(load: Load) -> None:
    document = load('comment\nI like it, really\n"No, ""never"""\nYes, but late, too\n')
    assert document.text == 'comment\nI like it, really\nNo, "never"\nYes, but late, too'


@pytest.mark.parametrize("first", ["sep=^\n", '"sep=^"\r\n', "SEP=^\n"])
def test_a_first_line_that_declares_the_separator_is_obeyed_and_left_out(load: Load, first: str) -> None:
    assert load(f'\ufeff{first}a,1^"b,2"\nc^"d^e"').text == 'a,1^b,2\nc^"d^e"'


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp932", "euc_jp"])
def test_other_encodings_are_read_and_guesses_reported(load: Load, encoding: str) -> None:
    rows = "氏名,部署,備考\n" + "佐藤太郎,総務部,会議室の予約は総務部へ連絡してください\n" * 5
    document = load(rows.encode(encoding))
    assert document.text.startswith("氏名,部署,備考\n佐藤太郎,総務部,会議室の予約は")
    assert any("is a guess" in warning for warning in document.warnings) == (encoding in ("cp932", "euc_jp"))


def test_a_guess_from_few_characters_is_flagged(load: Load) -> None:
    warning = load("名前,年齢\n佐藤,30\n".encode("cp932")).warnings[0]
    assert "so few characters that it may be wrong" in warning


def test_a_cell_may_be_longer_than_python_allows_and_its_limit_is_left_alone(load: Load) -> None:
    before = csv.field_size_limit()
    assert load(f'a,b\n1,"{"x" * 200_000} end"\n').text.endswith("x end")
    assert csv.field_size_limit() == before


def test_a_quote_that_is_never_closed_swallows_no_rows(load: Load) -> None:
    assert load('size,name\n"3 inch,pipe\n5" long,hose\n').text == 'size,name\n"3 inch,pipe\n5" long,hose'


def test_lines_above_the_table_are_no_rows_and_the_first_is_the_title(load: Load) -> None:
    document = load("运费表,,\n自一月起,,\n,,\n城市,首重,续重\n大阪,12,3\n")
    assert document.text == "运费表\n\n自一月起\n\n城市,首重,续重\n大阪,12,3"
    assert document.title == "运费表"
    assert [document.text[b.start : b.end] for b in document.blocks] == ["城市,首重,续重\n大阪,12,3"]
    assert load('"Report, January",,\na,b,c\n1,2,3\n').title == "Report, January"


@pytest.mark.parametrize("content", ["", "\n\n", ",,\n,,\n", "\ufeff", "sep=;\n", '""\n"\u200b"'])
def test_a_file_without_words_is_reported(load: Load, content: str) -> None:
    document = load(content)
    assert (document.text, document.blocks, document.warnings) == ("", (), ("no text in it",))


def test_control_characters_and_odd_line_ends_make_no_rows(load: Load) -> None:
    assert load("a,b\r1,x\x0by\u2028z\x00\r2,\x1b[31mred\x1b[0m").text == "a,b\n1,x y z\n2,red"


def test_tabs_part_the_cells_of_a_tsv(load: Load) -> None:
    assert load('a\tb\n1\t"x\ty"\n', ".tsv").text == 'a\tb\n1\t"x\ty"'


def test_an_empty_first_cell_is_not_lost_where_a_chunk_begins_with_it(load: Load) -> None:
    text = load("\t一月\t二月\n大阪\t1\t2\n\t3\t4\n", ".tsv").text
    assert text == '""\t一月\t二月\n大阪\t1\t2\n""\t3\t4'


@pytest.mark.parametrize("seed", range(5))
def test_what_python_writes_is_read_as_it_was(seed: int) -> None:
    rnd = random.Random(seed)
    for _ in range(200):
        width = rnd.randrange(2, 5)
        cells = ["".join(rnd.choice('ab"\n,; é漢\t') for _ in range(rnd.randrange(5))) for _ in range(width * 4)]
        rows = [cells[at : at + width] for at in range(0, len(cells), width)]
        delimiter, written = rnd.choice(",;\t"), io.StringIO()
        quoting: Literal[0, 1] = rnd.choice((csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
        csv.writer(written, delimiter=delimiter, quoting=quoting, lineterminator="\n").writerows(rows)
        assert list(read_rows(written.getvalue(), delimiter)) == rows


def test_every_chunk_of_a_cut_table_is_embedded_with_the_head_row(load: Load) -> None:
    rows = "".join(f'SKU-{n},"部品 {n}, 予備",棚{n % 9}\n' for n in range(300))
    document = load(f"型番,名称,場所\n{rows}")
    embedder = hashing.build(hashing.Options(), Parts())
    parts = Parts(embedder=embedder, count_tokens=embedder.count_tokens)
    chunks = build_component("chunking", "recursive", {}, parts).chunk(document)
    assert len(chunks) > 5
    assert all("型番,名称,場所" in chunk.embedded_text for chunk in chunks)
    assert all(line.count(",") in (2, 3) for chunk in chunks for line in chunk.text.split("\n"))


@pytest.mark.parametrize(
    "piece",
    ['"', '"x,', ',""x', ',"""', '"a\n', " ", ' x,"', "a,", "a;b,c\n", '"a"\n', '""', "é,"],
)
def test_time_grows_with_the_size_and_not_faster(load: Load, piece: str) -> None:
    def seconds(copies: int) -> float:
        content = piece * copies
        began = time.perf_counter()
        load(content)
        return time.perf_counter() - began

    copies = 400_000 // len(piece)
    assert seconds(copies) < 8 * seconds(copies // 4) + 1
