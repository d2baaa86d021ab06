"""Documents that broke other systems, through whole ingests: what is kept, cut right, reported or refused."""

from __future__ import annotations

import io
import os
import re
import zipfile
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pypdf
import pytest

from kb.errors import ConfigError
from kb.ingest.report import IngestReport
from kb.ledger.ledger import Ledger
from kb.records import Chunk
from tests.docx_writer import cell, docx, paragraph, row, table
from tests.end_to_end._bases import CountingEmbedder, Place, a_text
from tests.pdf_writer import endless_pdf, pdf

SIZE, OVERLAP, HEADER = 40, 10, 16


def chunked(**options: int) -> dict[str, Any]:
    return {"chunking": {"recursive": {"size_tokens": SIZE, "min_tokens": 0, "header_tokens": HEADER, **options}}}


@pytest.fixture
def embedder() -> CountingEmbedder:
    return CountingEmbedder()


@pytest.fixture
def place(tmp_path: Path, embedder: CountingEmbedder) -> Place:
    return Place(tmp_path / "documents", tmp_path / "data", embedder=embedder)


def chunks_of(place: Place, source: str) -> list[Chunk]:
    with Ledger(place.folder, read_only=True) as ledger:
        generation = ledger.current_generation()
        assert generation is not None
        chunks = [found.chunk for found in ledger.all_chunks(generation.number) if found.source == source]
    return sorted(chunks, key=lambda chunk: chunk.start)


def uncovered(text: str, chunks: Iterable[Chunk]) -> str:
    """The characters of `text`, blanks apart, that no chunk holds; fails when a span is not its chunk's text."""
    covered = bytearray(len(text))
    for chunk in chunks:
        assert text[chunk.start : chunk.end] == chunk.text
        covered[chunk.start : chunk.end] = b"\1" * len(chunk.text)
    return "".join(c for c, done in zip(text, covered, strict=True) if not done and not c.isspace())


def problems(report: IngestReport, status: str) -> Mapping[str, str]:
    """The reasons of one status by path."""
    return {problem.path: problem.reason for problem in report.problems if problem.status == status}


# Cutting


@pytest.mark.parametrize(
    "characters", ["知识库检索增强生成向量", "荷物は倉庫で保管されます", "배송은창고에서시작됩니다"]
)
def test_8000_characters_without_a_space_stay_within_the_size_overlap_and_header_included(
    place: Place, embedder: CountingEmbedder, characters: str
) -> None:
    text = (characters * 800)[:8000]
    place.write("long.md", f"# 手册\n\n{text}")
    place.ingest(options=chunked(overlap_tokens=OVERLAP))
    chunks = chunks_of(place, "long.md")
    assert uncovered(f"# 手册\n\n{text}", chunks) == ""
    assert max(embedder.count_tokens(chunk.text) for chunk in chunks) <= SIZE
    assert max(map(embedder.count_tokens, embedder.sent)) <= SIZE + HEADER
    assert all(sent.startswith("手册\n\n") for sent in embedder.sent if not sent.startswith("#"))


@pytest.mark.parametrize("overlap", [SIZE, SIZE - 1])
def test_an_overlap_as_large_as_a_chunk_is_refused_before_anything_is_read(place: Place, overlap: int) -> None:
    place.write("a.md", a_text(["one"]))
    with pytest.raises(ConfigError, match=f"overlap_tokens = {overlap}; allowed: at most {SIZE // 2}"):
        place.ingest(options=chunked(overlap_tokens=overlap))


@pytest.mark.parametrize(
    "text", ["x" * 2000, "👩🏽‍❤️‍💋‍👨🏾" * 200, "e" + "\u0301" * 2000], ids=["word", "emoji", "accents"]
)
def test_a_word_or_sign_without_a_place_to_cut_ends_in_chunks(place: Place, text: str) -> None:
    place.write("a.txt", text)
    report = place.ingest(options=chunked(size_tokens=16, overlap_tokens=8, header_tokens=0))
    assert (report.indexed, report.failed) == (1, 0)
    assert report.chunks_total > 0


def test_comments_in_code_are_no_headings_and_a_long_table_is_embedded_with_its_head_row(
    place: Place, embedder: CountingEmbedder
) -> None:
    fences = "````md\n```\n# no\n```\n````\n\n~~~\n# no\n~~~\n\n- step\n\n    ```sh\n    # no\n    ```"
    rows = "\n".join(f"| 箱{number} | {number} kg |" for number in range(60))
    place.write("a.md", f"# Guide\n\n{fences}\n\n## Sizes\n\n| 箱号 | weight |\n|---|---|\n{rows}\n")
    place.write("b.md", "# Never closed\n\n```sh\n# no\necho\n")
    place.ingest(options=chunked())
    paths = {chunk.heading_path for source in ("a.md", "b.md") for chunk in chunks_of(place, source)}
    assert paths == {("Guide",), ("Guide", "Sizes"), ("Never closed",)}
    continued = [sent for sent in embedder.sent if re.search(r"^\| 箱\d", sent, re.MULTILINE) and "# Sizes" not in sent]
    assert len(continued) > 5
    assert all("| 箱号 | weight |\n\n| 箱" in sent for sent in continued)
    assert max(map(embedder.count_tokens, embedder.sent)) <= SIZE + HEADER


def test_one_sentence_4000_times_has_rising_spans_and_is_paid_for_once(
    place: Place, embedder: CountingEmbedder
) -> None:
    text = "The window resets after 60 seconds. " * 4000
    place.write("a.txt", text)
    place.ingest(options=chunked())
    chunks = chunks_of(place, "a.txt")
    assert uncovered(text, chunks) == ""
    assert all(before.start < after.start and before.end < after.end for before, after in pairwise(chunks))
    assert len(chunks) > 500
    assert len(embedder.sent) == len(set(embedder.sent)) < 10


def test_special_tokens_are_plain_text_and_blanks_cost_no_call(place: Place, embedder: CountingEmbedder) -> None:
    place.write("blank.md", " \n\t\n\u3000\n" * 1000)
    place.write("rule.txt", "\ufeff")
    report = place.ingest()
    assert (report.indexed, report.chunks_total, report.embedding_calls) == (2, 0, 0)
    assert problems(report, "warning") == {"blank.md": "no text in it", "rule.txt": "no text in it"}
    assert embedder.requests == 0
    place.write("tokens.md", "The model stops at <|endoftext|>.")
    place.ingest()
    assert embedder.sent == ["The model stops at <|endoftext|>."]


# Reading


def encrypted(user: str, words: str) -> bytes:
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(pdf([[words]])))
    writer.encrypt(user_password=user, owner_password="owner", algorithm="AES-256")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def test_each_fault_of_a_pdf_has_its_own_report_and_other_files_and_pages_go_on(place: Place) -> None:
    place.write("locked.pdf", encrypted("secret", "The safe opens at nine."))
    place.write("owner.pdf", encrypted("", "Printing is not allowed."))
    place.write("scan.pdf", pdf([[], []], drawn=[0, 1]))
    place.write("mixed.pdf", pdf([["Page one."], [], ["Page three."]], drawn=[1]))
    place.write("page.pdf", pdf([["First page."], ["Second page."], ["検査は三月に行います。"]], broken=[1]))
    place.write("torn.pdf", pdf([["words"]] * 30)[:900])
    place.write("empty.pdf", b"")
    place.write("good.md", a_text(["one"]))
    report = place.ingest()
    assert (report.indexed, report.failed, report.files) == (4, 4, 8)
    failed, warned = problems(report, "failed"), problems(report, "warning")
    assert "needs a password; put it into [loading.pdf] passwords" in failed["locked.pdf"]
    assert "no text layer; it needs OCR" in failed["scan.pdf"]
    assert "damaged" in failed["torn.pdf"]
    assert "empty (0 bytes)" in failed["empty.pdf"]
    assert warned["mixed.pdf"] == "no text layer on page 2; OCR is needed if there are words"
    assert warned["page.pdf"].startswith("page 2 is left out: ")
    assert [(chunk.text, chunk.page) for chunk in chunks_of(place, "page.pdf")] == [
        ("First page.", 1),
        ("検査は三月に行います。", 3),
    ]
    assert place.sections("owner.pdf") == ["Printing is not allowed."]
    opened = place.ingest(options={"loading": {"pdf": {"passwords": ["wrong", "secret"]}}})
    assert (opened.indexed, opened.failed) == (1, 3)
    assert place.sections("locked.pdf") == ["The safe opens at nine."]


def test_a_page_that_never_ends_costs_its_file_only_and_is_reported(place: Place) -> None:
    place.write("endless.pdf", endless_pdf())
    place.write("good.pdf", pdf([["Good words."]]))
    report = place.ingest(options={"loading": {"max_seconds": 5}})
    assert (report.indexed, report.failed) == (1, 1)
    reason = problems(report, "failed")["endless.pdf"]
    assert re.search(r"not read within 5 seconds|takes more than \d+ MB of memory|for want of memory", reason)
    assert place.sections("good.pdf") == ["Good words."]


JAPANESE = "会議室の予約は総務部へ連絡してください。利用時間は午前九時から午後六時までです。\n" * 3
SIMPLIFIED = "仓库每天上午九点开门，包裹最多保管十天，超过期限的退回寄件人。\n" * 3
TRADITIONAL = "倉庫每天上午九點開門，包裹最多保管十天，超過期限的退回寄件人。\n" * 3
FRENCH = "L’été, le dépôt est fermé à midi ; les colis y sont gardés dix jours, même “à côté”.\n" * 3


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (SIMPLIFIED, "gb18030"),
        (TRADITIONAL, "big5"),
        (JAPANESE, "cp932"),
        (JAPANESE, "euc_jp"),
        (FRENCH, "cp1252"),
        (SIMPLIFIED, "utf-16"),
        (JAPANESE, "utf-16-le"),
        (FRENCH, "utf-16-be"),
    ],
)
def test_no_letter_is_lost_in_an_old_encoding_and_a_guess_is_reported(place: Place, text: str, encoding: str) -> None:
    place.write("a.txt", text.encode(encoding))
    report = place.ingest(options=chunked())
    assert uncovered(text, chunks_of(place, "a.txt")) == ""
    named = problems(report, "warning").get("a.txt", "")
    assert (encoding in named) == (encoding != "utf-16"), "a byte order mark is no guess"


def test_all_the_text_of_a_word_file_is_found_and_tracked_deletions_are_not(place: Place) -> None:
    box = f"<w:txbxContent>{paragraph('Text in a box.')}</w:txbxContent>"
    control = f"<w:sdt><w:sdtPr/><w:sdtContent>{paragraph('Text in a control.')}</w:sdtContent></w:sdt>"
    item = '<w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr>'
    body = (
        control
        + table(row("項目", "値"), row("保管期間", cell(paragraph("十日間"))))
        + f"<w:p><w:r><w:t>Anchor</w:t><w:pict><v:textbox>{box}</v:textbox></w:pict></w:r></w:p>"
        + '<w:p><w:r><w:t>With a note</w:t><w:footnoteReference w:id="2"/></w:r></w:p>'
        + paragraph("Close the valve.", item)
        + paragraph("Open the gate.", item)
        + "<w:p><w:ins><w:r><w:t>Inserted.</w:t></w:r></w:ins>"
        + "<w:del><w:r><w:delText>Deleted.</w:delText></w:r></w:del></w:p>"
    )
    parts = {
        "header": table(row("版本", "第三版")),
        "footnotes": f'<w:footnote w:id="2">{paragraph("Text of the note.")}</w:footnote>',
        "numbering": '<w:abstractNum w:abstractNumId="0"><w:lvl w:ilvl="0"><w:start w:val="1"/>'
        '<w:numFmt w:val="decimal"/><w:lvlText w:val="%1."/></w:lvl></w:abstractNum>'
        '<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num>',
    }
    place.write("a.docx", docx(body, parts))
    report = place.ingest(options=chunked())
    assert report.problems == ()
    text = "\n".join(place.sections("a.docx"))
    for kept in ("Text in a control.", "保管期間 | 十日間", "Text in a box.", "[^1]: Text of the note.",
                 "1. Close the valve.\n2. Open the gate.", "Inserted.", "版本 第三版"):  # fmt: skip
        assert kept in text
    assert "Deleted" not in text


def test_what_lies_about_in_a_folder_is_skipped_with_a_reason_and_the_run_goes_on(tmp_path: Path) -> None:
    root = tmp_path / ".notes" / "documents"
    place = Place(root, tmp_path / "data")
    for name in ("good.md", "folder.md/inside.md", "shut.md"):
        place.write(name, a_text([name[:4]]))
    for name in ("~$report.docx", ".DS_Store", "old.doc", "scan.png"):
        place.write(name, b"\0\1\2")
    (root / "broken.md").symlink_to("nowhere.md")
    (root / "loop").symlink_to("..", target_is_directory=True)
    (root / "folder.md" / "self").symlink_to(".", target_is_directory=True)
    os.mkfifo(root / "pipe.md")
    (root / "shut.md").chmod(0)
    readable_anyway = os.access(root / "shut.md", os.R_OK)  # as root
    report = place.ingest()
    assert set(problems(report, "skipped")) == {
        "~$report.docx", ".DS_Store", "old.doc", "scan.png", "broken.md", "loop", "folder.md/self", "pipe.md",
    }  # fmt: skip
    assert all(len(reason) > 20 for reason in problems(report, "skipped").values())
    assert (report.indexed, report.failed) == ((3, 0) if readable_anyway else (2, 1))
    if not readable_anyway:
        assert "no permission" in problems(report, "failed")["shut.md"]
    assert place.sections("folder.md/inside.md")


def test_a_picture_within_markdown_and_front_matter_are_not_text_and_a_bomb_is_refused(
    place: Place, embedder: CountingEmbedder
) -> None:
    picture = f"![logo](data:image/png;base64,{'iVBORw0KGgo' + 'A' * 2_500_000})"
    place.write("a.md", f"---\ntitle: 手册\ntags: [secret, internal]\n---\n\nBefore.\n\n{picture}\n\nAfter.\n")
    place.write("bomb.docx", bomb())
    report = place.ingest()
    assert "zip bomb" in problems(report, "failed")["bomb.docx"]
    assert (report.indexed, report.failed, report.chunks_total) == (1, 1, 1)
    assert embedder.sent == ["手册\n\nBefore.\n\n![logo](embedded:image/png)\n\nAfter."]


def bomb() -> bytes:
    """A Word file whose main part unpacks to a thousand times its size."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(docx(paragraph("small")))) as small, zipfile.ZipFile(out, "w") as large:
        for entry in small.infolist():
            data = small.read(entry)
            if entry.filename == "word/document.xml":
                data = data.replace(b"small", b"a" * 60_000_000)
            large.writestr(entry.filename, data, zipfile.ZIP_DEFLATED)
    return out.getvalue()
