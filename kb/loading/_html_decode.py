"""The encoding of a page: a byte order mark, else what the page declares, else evidence."""

from __future__ import annotations

import codecs
import re

from kb.loading._decode import CERTAIN_CHARACTERS, MAX_BROKEN_SHARE, Decoded, decode

_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
_DECLARED = re.compile(
    rb"<meta[ \t\r\n/][^>]{0,999}?charset[ \t\r\n]{0,9}=[ \t\r\n]{0,9}[\"']?[ \t\r\n]{0,9}([\w:.-]{1,40})"
    rb"|^[ \t\r\n]{0,99}<\?xml[^>]{0,999}?encoding[ \t\r\n]{0,9}=[ \t\r\n]{0,9}[\"']([\w:.-]{1,40})",
    re.IGNORECASE,
)
MAX_HEAD_BYTES = 16_384
"""Browsers ask for the declaration in the first 1,024 bytes, but take a later one too."""

# What browsers understand by a label (WHATWG, "Encoding"): the superset that Windows wrote under that name.
_MEANT = {
    **dict.fromkeys(("gb2312", "gbk", "x-gbk", "gb_2312-80", "chinese", "gb18030"), "gb18030"),
    **dict.fromkeys(("shift_jis", "shift-jis", "sjis", "x-sjis", "ms_kanji", "windows-31j", "cp932"), "cp932"),
    **dict.fromkeys(("euc-jp", "x-euc-jp"), "euc_jp"),
    "iso-2022-jp": "iso2022_jp_2",
    **dict.fromkeys(("big5", "big5-hkscs", "cn-big5", "x-x-big5"), "big5hkscs"),
    **dict.fromkeys(("euc-kr", "ks_c_5601-1987", "korean", "windows-949", "cp949"), "cp949"),
    **dict.fromkeys(("iso-8859-1", "iso8859-1", "iso_8859-1", "latin1", "ascii", "us-ascii", "cp1252"), "cp1252"),
    **dict.fromkeys(("iso-8859-9", "latin5"), "cp1254"),
    **dict.fromkeys(("iso-8859-11", "tis-620"), "cp874"),
    "macintosh": "mac_roman",
}
_SINGLE_BYTE = re.compile(r"iso-8859-(?:[2-8]|10|1[3-6])|windows-(?:874|125[0-8])|koi8-[ru]|ibm866")


def decode_html(data: bytes, relative: str) -> Decoded:
    """Decode a page.

    A declaration is believed when the bytes fit it, but for a handful of broken ones. Pages that are
    in truth UTF-8 are common, since browsers and editors save them so without changing the declaration.

    Raises:
        LoadError: the file is binary, or no known encoding fits.
    """
    encoding = _declared_encoding(data)
    if encoding is None or data.startswith(_MARKS) or _is_surely_utf8(data):
        return decode(data, relative)
    try:
        return Decoded(data.decode(encoding), encoding)
    except UnicodeDecodeError:
        text = data.decode(encoding, "replace")
    broken = text.count("\ufffd")
    if broken > max(1, len(data) * MAX_BROKEN_SHARE):
        return decode(data, relative)
    return Decoded(
        text,
        encoding,
        f"{broken} of its characters are not {encoding}, which it declares, and became U+FFFD; save the file as UTF-8",
    )


def _declared_encoding(data: bytes) -> str | None:
    """Python's name for what the page declares; None for UTF-8, for nothing, and for unknown names."""
    head = _COMMENT.sub(b"", data[:MAX_HEAD_BYTES])
    found = _DECLARED.search(head)
    if found is None:
        return None
    label = (found[1] or found[2]).decode("ascii").lower()
    if label in _MEANT:
        return _MEANT[label]
    if _SINGLE_BYTE.fullmatch(label):
        return codecs.lookup(label.replace("ibm", "cp")).name
    return None


def _is_surely_utf8(data: bytes) -> bool:
    """Whether so many bytes beyond ASCII are valid UTF-8 that it is no chance."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return sum(1 for byte in data if byte > 0x7F) >= CERTAIN_CHARACTERS
