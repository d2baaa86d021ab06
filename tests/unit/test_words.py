"""Terms in English, Chinese and Japanese: what can be found by which spelling."""

from __future__ import annotations

import sys
import unicodedata
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from snowballstemmer import stemmer

from kb.words import STOP_WORDS, content_terms, has_cjk, terms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n…！？---", []),
        ("Refund policy, refund!", ["refund", "polici", "refund"]),
        ("STRASSE Straße", ["strass", "strass"]),
        ("1,200 km", ["1,200", "1", "200", "km"]),
        ("v2.3.1", ["v2.3.1", "v2", "3", "1"]),
        ("two-factor", ["two-factor", "two", "factor"]),
        ("ops@example.com", ["ops@example.com", "ops", "exampl", "com"]),
        ("退款政策", ["退款", "款政", "政策"]),
        ("退", ["退"]),
        ("パスワード", ["パス", "スワ", "ワー", "ード"]),
        ("API入门2", ["api", "入门", "2"]),
        ("时时时", ["时时", "时时"]),
        ("人々", ["人々"]),
        ("𠮷野家", ["𠮷野", "野家"]),
        ("데이터 베이스", ["데이터", "베이스"]),
    ],
)
def test_terms_of_a_text(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


def test_a_code_is_found_whole_and_by_its_parts() -> None:
    assert set(terms("ERR_429_RATE")) == {"err_429_rate", "err", "429", "rate"}
    assert "429" in terms("What does a 429 mean?")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ＥＲＲ＿４２９", "err_429"),
        ("ﾊﾟｽﾜｰﾄﾞ", "パスワード"),
        ("don’t", "don't"),
        (unicodedata.normalize("NFD", "プール café"), unicodedata.normalize("NFC", "プール café")),
        ("ﬁle", "FILE"),
    ],
)
def test_spellings_of_one_word_give_the_same_terms(one: str, other: str) -> None:
    assert terms(one) == terms(other)


@pytest.mark.parametrize(
    "forms",
    [
        ("refund", "Refunds", "refunded", "refunding"),
        ("policy", "policies"),
        ("installation", "installed", "installing", "INSTALL"),
        ("rate-limited", "limits", "limiting"),
    ],
)
def test_forms_of_an_english_word_share_a_term(forms: tuple[str, ...]) -> None:
    assert set.intersection(*(set(terms(form)) for form in forms))


def test_threads_that_ask_at_once_get_the_same_terms() -> None:
    words = [
        f"{word}{ending}" for word in ("nation", "special", "critic", "organ") for ending in ("als", "ized", "ities")
    ]
    made = [f"{letter}{word}" for letter in "abcdefghijklmnopqrstuvwxyz" for word in words]  # that nobody asked for yet
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as threads:
            found = list(threads.map(lambda _: [terms(word) for word in made], range(8)))
    finally:
        sys.setswitchinterval(interval)
    alone = stemmer("english")
    assert found == [[[alone.stemWord(word)] for word in made]] * 8


@pytest.mark.parametrize(
    "text", ["réservations", "бумаги", "v2.3.1", "err_429s", "is", "this", "does", "having", "cats2"]
)
def test_only_english_words_of_some_length_that_say_something_are_stemmed(text: str) -> None:
    assert text in terms(text)


def test_markup_and_rules_of_underscores_hide_no_word() -> None:
    assert "import" in terms("this is _important_")
    assert "init" in terms("__init__")
    assert terms("_____") == []


def test_a_katakana_word_is_found_in_a_longer_one_and_across_a_middle_dot() -> None:
    assert set(terms("パスワード")) <= set(terms("パスワード再設定"))
    assert terms("データ・ベース") == [*terms("データ"), *terms("ベース")]
    assert set(terms("サーバ")) <= set(terms("サーバー"))


def test_content_terms_leave_out_what_every_question_holds() -> None:
    assert content_terms("What is the refund policy?") == ["refund", "polici"]
    assert content_terms("What's that, and/or don’t they, we'll, can't, won't?") == []
    assert content_terms("请问退款政策是什么？") == ["问退", "退款", "款政", "政策", "策是"]
    assert content_terms("これはどうすればいいですか") == []


def test_content_terms_keep_codes_possessives_and_repetition() -> None:
    assert content_terms("the user's two-factor code for ERR_429, the code") == [
        "user's", "user", "two-factor", "two", "factor", "code", "err_429", "err", "429", "code",
    ]  # fmt: skip


@pytest.mark.parametrize("word", sorted(STOP_WORDS))
def test_every_stop_word_can_occur_as_a_term(word: str) -> None:
    assert terms(word) == [word]
    assert content_terms(word.upper()) == []


def test_scripts_are_told_apart() -> None:
    assert all(map(has_cjk, "退ひカ々〇ー𠮷"))
    assert not any(map(has_cjk, "aé가1 。・、"))
    assert has_cjk("the 退款 policy")
    assert not has_cjk("the policy。")


TEXTS = st.text(alphabet=st.one_of(st.characters(), st.sampled_from("aB1_-.'’/@: 退款のパーﾊﾟ・　")), max_size=60)


@given(TEXTS)
def test_any_text_gives_terms_that_are_lower_case_and_never_blank(text: str) -> None:
    for term in terms(text):
        assert term.strip() == term != ""
        assert term == term.casefold()


@given(TEXTS, TEXTS)
def test_a_line_break_parts_texts_so_that_terms_add_up(one: str, other: str) -> None:
    assert terms(f"{one}\n{other}") == [*terms(one), *terms(other)]


@given(TEXTS)
def test_content_terms_are_terms_in_their_order(text: str) -> None:
    rest = iter(terms(text))
    assert all(term in rest for term in content_terms(text))


@given(st.text(alphabet="退款政策入门接口限流", min_size=2, max_size=40))
def test_chinese_text_gives_one_bigram_for_each_pair_of_neighbours(text: str) -> None:
    assert terms(text) == [text[i] + text[i + 1] for i in range(len(text) - 1)]
