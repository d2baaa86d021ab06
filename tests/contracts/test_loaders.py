"""What every loader promises, whatever the bytes are."""

from __future__ import annotations

import io
import random
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path

import docx
import pytest

from kb.components import Loader, Parts, build_component, component_module
from kb.errors import LoadError
from kb.loading import document_id, load_document, loader_suffixes
from kb.records import Document
from kb.settings import component_names
from tests.pdf_writer import pdf

MUTATIONS = 200

FORBIDDEN = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def markdown_sample() -> bytes:
    table = "| 項目 | 値 |\n|---|---|\n| 上限 | 30 |\n"
    return f"---\ntitle: Guide\ntags: [a, b]\n---\n# Guide\n\nWords.\n\n- one\n- two\n\n```sh\n# no\n```\n\n{table}".encode()


def text_sample() -> bytes:
    return "会議室の予約は総務部へ連絡してください。\r\nCafé e\u0301.\r\n".encode("cp932", "ignore") * 5


def pdf_sample() -> bytes:
    return pdf(
        [["First page", "of words"], [], ["請求書の控えは七年間", "保管します"]],
        title="Words",
        outline=[("First page", 0)],
    )


def docx_sample() -> bytes:
    document = docx.Document()
    document.add_heading("Leave", 1)
    document.add_paragraph("Thirty days.")
    document.add_paragraph("one", style="List Bullet")
    table = document.add_table(2, 2)
    for number, cell in enumerate(c for row in table.rows for c in row.cells):
        cell.text = f"cell {number}"
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


SAMPLES: dict[str, Callable[[], bytes]] = {
    "markdown": markdown_sample,
    "text": text_sample,
    "pdf": pdf_sample,
    "docx": docx_sample,
}

every_loader = pytest.mark.parametrize("name", component_names("loading"))


@pytest.fixture
def place(tmp_path: Path) -> Callable[[str, bytes], Path]:
    """Write bytes into a file that the loader of a name reads."""

    def write(name: str, data: bytes) -> Path:
        path = tmp_path / f"sample{component_module('loading', name).SUFFIXES[0]}"
        path.write_bytes(data)
        return path

    return write


def loader(name: str) -> Loader:
    built: Loader = build_component("loading", name, {}, Parts())
    return built


def check(document: Document) -> None:
    """What holds for every document."""
    text = document.text
    assert FORBIDDEN.search(text) is None
    assert unicodedata.is_normalized("NFC", text)
    text.encode("utf-8")
    assert document.title == document.title.strip()
    assert [page.number for page in document.pages] == list(range(1, len(document.pages) + 1))
    for spans in (document.pages, document.headings, document.blocks):
        ends = 0
        for span in spans:
            assert ends <= span.start <= span.end <= len(text)
            ends = span.end
    for heading in document.headings:
        assert heading.level >= 1
        assert heading.text.strip() == heading.text != ""
        assert heading.start < heading.end
    for block in document.blocks:
        assert text[block.start : block.end].strip()
    assert all(isinstance(value, (str, int, float, bool)) for value in document.metadata.values())


@every_loader
def test_a_file_becomes_a_document_of_clean_text_with_rising_spans(
    name: str, place: Callable[[str, bytes], Path]
) -> None:
    document = loader(name).load(place(name, SAMPLES[name]()), "folder/sample")
    check(document)
    assert document.text.strip()
    assert document.path == "folder/sample"
    assert document.id == document_id("folder/sample")
    assert document.kind == name


@every_loader
def test_the_same_file_gives_the_same_document(name: str, place: Callable[[str, bytes], Path]) -> None:
    path = place(name, SAMPLES[name]())
    assert loader(name).load(path, "x") == loader(name).load(path, "x")


@every_loader
@pytest.mark.parametrize("data", [b"\0\1\2\3\x0e\x0f" * 300, b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4])
def test_what_is_no_such_file_is_one_error_with_path_and_reason(
    name: str, data: bytes, place: Callable[[str, bytes], Path]
) -> None:
    with pytest.raises(LoadError) as caught:
        loader(name).load(place(name, data), "folder/wrong")
    assert caught.value.path == "folder/wrong"
    assert len(caught.value.reason) > 10
    assert "\n" not in caught.value.reason


@every_loader
def test_a_file_that_is_gone_is_a_load_error(name: str, tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="does not exist"):
        loader(name).load(tmp_path / "gone", "gone")


@every_loader
@pytest.mark.parametrize("part", range(4))
def test_damaged_files_give_a_clean_document_or_a_load_error(
    name: str, part: int, place: Callable[[str, bytes], Path]
) -> None:
    sample = SAMPLES[name]()
    for seed in range(part * MUTATIONS // 4, (part + 1) * MUTATIONS // 4):
        path = place(name, mutated(sample, random.Random(seed)))
        try:
            document = loader(name).load(path, "damaged")
        except LoadError as error:
            assert error.path == "damaged"
            assert error.reason.strip()
        else:
            check(document)


def mutated(data: bytes, rnd: random.Random) -> bytes:
    """Damage a file as disks, networks and editors do: cut, overwrite, repeat, drop, or mix in bytes."""
    damaged = bytearray(data)
    for _ in range(rnd.choice((1, 1, 2, 8, 40))):
        at = rnd.randrange(len(damaged) + 1)
        length = rnd.choice((1, 1, 4, 64, 512))
        kind = rnd.randrange(5)
        if kind == 0:
            damaged[at : at + length] = rnd.randbytes(length)
        elif kind == 1:
            del damaged[at : at + length]
        elif kind == 2:
            damaged[at:at] = damaged[max(0, at - length) : at]
        elif kind == 3 and damaged and at < len(damaged):
            damaged[at] ^= 1 << rnd.randrange(8)
        elif len(damaged) > 100:
            del damaged[rnd.randrange(len(damaged) // 2, len(damaged)) :]
    return bytes(damaged)


def test_suffixes_are_lower_case_and_belong_to_one_loader_each() -> None:
    for name in component_names("loading"):
        for suffix in component_module("loading", name).SUFFIXES:
            assert suffix == suffix.lower()
            assert suffix.startswith(".")
            assert loader_suffixes()[suffix] == name


def test_the_suffix_chooses_the_loader_in_any_case_of_letters(tmp_path: Path) -> None:
    path = tmp_path / "REPORT.MD"
    path.write_text("# Report\n", encoding="utf-8")
    assert load_document(path).kind == "markdown"
