"""Normalisation: what every text has been through before anything counts its characters."""

from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kb.loading._clean import MAX_COMBINING, clean

# Characters that a random text would hardly have: controls, surrogates, marks, joiners, rare scripts.
awkward = st.text(
    st.characters(codec=None)
    | st.sampled_from("\0\x1b\r\n\x0b\x0c\x85\u2028\ufeff\u200b\u00ad\u0301\u0344\u0327\ud83d\ude00\ufffe\U0001d165[m")
)


@given(awkward)
@example("\u0344" * 40)
@example("\ud83d\0\ude00")
def test_cleaning_is_done_once_and_for_all(text: str) -> None:
    assert clean(clean(text)) == clean(text)


@given(awkward)
def test_clean_text_can_be_stored_and_is_nfc(text: str) -> None:
    cleaned = clean(text)
    cleaned.encode("utf-8")
    assert unicodedata.is_normalized("NFC", cleaned)
    assert not any(unicodedata.category(c) == "Cc" and c not in "\n\t" for c in cleaned)
    assert not set(cleaned) & set("\ufffe\uffff\ufeff")


@given(st.text(st.characters(categories=("L", "N", "P", "Zs"))))
def test_letters_digits_and_punctuation_are_kept(text: str) -> None:
    assert clean(text) == unicodedata.normalize("NFC", text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\r\nb\rc", "a\nb\nc"),
        ("a\x0bb\x0cc\x85d\u2028e\u2029f", "a\nb\nc\nd\ne\nf"),
        ("a\0b\x07c", "abc"),
        ("\x1b[31mred\x1b[0m \x1b]0;title\x07end", "red end"),
        ("smile \ud83d\ude00 \ud83d lone", "smile 😀  lone"),
        ("con\u00adfi\u200bden\u2060tial\ufeff", "confidential"),
        ("\u202eevil\u202c", "evil"),
        ("e\u0301", "é"),
        ("\ufffe\uffff\ufdd0", ""),
        ("👩\u200d👧 می\u200cخواهم", "👩\u200d👧 می\u200cخواهم"),
        ("ＡＢＣ１２３ ｶﾅ ﬁ", "ＡＢＣ１２３ ｶﾅ ﬁ"),
        ("tab\tstays\n", "tab\tstays\n"),
    ],
)
def test_what_becomes_of_awkward_characters(text: str, expected: str) -> None:
    assert clean(text) == expected


@pytest.mark.parametrize("marks", ["\u0301\u0327", "\u05b0\u05b1", "\U0001d165\u0301"])
def test_runs_of_combining_marks_take_linear_time(marks: str) -> None:
    # Without a limit, 200,000 marks took 42 s.
    started = time.perf_counter()
    cleaned = clean("a" + marks * 100_000 + "b")
    assert time.perf_counter() - started < 5
    assert len(cleaned) <= MAX_COMBINING + 2
