"""Numbers, dates and times, whatever they are written as."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.evaluation._rewording import english, han
from kb.quantities import agrees, quantities

SAME = [
    ("30", "thirty"),
    ("30", "三十"),
    ("３０", "三十"),
    ("thirty-two", "三十二"),
    ("1,200", "1200"),
    ("1.5 million", "150万"),
    ("1.5 million", "1,500,000"),
    ("two hundred and five", "205"),
    ("12", "a dozen"),
    ("3万2千", "32,000"),
    ("1億2,000万", "120 million"),
    ("50%", "fifty percent"),
    ("50 %", "百分之五十"),
    ("五割", "50パーセント"),
    ("half of them", "50%"),
    ("3割5分", "35%"),
    ("two-thirds", "三分之二"),
    ("三分の二", "三分之二"),
    ("March 5, 2021", "2021-03-05"),
    ("March 5, 2021", "2021年3月5日"),
    ("5 March 2021", "二〇二一年三月五日"),
    ("5th of March 2021", "2021/3/5"),
    ("令和3年3月5日", "March 5, 2021"),
    ("昭和16年", "1941"),
    ("民国元年", "1912年"),
    ("March 2021", "2021年3月"),
    ("1984", "1984年"),
    ("3 pm", "15:00"),
    ("3:30 p.m.", "下午三点半"),
    ("午後3時30分", "15:30"),
    ("noon", "正午"),
    ("3 o'clock", "15:00"),
    ("the 1990s", "90年代"),
    ("19th century", "十九世纪"),
    ("the 3rd floor", "三层"),
    ("the second division", "2"),
    ("World War II", "第二次世界大战"),
    ("24 hours", "1 day"),
    ("90 minutes", "1.5小时"),
    ("3 months", "the first three months"),
    ("3个月", "3か月"),
    ("2,5 years and 10 kg", "10公斤"),
    ("$500", "500 dollars"),
    ("3500元", "3,500 yuan"),
    ("5万円", "¥50,000"),
]
OTHER = [
    ("30", "31"),
    ("30", "thirteen"),
    ("三十", "三百"),
    ("30 days", "30 hours"),
    ("30 days", "30 weeks"),
    ("30%", "$30"),
    ("$500", "€500"),
    ("3500元", "3500美元"),
    ("5万円", "5万ドル"),
    ("1.5 million", "1.5 billion"),
    ("150万", "150亿"),
    ("March 5, 2021", "March 6, 2021"),
    ("March 5, 2021", "5 April 2021"),
    ("2021年3月5日", "2020年3月5日"),
    ("3 pm", "3 am"),
    ("下午三点", "上午三点"),
    ("the 1990s", "80年代"),
    ("19th century", "二十世纪"),
    ("v1.2.3 of 1.2.3", "1.2.4"),
    ("签署五年合约", "2009年5月3日"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same_is_the_same_however_it_is_written(one: str, other: str) -> None:
    ours, theirs = quantities(one), quantities(other)
    assert ours
    assert theirs
    assert any(agrees(quantity, theirs) for quantity in ours)
    assert any(agrees(quantity, ours) for quantity in theirs)


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_what_differs_differs_both_ways(one: str, other: str) -> None:
    ours, theirs = quantities(one), quantities(other)
    assert ours
    assert theirs
    assert not all(agrees(quantity, theirs) for quantity in ours)
    assert not all(agrees(quantity, ours) for quantity in theirs)


@pytest.mark.parametrize(
    "text",
    [
        "one of them",
        "no one",
        "一些人一起",
        "统一的唯一标准",
        "十分重要",
        "四周",
        "首先",
        "F-16 fighters",
        "I know",
        "at first",
    ],
)
def test_what_is_no_number_is_not_checked(text: str) -> None:
    assert not [one for one in quantities(text) if one.sure]


def test_a_date_may_be_put_together_of_a_day_and_a_year() -> None:
    (claimed,) = quantities("March 5, 2021")
    assert agrees(claimed, quantities("In 2021 he came; on March 5 he left."))
    assert not agrees(claimed, quantities("In 2020 he came; on March 5 he left."))


def test_a_day_and_a_month_in_numbers_may_be_either() -> None:
    (claimed,) = quantities("5/3/2021")
    assert agrees(claimed, quantities("March 5, 2021"))
    assert agrees(claimed, quantities("3 May 2021"))
    assert not agrees(claimed, quantities("3 June 2021"))


@pytest.mark.parametrize(
    ("claimed", "stated", "same"),
    [
        ("about 1.5 million", "1,487,212", True),
        ("约150万", "1487212", True),
        ("1.5 million", "1,487,212", False),
        ("about 1.5 million", "1,800,000", False),
        ("約520トン", "約500トン", False),
    ],
)
def test_about_so_much_allows_a_little(claimed: str, stated: str, same: bool) -> None:
    (one,) = quantities(claimed)
    assert agrees(one, quantities(stated)) is same


def test_where_they_stand() -> None:
    found = quantities("On May 3, 2020 at 3 pm 40 of ５０ came")
    assert [one.text for one in found] == ["May 3, 2020", "3 pm", "40", "50"]
    assert all(before.end <= after.start for before, after in pairwise(found))


@given(st.integers(2, 99))
def test_every_number_below_a_hundred_in_every_writing(number: int) -> None:
    written = [f"{number} cats", f"{english(number)} cats", f"{han(number)}只猫"]
    for one in written:
        for other in written:
            assert all(agrees(quantity, quantities(other)) for quantity in quantities(one))
            assert not any(agrees(quantity, quantities(f"{number + 1} cats")) for quantity in quantities(one))


@given(
    st.text("0123456789,.-/:年月日時点分一二三十百千万億割 percentJuneamdhalfofXVI$¥%第", max_size=60)
    | st.text(max_size=60)
)
def test_any_text_is_read_without_a_crash(text: str) -> None:
    found = quantities(text)
    for one in found:
        assert agrees(one, found), "each is what it is itself"
