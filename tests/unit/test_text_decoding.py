"""Text files in every encoding people still have: decoded exactly, refused by name, or flagged as a guess."""

from __future__ import annotations

from pathlib import Path

import pytest

from kb.errors import LoadError
from kb.loading import load_document
from kb.loading._decode import decode

JAPANESE = "会議室の予約は総務部の担当者へ連絡してください。締め切りは金曜日です。\n" * 6
CHINESE = "请在周五前把报销单交给财务部。逾期不再受理。\n" * 6
TRADITIONAL = "請在週五前把報銷單交給財務部。逾期不再受理。\n" * 6
KOREAN = "회의실 예약은 담당자에게 문의하십시오.\n" * 6
RUSSIAN = "Насос проверяют каждые десять дней, заявки принимает отдел кадров.\n" * 6
FRENCH = "Le café est fermé à Noël ; réouverture le 3 février à 9 h.\n" * 6


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (JAPANESE, "cp932"),
        (JAPANESE, "euc_jp"),
        (CHINESE, "gb18030"),
        (TRADITIONAL, "big5"),
        (KOREAN, "cp949"),
        (RUSSIAN, "koi8_r"),
        (RUSSIAN, "cp1251"),
        (FRENCH, "cp1252"),
    ],
)
def test_an_old_encoding_is_decoded_exactly_and_the_guess_is_named(text: str, encoding: str) -> None:
    decoded = decode(text.encode(encoding), "x")
    assert decoded.text == text
    assert decoded.warning is not None
    assert decoded.encoding in decoded.warning
    assert "guess" in decoded.warning


@pytest.mark.parametrize("text", [JAPANESE, CHINESE, FRENCH])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_unicode_with_evidence_is_decoded_without_a_warning(text: str, encoding: str) -> None:
    decoded = decode(text.encode(encoding), "x")
    assert (decoded.text, decoded.warning) == (text, None)


@pytest.mark.parametrize("text", [JAPANESE, CHINESE, FRENCH])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_mark_is_found_by_its_nuls(text: str, encoding: str) -> None:
    decoded = decode(text.encode(encoding), "x")
    assert (decoded.text, decoded.encoding) == (text, encoding)


def test_utf_16_written_as_utf_8_would_be_valid_but_is_not_taken_for_it() -> None:
    data = "Hamburgers are delicious.\n".encode("utf-16-be")
    assert data.decode("utf-8")  # the trap: each byte is valid UTF-8
    assert decode(data, "x").text == "Hamburgers are delicious.\n"


def test_iso_2022_jp_is_found_by_its_escapes() -> None:
    assert decode(JAPANESE.encode("iso2022_jp"), "x").text == JAPANESE


def test_a_few_broken_bytes_leave_utf_8_utf_8() -> None:
    decoded = decode((JAPANESE * 3).encode() + b"\xff end", "x")
    assert decoded.text == JAPANESE * 3 + "\ufffd end"
    assert decoded.warning is not None
    assert "one place" in decoded.warning


def test_lines_of_another_encoding_lose_no_letters() -> None:
    decoded = decode("Prüfung bestanden\n".encode() * 5 + "Größe 5 €\n".encode("cp1252"), "x")
    assert decoded.text == "Prüfung bestanden\n" * 5 + "Größe 5 €\n"
    assert decoded.warning is not None


def test_surrogate_pairs_written_as_utf_8_become_their_character(tmp_path: Path) -> None:
    path = tmp_path / "cesu.txt"
    path.write_bytes(b"start \xed\xa0\xbd\xed\xb8\x80 end")
    assert load_document(path).text == "start 😀 end"


def test_padding_with_nuls_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "padded.txt"
    path.write_bytes(b"a\0b\0 the valve is checked every nine days.\0\0")
    assert load_document(path).text == "ab the valve is checked every nine days."


def test_a_guess_on_a_few_bytes_is_called_doubtful() -> None:
    decoded = decode("5 € – “ok”".encode("cp1252"), "x")
    assert decoded.warning is not None
    assert "may be wrong" in decoded.warning


def test_russian_that_begins_like_a_byte_order_mark_is_not_utf_16() -> None:
    data = ("яюг " + RUSSIAN).encode("cp1251")
    assert data.startswith(b"\xff\xfe")  # the trap
    assert decode(data, "x").text == "яюг " + RUSSIAN


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "PNG picture"),
        (b"%PDF-1.7\n", "a PDF"),
        (b"PK\x03\x04" + bytes(40), "zip archive"),
        (bytes(range(256)) * 20, "binary"),
        (b"abc" + bytes(200), "binary"),
    ],
)
def test_binary_data_is_refused_and_named(data: bytes, reason: str) -> None:
    with pytest.raises(LoadError, match=reason):
        decode(data, "x")


def test_text_files_have_no_title_and_an_empty_one_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "empty.txt"
    path.write_bytes(b"")
    document = load_document(path)
    assert (document.text, document.title, document.warnings) == ("", "", ("no text in it",))


def test_titles_of_restructured_text_are_headings(tmp_path: Path) -> None:
    path = tmp_path / "guide.rst"
    path.write_text(
        "=====\nGuide\n=====\n\nStart\n-----\n\nWords.\n\n::\n\n   # code\n   ------\n\nMore\n----\n\nEnd\n",
        encoding="utf-8",
    )
    document = load_document(path)
    assert [(h.level, h.text) for h in document.headings] == [(1, "Guide"), (2, "Start"), (2, "More")]
    assert document.title == "Guide"
    assert [document.text[h.start : h.end] for h in document.headings] == ["Guide", "Start", "More"]
