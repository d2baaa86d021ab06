from __future__ import annotations

import datetime
import time
import unicodedata
from typing import Any

import pytest

from kb.errors import ConfigError
from kb.filters import Condition, Where, texts_of


def passes(written: str, text: str) -> bool:
    (condition,) = Where.parse([written]).conditions
    return condition.test()(text)


@pytest.mark.parametrize(
    ("written", "matches", "others"),
    [
        ("source=leave.md", ["leave.md"], ["a/leave.md", "Leave.md", "leave.md.txt"]),
        ("source=/leave.md", ["leave.md"], ["a/leave.md"]),
        ("source=./a/b.md", ["a/b.md"], ["x/a/b.md"]),
        ("source=*.md", ["b.md", "a/b.md", "a/c/.md"], ["b.pdf", "b.md/c.txt"]),
        ("source=/*.md", ["b.md"], ["a/b.md"]),
        ("source=handbook/*", ["handbook/a.md"], ["handbook/b/a.md", "handbook", "x/handbook/a.md"]),
        ("source=handbook/**", ["handbook/a.md", "handbook/b/c/a.md"], ["handbook", "handbooks/a.md"]),
        ("source=handbook/**/a.*", ["handbook/a.md", "handbook/b/c/a.md"], ["handbook/a", "handbook/b/aa.md"]),
        ("source=a/a/*", ["a/a/b.md"], ["a/b.md"]),
        ("source=**/x/*.md", ["x/a.md", "b/c/x/a.md"], ["xx/a.md"]),
        ("source=n[1]?.md", ["n[1]?.md"], ["n1a.md"]),
        ("source=n[1]*", ["n[1]?.md", "a/n[1]"], ["n1.md"]),
        ("source=100%_*.md", ["100%_a.md"], ["100xxa.md", "100%a.md"]),
        ("source=資料/ガイド*", [unicodedata.normalize("NFC", "資料/ガイド.md")], ["資料/カイト.md"]),
        ("path=handbook", ["handbook/a.md", "handbook/b/a.md", "handbook"], ["handbooks/a.md", "x/handbook/a.md"]),
        ("path=/handbook/", ["handbook/a.md"], ["hand/a.md"]),
        ("path=2024*", ["2024-05/a.md", "x/2024/b/c.md"], ["x2024/a.md"]),
        ("path=a/*/c", ["a/b/c/d.md", "a/b/c"], ["a/c/d.md", "a/b/b/c/d.md"]),
        ("kind=PDF", ["pdf"], ["pdfx"]),
        ("kind=*ml", ["html"], ["pdf"]),
        ("heading=install*", ["Install", "INSTALLING IT", "Ｉｎｓｔａｌｌ"], ["To install", ""]),
        ("heading=退款*", ["退款政策"], ["退货"]),
        ("heading=ﾊﾟｽﾜｰﾄﾞ", ["パスワード"], ["バスワード"]),
        ("heading=a*b*c", ["abc", "aXbXbXc", "abcc"], ["acb", "abcd"]),
        ("heading=**", ["anything", ""], []),
        ("heading=line*two", ["line one\ntwo"], []),
        ("author=straße", ["STRASSE"], ["strase"]),
    ],
)
def test_what_a_value_matches(written: str, matches: list[str], others: list[str]) -> None:
    assert [text for text in matches if not passes(written, text)] == []
    assert [text for text in others if passes(written, text)] == []


def test_a_name_typed_as_macos_keeps_it_is_the_same_name() -> None:
    decomposed = unicodedata.normalize("NFD", "資料/ガイド.md")
    assert decomposed != unicodedata.normalize("NFC", decomposed)
    assert passes(f"source={decomposed}", unicodedata.normalize("NFC", decomposed))
    assert passes(f"path={decomposed[:-3]}*", unicodedata.normalize("NFC", decomposed))


@pytest.mark.parametrize(
    ("value", "range_"),
    [
        ("3", (3, 3)),
        ("3-7", (3, 7)),
        ("３－７", (3, 7)),
        ("3～7", (3, 7)),
        (" 3 - 7 ", (3, 7)),
        ("3-", (3, float("inf"))),
        ("-7", (1, 7)),
        ("7-7", (7, 7)),
    ],
)
def test_pages_are_one_or_a_range_with_open_ends(value: str, range_: tuple[int, float]) -> None:
    (condition,) = Where.parse([f"page={value}"]).conditions
    assert condition.page_ranges() == [range_]


@pytest.mark.parametrize("value", ["x", "", "-", "0", "7-3", "3-7-9", "3,7", "1.5", "-0", "三", "9" * 30])
def test_what_is_no_page_is_refused_and_named(value: str) -> None:
    with pytest.raises(ConfigError, match=r"page="):
        Where.parse([f"page={value}"])


@pytest.mark.parametrize("written", ["kind", "", "=pdf", " =pdf", "kind=", "kind=  ", "path=/", "path=./", "source=/"])
def test_a_filter_without_field_or_value_is_refused(written: str) -> None:
    with pytest.raises(ConfigError, match="filter"):
        Where.parse([written])


def test_too_many_double_stars_are_refused_and_no_pattern_takes_long() -> None:
    with pytest.raises(ConfigError, match=r"3 times \*\*"):
        Where.parse(["source=**/a/**/b/**/c/**/d"])
    started = time.perf_counter()
    assert not passes("heading=" + "a*" * 500 + "b", "a" * 5000)
    assert not passes("source=" + "a*" * 100 + "/**/" + "a*" * 100 + "b", "/".join(["a" * 100] * 40))
    assert time.perf_counter() - started < 2


def test_one_field_twice_means_either_and_an_equals_sign_may_stand_in_a_value() -> None:
    where = Where.parse(["kind=pdf", " Kind = DOCX ", "note=a=b", "kind=pdf"])
    assert where.written == ("kind=pdf", "kind=DOCX", "note=a=b")
    assert [condition.field for condition in where.conditions] == ["kind", "note"]
    assert str(where) == "--where kind=pdf --where kind=DOCX --where note=a=b"


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ({"kind": "pdf", "page": (3, 7)}, ("kind=pdf", "page=3-7")),
        ({"page": (3, None)}, ("page=3-",)),
        ({"page": (None, 7)}, ("page=-7",)),
        ({"page": 3}, ("page=3",)),
        ({"page": [3, (5, 6), "8-"]}, ("page=3", "page=5-6", "page=8-")),
        ({"kind": ["pdf", "docx"]}, ("kind=pdf", "kind=docx")),
        ({"draft": False, "year": 2024}, ("draft=false", "year=2024")),
        ({"date": datetime.date(2026, 1, 1)}, ("date=2026-01-01",)),
        (Where.parse(["kind=pdf"]), ("kind=pdf",)),
    ],
)  # fmt: skip
def test_a_filter_in_python_is_the_one_of_the_command(given: Any, written: tuple[str, ...]) -> None:
    where = Where.of(given)
    assert where is not None
    assert where.written == written
    assert where == Where.parse(written)


@pytest.mark.parametrize("given", [None, {}, Where(())])
def test_no_condition_is_no_filter(given: Any) -> None:
    assert Where.of(given) is None


@pytest.mark.parametrize(
    "given",
    [
        {"kind": None},
        {"kind": []},
        {"kind": {"a": 1}},
        {"page": (1, 2, 3)},
        {"page": ("a", 2)},
        {"page": -3},
        {"": "x"},
    ],
)
def test_what_is_no_filter_is_refused(given: Any) -> None:
    with pytest.raises(ConfigError):
        Where.of(given)


@pytest.mark.parametrize(
    ("value", "asked", "others"),
    [
        ("Ada", ["ada", "a*"], ["ad"]),
        ("red, blue", ["red", "BLUE", "red, blue", "b*"], ["re", "red blue"]),
        (["x", 2], ["x", "2"], ["x2"]),
        (2024, ["2024"], ["24", "2024.0"]),
        (2.0, ["2", "2.0"], ["20"]),
        (True, ["true", "True"], ["1", "yes"]),
        ("2026-01-01", ["2026-01-01", "2026-*"], ["2026"]),
        ({"nested": 1}, [], ["1", "nested"]),
    ],
)
def test_what_the_front_matter_can_be_asked_for(value: object, asked: list[str], others: list[str]) -> None:
    def found(text: str) -> bool:
        return any(map(Condition("field", (text,)).test(), texts_of(value)))

    assert [text for text in asked if not found(text)] == []
    assert [text for text in others if found(text)] == []
