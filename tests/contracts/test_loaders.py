"""What every loader promises, whatever the bytes are."""

from __future__ import annotations

import io
import json
import os
import random
import re
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path

import docx
import pytest

from kb.components import Loader, Parts, build_component, component_module
from kb.errors import ConfigError, LoadError
from kb.loading import document_id, load_document, loader_fingerprint, loader_suffixes
from kb.records import Document
from kb.settings import component_names
from tests.damage import damaged
from tests.epub_writer import epub
from tests.pdf_writer import pdf
from tests.pptx_writer import Slide as PptxSlide
from tests.pptx_writer import group, pptx
from tests.pptx_writer import shape as pptx_shape
from tests.pptx_writer import table as pptx_table

MUTATIONS = 200

FORBIDDEN = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def markdown_sample() -> bytes:
    table = "| 項目 | 値 |\n|---|---|\n| 上限 | 30 |\n"
    front = "---\ntitle: Guide\ntags: [a, b]\n---\n"
    return f"{front}# Guide\n\nWords.\n\n- one\n- two\n\n```sh\n# no\n```\n\n{table}".encode()


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


def csv_sample() -> bytes:
    return '\ufeffsep=;\r\n品名;価格;備考\r\n椅子;3,50;"脚; 四本\r\n""樫"""\r\nCafé e\u0301;12\r\n'.encode()


def notebook_sample() -> bytes:
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": ["10 %\r100 %\n"]},
        {"output_type": "execute_result", "data": {"text/plain": "<Styler>", "text/html": "<table><td>1<td>2</table>"}},
        {"output_type": "error", "ename": "KeyError", "evalue": "'x'", "traceback": []},
    ]
    cells = [
        {"cell_type": "markdown", "source": ["# 分析\n", "- one\n- two"]},
        {"cell_type": "code", "source": "print(1)", "outputs": outputs},
        {"cell_type": "raw", "source": "raw"},
    ]
    return json.dumps({"nbformat": 4, "metadata": {"language_info": {"name": "python"}}, "cells": cells}).encode()


def pptx_sample() -> bytes:
    body = pptx_shape("one", "二") + group(pptx_shape("grouped")) + pptx_table(("都市", "上限"), ("大阪", "90"))
    return pptx(
        [
            PptxSlide(pptx_shape("Travel 出張", placeholder="title") + body, notes=pptx_shape("Say hello")),
            PptxSlide(),
            PptxSlide(pptx_shape("Untitled")),
        ],
        title="Travel",
    )


def html_sample() -> bytes:
    table = "<table><caption>表</caption><tr><th>都市<th colspan=2>値<tr><td>大阪<td>1<td>2</table>"
    menu = "<nav><a href=/>Home</a></nav><script>var a = '<p>';</script>"
    return (
        f"<!DOCTYPE html><html lang=ja><head><meta charset=shift_jis><title>規程 &amp; guide</title></head><body>{menu}"
        f"<h1>規程</h1><p>Words<br>and <b>more&shy;</b>.</p><ol><li>one<ul><li>two</ul></ol>{table}<pre>\n  x = 1</pre>"
    ).encode("cp932")


def epub_sample() -> bytes:
    first = "<html><head><title/></head><body><h1>第一章</h1><p>Words</p><ul><li>one</li></ul></body></html>"
    return epub({"a.xhtml": first, "b.xhtml": "<h2>Two</h2><p>more</p>"}, metadata="<title>A book</title>")


SAMPLES: dict[str, Callable[[], bytes]] = {
    "markdown": markdown_sample,
    "text": text_sample,
    "pdf": pdf_sample,
    "docx": docx_sample,
    "html": html_sample,
    "epub": epub_sample,
    "csv": csv_sample,
    "notebook": notebook_sample,
    "pptx": pptx_sample,
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
        path = place(name, damaged(sample, random.Random(seed)))
        found = outcome(name, path)
        if isinstance(found, Document):
            check(found)
        else:
            assert found.path == "damaged"
            assert found.reason.strip()


def outcome(name: str, path: Path) -> Document | LoadError:
    """A document or a load error; whatever else is raised fails the test."""
    try:
        return loader(name).load(path, "damaged")
    except LoadError as error:
        return error


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


def test_only_regular_files_of_a_known_suffix_and_size_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "folder.md").mkdir()
    (tmp_path / "large.md").write_bytes(b"x" * 2_000_000)
    (tmp_path / "picture.png").write_bytes(b"x")
    (tmp_path / "odd.sfx").write_bytes(b"x")
    for file, reason in (
        ("pipe.md", "pipe"),
        ("folder.md", "a folder"),
        ("large.md", r"1\.9 MB, more than the limit of 1\.0 MB"),
        ("picture.png", r"no loader reads \.png: a picture; .* OCR"),
        ("odd.sfx", r"no loader reads \.sfx; readable are .*\.docx"),
        ("gone.md", "does not exist"),
    ):
        with pytest.raises(LoadError, match=reason) as caught:
            load_document(tmp_path / file, f"folder/{file}", max_bytes=1024 * 1024)
        assert caught.value.path == f"folder/{file}"


@every_loader
def test_a_loader_itself_does_not_wait_for_a_pipe(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(LoadError, match="pipe"):
        loader(name).load(tmp_path / "pipe", "pipe")


def test_a_document_id_is_that_of_the_path_in_any_unicode_spelling() -> None:
    assert document_id("é/ポ.md") == document_id(unicodedata.normalize("NFD", "é/ポ.md"))
    assert document_id("a.md") != document_id("b.md")
    assert re.fullmatch("[0-9a-f]{32}", document_id(os.fsdecode(b"latin-\xe9.md")))


def test_a_fingerprint_changes_with_an_option_that_changes_texts() -> None:
    assert loader_fingerprint("pdf", {}) == loader_fingerprint("pdf", {"drop_running_lines": True})
    assert loader_fingerprint("pdf", {}) != loader_fingerprint("pdf", {"drop_running_lines": False})
    assert loader_fingerprint("pdf", {}) == loader_fingerprint("pdf", {"passwords": ["secret"]})
    with pytest.raises(ConfigError, match="pasword"):
        loader_fingerprint("pdf", {"pasword": "x"})


def test_asking_for_suffixes_loads_no_heavy_package() -> None:
    heavy = "{'lxml', 'pypdf', 'pypdfium2', 'yaml', 'charset_normalizer', 'docx', 'numpy'}"
    code = f"import sys; from kb.loading import loader_suffixes; loader_suffixes(); print({heavy} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
