"""Every form of a citation marker that models write, in real sentences of three languages, whole and cut anywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.marker_grammar import MAX_INSIDE, may_become, read
from kb.markers import MarkerFilter, find_markers
from kb.sentences import sentence_spans

N_HITS = 9

# Each form, the numbers it cites, as a person reads them.
FORMS: tuple[tuple[str, tuple[int, ...]], ...] = (
    # numbers alone
    ("[1]", (1,)), ("[ 2 ]", (2,)), ("[03]", (3,)), ("[1][2]", (1, 2)), ("[1] [2]", (1, 2)), ("[1], [2]", (1, 2)),
    ("[1, 2]", (1, 2)), ("[1,2,3]", (1, 2, 3)), ("[1;2]", (1, 2)), ("[1; 2]", (1, 2)), ("[1 2]", (1, 2)),
    ("[1-3]", (1, 2, 3)), ("[1–3]", (1, 2, 3)), ("[1—3]", (1, 2, 3)), ("[2 - 4]", (2, 3, 4)), ("[1~3]", (1, 2, 3)),
    ("[1, 3-5]", (1, 3, 4, 5)), ("[1-2, 4]", (1, 2, 4)), ("[1-2,4-5]", (1, 2, 4, 5)), ("[3, 1]", (3, 1)),
    ("[1 and 2]", (1, 2)), ("[1, 2 and 4]", (1, 2, 4)), ("[1, 2, and 4]", (1, 2, 4)), ("[1 & 2]", (1, 2)),
    ("[1 to 3]", (1, 2, 3)), ("[1 AND 2]", (1, 2)), ("[2 through 4]", (2, 3, 4)),
    # full width, Chinese and Japanese stops and words
    ("【1】", (1,)), ("【1】【2】", (1, 2)), ("［１］", (1,)), ("［１，２］", (1, 2)), ("【１、３】", (1, 3)),
    ("【1，2】", (1, 2)),
    ("[1、2]", (1, 2)), ("[1，2]", (1, 2)), ("[1；2]", (1, 2)), ("[1、2和3]", (1, 2, 3)), ("[1和2]", (1, 2)),
    ("[1与3]", (1, 3)), ("[1以及2]", (1, 2)), ("[1と2]", (1, 2)), ("[1、2、および4]", (1, 2, 4)), ("[1及び3]", (1, 3)),
    ("[1・2]", (1, 2)), ("[1至3]", (1, 2, 3)), ("[1到3]", (1, 2, 3)), ("[1から3]", (1, 2, 3)), ("[1〜3]", (1, 2, 3)),
    ("[1～3]", (1, 2, 3)), ("【①】", (1,)), ("[②、③]", (2, 3)), ("【1-3】", (1, 2, 3)),
    # a word for a source, English
    ("[source 1]", (1,)), ("[Source 1]", (1,)), ("[SOURCE 2]", (2,)), ("[source: 1]", (1,)), ("[Source: 1, 3]",
    (1, 3)),
    ("[Source 1, 3]", (1, 3)), ("[sources 1-3]", (1, 2, 3)), ("[Sources: 1, 2, and 4]", (1, 2, 4)),
    ("[Source 1, Source 2]", (1, 2)), ("[Source 1; Source 3]", (1, 3)), ("[source 1 and source 2]", (1, 2)),
    ("[Source 1 - Source 3]", (1, 2, 3)), ("[Source #2]", (2,)), ("[source no. 2]", (2,)), ("[source number 2]", (2,)),
    ("[source-1]", (1,)), ("[source_1]", (1,)), ("[Src 1]", (1,)), ("[Context 2]", (2,)), ("[context: 2]", (2,)),
    ("[contexts 1 and 3]", (1, 3)), ("[Context [2]]", (2,)), ("[doc 1]", (1,)), ("[doc1]", (1,)),
    ("[doc1][doc3]", (1, 3)), ("[Doc. 4]", (4,)), ("[docs 1, 2]", (1, 2)), ("[document 1]", (1,)),
    ("[Documents 1–2]", (1, 2)), ("[ref. 1]", (1,)), ("[ref 2]", (2,)), ("[Ref: 1, 2]", (1, 2)), ("[refs 1-2]",
    (1, 2)),
    ("[reference 3]", (3,)), ("[citation 1]", (1,)), ("[Citation: 2]", (2,)), ("[cite: 1]", (1,)), ("[cite:1,2]",
    (1, 2)),
    ("[passage 2]", (2,)), ("[excerpt 1]", (1,)), ("[snippet 1]", (1,)), ("[chunk 5]", (5,)),
    ("[see source 1]", (1,)), ("[see 1, 2]", (1, 2)), ("[cf. 3]", (3,)), ("[from source 2]", (2,)), ("[see also 4]",
    (4,)),
    ("(source 1)", (1,)), ("(Source: 1, 3)", (1, 3)), ("(sources 1 and 2)", (1, 2)), ("(context 2)", (2,)),
    ("(see source 3)", (3,)), ("【Source 1】", (1,)), ("［Ｓｏｕｒｃｅ １］", (1,)),
    # a word for a source, Chinese
    ("[来源：1]", (1,)), ("[来源1]", (1,)), ("[来源 1、2]", (1, 2)), ("【来源：1】", (1,)), ("【来源1、来源3】",
    (1, 3)),
    ("[來源：2]", (2,)), ("[资料1]", (1,)), ("[资料 1-3]", (1, 2, 3)), ("【资料2】", (2,)), ("[資料：1，4]", (1, 4)),
    ("[参考1]", (1,)), ("[参考资料 2]", (2,)), ("[参考资料：1、2和4]", (1, 2, 4)), ("[參考資料3]", (3,)), ("[文档1]",
    (1,)),
    ("[文档 1；文档 2]", (1, 2)), ("[文獻2]", (2,)), ("[引用：1]", (1,)), ("[出处：2]", (2,)), ("[见资料1]", (1,)),
    ("[参见来源2]", (2,)), ("[见 1]", (1,)), ("[来源编号：3]", (3,)), ("[资料一]", (1,)), ("[资料一、三]", (1, 3)),
    ("[来源二至四]", (2, 3, 4)), ("[资料1号]", (1,)), ("（来源1）", (1,)), ("（来源：1、2）", (1, 2)), ("（资料2）",
    (2,)),
    ("（参考资料：3）", (3,)), ("(来源1)", (1,)), ("（出处：1）", (1,)), ("[上下文 2]", (2,)), ("[片段3]", (3,)),
    # a word for a source, Japanese
    ("[出典: 1]", (1,)), ("[出典：1、2]", (1, 2)), ("【出典1】", (1,)), ("[資料 1、2]", (1, 2)), ("[資料1と3]",
    (1, 3)),
    ("[資料1〜3]", (1, 2, 3)), ("[文書1]", (1,)), ("[文書 2および4]", (2, 4)), ("[参考文献 2]", (2,)), ("[参照: 1]",
    (1,)),
    ("[ソース1]", (1,)), ("[ソース：1、3]", (1, 3)), ("[コンテキスト 2]", (2,)), ("[ドキュメント3]", (3,)),
    ("[引用元：1]", (1,)),
    ("[根拠：2]", (2,)), ("[資料番号1]", (1,)), ("[資料二]", (2,)), ("（出典：1）", (1,)), ("（資料1、2）", (1, 2)),
    ("（ソース2）", (2,)), ("【資料1】【資料2】", (1, 2)), ("[資料第3号]", (3,)),
    # signs, footnotes, doubled brackets
    ("[#1]", (1,)), ("[#1, #3]", (1, 3)), ("[№2]", (2,)), ("[^1]", (1,)), ("[^1][^2]", (1, 2)),
    ("[^1^]", (1,)), ("[^1, ^2]", (1, 2)), ("[^1^][^3^]", (1, 3)), ("[[1]]", (1,)), ("[[1, 2]]", (1, 2)),
    ("[[1]][[2]]", (1, 2)), ("[[Source 1]]", (1,)), ("[[^2]]", (2,)), ("([1])", (1,)), ("**[1]**", (1,)),
    # what OpenAI's models were taught
    ("【1†source】", (1,)), ("【2†L3-L5】", (2,)), ("【1†L10】【3†L2-L4】", (1, 3)), ("【4:0†file.pdf】", (4,)),
    ("【1:2†source】", (1,)), ("[1†source]", (1,)), ("【3†来源】", (3,)), ("【1†handbook.md†L1】", (1,)),
    # where in the source
    ("[1, p. 3]", (1,)), ("[2, pp. 3-5]", (2,)), ("[1: p. 7]", (1,)), ("[1 (page 3)]", (1,)), ("[1, page 12]", (1,)),
    ("[1, § 4.2]", (1,)), ("[2, lines 3–9]", (2,)), ("[2, section 4]", (2,)), ("[1: handbook.md]", (1,)),
    ("[1, handbook.md]", (1,)), ("[1 | handbook.pdf, p. 3]", (1,)), ("[Source 1: user guide.md]", (1,)),
    ("[1，第3页]", (1,)), ("[资料2，第3-5页]", (2,)), ("[1、3ページ]", (1,)), ("[出典1：就業規則.pdf]", (1,)),
    ("[来源1：员工手册.docx]", (1,)), ("[資料2、第3章]", (2,)),
)  # fmt: skip

SENTENCES = (
    "Refunds are paid within 30 days {}.",
    "As {} says, a receipt is needed; shipping isn't refunded.",
    "退款会在七个工作日内到账{}。",
    "根据{}，运费不退。",
    "返金は30日以内に行われます{}。",
    "{} によると、領収書が必要です。",
)

# What stays as it is, with any number of hits.
NO_FORMS = (
    # mathematics and arrays
    "The value lies in [0, 1].", "A probability in [0, 1], as always.", "x ∈ [1, 5] holds.", "$x \\in [1, 3]$",
    "\\left[1, 2\\right] is closed", "a number in the range [1, 10] is valid", "the interval [2, 4] is closed",
    "取值区间 [1, 3] 有效", "範囲は [1, 5] です", "範囲[1, 5]を指定", "rows = [1, 2, 3] gives three",
    "the matrix = [1, 2]", "[0, 5, 9] are the offsets", "[0-9] is a digit", "[0–9] is a digit",
    # code and patterns
    "array[2] is the third", "args[1] and argv[2]", "x[0] + y[1]", "total[2] = 3", "days[1].count()", "`a[1]`",
    "use `[source 1]` literally", "```\n[source 1]\n【1†source】\n(source 2)\n```", "~~~\n[^1]\n~~~", "[1-9]+ matches",
    "[1-9]{3} matches", "[1-9]\\d* matches", "[^1-9] is a class", "[^0-9] is a class", "[^1]+ is a class",
    "f(source 1)",
    "matrix[1][2]", "$rows[1]", "list[1, 2]",
    # links, footnotes, boxes
    "[1](https://example.com)", "[source 1](https://example.com/a)", "![1](a.png)", "![Source 2](b.png)",
    "[[1]](https://example.com)", "[doc1](guide.md#top)", "[^1]: the handbook, page 3", "x\n[^2]: 员工手册",
    "- [ ] open\n- [x] done",
    "[text](source 1)",
    # years and other words
    "in [2024] it grew", "[2023, 2024] were good years", "[1999-2003] is a span", "[2024] UKSC 5", "国发〔2024〕1号",
    "【2024】年度报告",
    "[sic] he wrote", "[TODO]", "[a]", "[a1]", "[v2]", "[A-Z]", "[Figure 1]", "[Table 2]", "[Step 1]", "[Note 1]",
    "[Article 5]",
    "[Section 3]", "[Appendix 2]", "[Option 3]", "[Chapter 1]", "[Document 1 of 3]", "[page 3]", "[p. 3]", "[1.5]",
    "[1/2]",
    "[1:2]", "[-1]", "[+1]", "[1-]", "[1", "1]", "[]", "[,]", "[source]", "[source: handbook.md]", "[sources]",
    "[ref]", "[第1条]", "[第3页]", "[图1]", "【附件1】", "【例1】", "【注1】", "[表2]", "[図3]", "【重要】",
    "【第1章】", "[出典]", "[资料]",
    # round brackets
    "(1)", "（1）", "(1, 2)", "(see 1)", "(document 1)", "(doc 2)", "(ref. 3)", "(step 1)", "(page 3)", "（图1）",
    "（第1条）",
    "(source code)", "(sources)", "（1）打开设置（2）保存", "(1) open it (2) save it",
    # superscripts
    "10 m² and 5 cm³", "see¹", "[¹]", "[½]",
)  # fmt: skip

# A context's number inside another bracket: the inner one is the marker, and the rest is the model's own words.
_INNER_ONLY = {"[Context [2]]", "([1])", "**[1]**", "[1], [2]"}


def passed(text: str, n_hits: int = N_HITS) -> tuple[str, tuple[int, ...]]:
    markers = MarkerFilter(n_hits)
    return markers.feed(text) + markers.finish(), markers.removed


def numbers_in(text: str) -> tuple[int, ...]:
    return tuple(number for marker in find_markers(text) for number in marker.numbers)


def test_there_are_enough_of_them() -> None:
    assert len(FORMS) * len(SENTENCES) > 300
    assert len({form for form, _ in FORMS}) == len(FORMS)
    assert len(NO_FORMS) > 100


@pytest.mark.parametrize(("form", "numbers"), FORMS)
def test_the_numbers_are_those_a_reader_sees(form: str, numbers: tuple[int, ...]) -> None:
    for sentence in SENTENCES:
        text = sentence.format(form)
        assert numbers_in(text) == numbers, text
        written, removed = passed(text)
        assert numbers_in(written) == numbers
        assert removed == ()
        if form not in _INNER_ONLY and "] [" not in form:
            assert written == sentence.format("".join(f"[{number}]" for number in numbers))
        assert passed(written) == (written, ())  # what has passed once passes again as it is


@pytest.mark.parametrize("sentence", SENTENCES)
def test_each_form_may_be_cut_anywhere(sentence: str) -> None:
    for form, _ in FORMS:
        text = sentence.format(form)
        for n_hits in (0, 1, N_HITS):
            whole = passed(text, n_hits)
            for at in range(len(text) + 1):
                markers = MarkerFilter(n_hits)
                joined = markers.feed(text[:at]) + markers.feed(text[at:]) + markers.finish()
                assert (joined, markers.removed) == whole, (text, at)
            markers = MarkerFilter(n_hits)
            assert "".join([*map(markers.feed, text), markers.finish()]) == whole[0], text


@pytest.mark.parametrize("form", [form for form, _ in FORMS])
def test_a_form_that_points_nowhere_is_taken_out_and_reported(form: str) -> None:
    for sentence in SENTENCES:
        text = sentence.format(form)
        written, removed = passed(text, 0)
        assert numbers_in(written) == ()
        assert removed == tuple(dict.fromkeys(numbers_in(text)))


@pytest.mark.parametrize("text", NO_FORMS)
def test_what_only_looks_like_one_is_left_alone(text: str) -> None:
    assert numbers_in(text) == ()
    for n_hits in (0, N_HITS):
        assert passed(text, n_hits) == (text, ())
        for at in range(len(text) + 1):
            markers = MarkerFilter(n_hits)
            assert markers.feed(text[:at]) + markers.feed(text[at:]) + markers.finish() == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x(source 1)", "x(source 1)"),
        ("x【1】", "x [1]"),
        ("x[source 1] = 2", "x [1] = 2"),
        ("array[0]【1】", "array[0] [1]"),
        ("[source 1](see below)", "[1] (see below)"),
        ("see [source 99], please", "see, please"),
        ("(see [99])", "(see)"),
        ("(source [99]1)", "(source …1)"),
        ("[^1] first\n[^1]: the handbook", "[1] first\n[^1]: the handbook"),
    ],
)
def test_a_form_that_becomes_a_number_stays_a_marker_and_makes_no_other(text: str, expected: str) -> None:
    assert passed(text)[0] == expected
    assert passed(expected)[0] == expected


@pytest.mark.parametrize(("form", "numbers"), FORMS)
def test_a_beginning_of_what_is_read_may_always_become_it(form: str, numbers: tuple[int, ...]) -> None:
    inside = form[1:-1]
    if read(inside, form[0]) is not None:
        assert all(may_become(inside[:length], form[0]) for length in range(len(inside) + 1))


INSIDES = st.lists(
    st.sampled_from([
        "1", "2", "9", "0", "２", "一", "十", "①", ",", "，", "、", ";", "-", "–", "~", "至", "and", "と", "·", ".",
    ":", "：", "#",
        "^", "†", "(", ")", "/", "|", "p.", "page", "第", "页", "source", "Source", "sources", "src", "ref", "doc",
    "see", "cf.",
        "no.", "来源", "参考", "资料", "参考资料", "出典", "ソース", "a.md", "x", "L3", " ", "\t",
    ]),
    max_size=14,
).map("".join)  # fmt: skip


@given(INSIDES, st.sampled_from("[【［(（"))
def test_nothing_that_is_read_was_given_up_before_it_was_whole(inside: str, opening: str) -> None:
    cited = read(inside[:MAX_INSIDE], opening)
    if cited is not None:
        assert cited.numbers
        assert all(may_become(inside[:length], opening) for length in range(len(inside[:MAX_INSIDE]) + 1))


@given(
    st.sampled_from(["参考", "参考资料", "see", "no.", "第", "source", "1, ", "a.md ", "p. 3 ", " ", "1 "]),
    st.integers(1, 60),
)
def test_no_inside_takes_long_to_read(unit: str, times: int) -> None:
    inside = (unit * times)[:MAX_INSIDE]
    for text in (inside, f"1 {inside}", f"source 1 {inside}", f"{inside}!"):
        read(text)
        may_become(text)


@pytest.mark.parametrize("form", ["[1]", "[1, 2]", "[1、3]", "【1】", "［１］", "[1–3]"])
def test_a_plain_marker_after_a_full_stop_belongs_to_the_sentence_before(form: str) -> None:
    for text, first in (
        (f"It is so.{form} Next one.", f"It is so.{form}"),
        (f"そうです。{form}次です。", f"そうです。{form}"),
    ):
        start, end = sentence_spans(text)[0]
        assert text[start:end] == first
