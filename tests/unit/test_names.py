"""Names that a source doesn't have, and names in the place of others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.alignment import Swap, align
from kb.names import missing_names


@pytest.mark.parametrize(
    ("claim", "source", "missing"),
    [
        ("The museum is in Kyoto.", "The museum is in Osaka.", ["Kyoto"]),
        ("It was built by Charles Porter.", "It was built by Charles Richard.", ["Porter"]),
        ("It was built by John Doe.", "It was built by Mary Roe.", ["John Doe"]),
        ("New York is large.", "Boston is large.", ["New York"]),
        ("The error is ERR_429.", "The error is ERR_428.", ["ERR_429"]),
        ("It flies an F-16.", "It flies an F-15.", ["F-16"]),
        ("他在Google工作", "他在Microsoft工作", ["Google"]),
        ("首班列车为G7413次", "首班列车为G7412次", ["G7413"]),
        ("彼はグーグルで働く", "彼はアップルで働く", ["グーグル"]),
    ],
)
def test_a_name_that_the_source_lacks_is_named(claim: str, source: str, missing: list[str]) -> None:
    assert missing_names(claim, [source]) == missing


@pytest.mark.parametrize(
    ("claim", "source"),
    [
        ("Critics say it works.", "It works."),
        ("He said: This is fine. Then I left in March.", "It is fine."),
        ("It is made in Germany.", "It is German."),
        ("The French won.", "France won."),
        ("The UN agreed.", "The United Nations agreed."),
        ("The US agreed.", "The U.S. agreed."),
        ("Kublai's nephew came, said Ogedei.", "Ögedei and Kublai had a nephew."),
        ("They met Töregene Khatun.", "TÖREGENE KHATUN was there."),
        ("She uses a Think-Pad.", "She uses a ThinkPad."),
        ("How To Install The New Printer", "the printer is installed so"),
        ("It took 30kg and the 19th try.", "It took a lot."),
        ("他使用ＡＰＩ", "他使用API"),
        ("彼はサーバーを使う", "サーバーが必要"),
    ],
)
def test_what_the_source_has_in_another_form_or_is_no_name_is_not(claim: str, source: str) -> None:
    assert missing_names(claim, [source]) == []


@pytest.mark.parametrize(
    ("claim", "sentence", "swap"),
    [
        ("Sydney hosts the final.", "Melbourne hosts the final.", Swap("Sydney", "Melbourne")),
        ("任天堂的游戏由光荣改编", "任天堂的游戏由村雨城改编", Swap("光荣", "村雨城")),
        ("足三两是汉堡王推出的一种汉堡包。", "足三两是麦当劳推出的一种汉堡包。", Swap("汉堡王", "麦当劳")),
        ("藤山は九州慰問団に参加した。", "藤山は南方慰問団に参加した。", Swap("九州", "南方")),
        ("The first has 40 trams and it is old.", "The first has 44 trams and it is old.", Swap("40", "44")),
    ],
)
def test_what_stands_in_the_place_of_something_else(claim: str, sentence: str, swap: Swap) -> None:
    assert align(claim, sentence).swaps == (swap,)


@pytest.mark.parametrize(
    ("claim", "sentence"),
    [
        ("该公司建立了一所学校", "该公司创立了一所学校"),
        ("The big house was sold in May.", "The large house was sold in May."),
        ("The house was sold, she says.", "He runs every day without a coat."),
        ("彼は学校に行った。", "彼は学校へ行った。"),
        ("It has thirty trams and a bus.", "It has 30 trams and a bus."),
        ("", "x"),
    ],
)
def test_other_words_for_the_same_are_not_swapped(claim: str, sentence: str) -> None:
    assert align(claim, sentence).swaps == ()


@given(st.text(max_size=80), st.text(max_size=80))
def test_any_texts_are_compared_without_a_crash(one: str, other: str) -> None:
    missing_names(one, [other])
    assert missing_names(one, [one]) == []
    align(one, other)
    assert align(one, one) == align(one, one)
    assert align(one, one).swaps == ()
