"""Names of uploads: whatever a client says, what is stored is a name that is safe everywhere and looks like itself."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kb.loading import readable_path
from kb.web.safe_names import MOST_BYTES, folded, numbered, safe_name, suffix_of

DEVICES = [
    *("CON", "con", "PRN", "AUX", "NUL", "COM1", "com9", "LPT1", "LPT9", "COM0", "COM¹", "CONIN$", "CONOUT$", "CLOCK$")
]

HOSTILE = st.text(
    st.one_of(
        st.characters(),
        st.sampled_from('/\\.. ~$:*?"<>|\0\n\r\t\u202e\u2066\u200b\u200d\ufeff\u2028\ud800\u0301がカ退é'),
        st.sampled_from("abcdefNULCOM1.mdpf"),
    ),
    max_size=300,
)


@pytest.mark.parametrize(
    ("given", "safe"),
    [
        ("notes.md", "notes.md"),
        ("退款政策.pdf", "退款政策.pdf"),
        ("返品について 2026.docx", "返品について 2026.docx"),
        ("../../etc/passwd.md", "passwd.md"),
        ("/etc/cron.d/x.txt", "x.txt"),
        ("..\\..\\windows\\system.md", "system.md"),
        ("C:\\Users\\me\\a.md", "a.md"),
        ("C:a.md", "C_a.md"),
        ("a.md\0.exe", "a.md.exe"),
        ("a\r\nSet-Cookie: b.md", "a Set-Cookie_ b.md"),
        ("\u202egpj.md", "gpj.md"),
        (".bashrc.md", "bashrc.md"),
        ("...md", "md"),
        ("a.md. . .", "a.md"),
        ("  a  b .md", "a b .md"),
        ("~$report.docx", "report.docx"),
        ("~$~$.a.md", "a.md"),
        ("nul.md", "_nul.md"),
        ("Com1.tar.md", "_Com1.tar.md"),
        ("con .md", "_con .md"),
        ("console.md", "console.md"),
        (unicodedata.normalize("NFD", "café が.md"), "café が.md"),
        ("می\u200cخواهم.md", "می\u200cخواهم.md"),
        ("👩\u200d💻.md", "👩\u200d💻.md"),
        ("a\ufffd.md", "a_.md"),
        ("-rf.md", "-rf.md"),
        ("%2e%2e%2fa.md", "%2e%2e%2fa.md"),
        ("", ""),
        ("..", ""),
        ("/", ""),
        ("\n\t \u3000", ""),
        ("\u202e\u2069", ""),
    ],
)
def test_a_name_is_made_safe(given: str, safe: str) -> None:
    assert safe_name(given) == safe


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("suffix", [".md", ".tar.pdf", " .txt"])
def test_no_name_is_a_device(device: str, suffix: str) -> None:
    assert safe_name(device + suffix) == f"_{device}{suffix}"


@pytest.mark.parametrize("character", ["x", "é", "退", "返", "😀"])
def test_a_long_name_keeps_its_suffix_and_whole_characters(character: str) -> None:
    name = safe_name(character * 10_000 + ".pdf")
    assert name.removesuffix(".pdf") == character * ((MOST_BYTES - 4) // len(character.encode()))


@given(HOSTILE)
@example("con" + " " * 250 + ".md")
@example("." * 300 + "a.md")
@example("a" + "." * 300)
@example("x." + "y" * 300)
@example("~$" * 150 + ".md")
@example("~$con.md")
def test_whatever_comes_is_safe(given: str) -> None:
    name = safe_name(given)
    assert len(name.encode()) <= MOST_BYTES + 1
    assert not set(name) & set('/\\\0:*?"<>|\n\r\t')
    assert name == name.strip(" .")
    assert not name.startswith("~$")
    assert all(character in "\u200c\u200d" or unicodedata.category(character)[0] != "C" for character in name)
    assert name.partition(".")[0].strip().upper() not in DEVICES
    assert readable_path(name) == name
    assert safe_name(name) == name


@given(HOSTILE, st.integers(2, 10_000))
def test_a_number_makes_another_name_of_the_same_kind(given: str, number: int) -> None:
    name = safe_name(given)
    if name:
        other = numbered(name, number)
        assert folded(other) != folded(name)
        assert suffix_of(other) == suffix_of(name)
        assert len(other.encode()) <= 255


@pytest.mark.parametrize(
    ("one", "other"), [("A.md", "a.MD"), ("café.md", "cafe\u0301.md"), ("ガ.md", "カ\u3099.md"), ("ß.md", "SS.md")]
)
def test_names_that_a_file_system_may_take_for_one_are_folded_to_one(one: str, other: str) -> None:
    assert folded(one) == folded(other)
