"""Bytes → text, by evidence: first what is certain, then what fits, never a silent guess."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

from kb.errors import LoadError

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SIGNATURES = (
    (b"%PDF-", "a PDF"),
    (b"PK\x03\x04", "a zip archive or an Office file"),
    (b"\xd0\xcf\x11\xe0", "an old Office file"),
    (b"\x89PNG", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"\x1f\x8b", "gzip data"),
    (b"\x7fELF", "a program"),
)

_GUESSES = ("cp932", "euc_jp", "gb18030", "big5", "cp949", "cp1252", "koi8_r", "cp1251")
"""Encodings that still occur in files of words; a longer list makes every guess worse."""
_RARE_GUESSES = ("mac_roman", "cp1250", "cp1253", "cp1255", "cp1256", "cp874")
"""Asked only when none of the others fits."""

MAX_CONTROL_SHARE = 0.05
"""More control characters than this are no text: prose has none, a log with colours about 1 %."""
MAX_BROKEN_SHARE = 0.001
"""Broken UTF-8 up to this share of the bytes is damage; more of it is another encoding."""
VALID_PER_BROKEN = 4
"""Valid multi-byte sequences per broken byte that prove UTF-8: in other encodings valid ones come
by chance, fewer than one for each broken byte (Chinese in GB18030: about one for four)."""
MIN_NUL_SHARE = 0.005
"""In UTF-16 at least every hundredth character is a line end, a space or a digit, with one NUL."""
MIN_LATIN_NUL_SHARE = 0.2
"""Bytes that are valid UTF-8 too are UTF-16 only from here on: Latin text in UTF-16 is half NULs,
and in Chinese or Japanese text other bytes are no UTF-8."""
MIN_PLAUSIBILITY = 0.9
"""Of text in UTF-16; of bytes that are anything else about half are such characters by chance."""
MAX_NUL_SHARE = 0.3
"""Some programs pad text with NULs, which are dropped; with more of them it is a binary record."""
CERTAIN_CHARACTERS = 40
"""Below about this many characters that are not ASCII, detectors are wrong on 40 % of the files."""

_CONTROLS = bytes([*range(1, 0x09), *range(0x0E, 0x1B), *range(0x1C, 0x20), 0x7F])
_ISO_2022_JP = re.compile(rb"\x1b\$[@B]|\x1b\$\(D")


@dataclass(frozen=True, slots=True)
class Decoded:
    """Text, the encoding's name, and a sentence when the encoding was a guess or bytes were lost."""

    text: str
    encoding: str
    warning: str | None = None


def decode(data: bytes, relative: str) -> Decoded:
    """Decode a text file.

    In this order: a byte order mark; UTF-16 without one, by its NULs; ISO-2022-JP, by its escapes;
    strict UTF-8; UTF-8 with few broken bytes; a guess from a short list, with a warning.

    Raises:
        LoadError: the file is binary, or no known encoding fits.
    """
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark) and not _chance_mark(data, encoding):
            return _by_mark(data[len(mark) :], encoding, relative)
    for signature, kind in _SIGNATURES:
        if data.startswith(signature):
            raise LoadError(relative, f"this is {kind}, not text; give the file the suffix of its kind")
    wide = _utf16_by_nuls(data)
    if wide:
        return wide
    if _control_share(data) > MAX_CONTROL_SHARE or data.count(0) > len(data) * MAX_NUL_SHARE:
        raise LoadError(relative, "this is binary data, not text; give the file the suffix of its kind, or remove it")
    if _ISO_2022_JP.search(data):
        text = _strictly(data, "iso2022_jp_2")
        if text is not None:
            return Decoded(text, "iso2022_jp_2")
    text = _strictly(data, "utf-8")
    if text is None:  # CESU-8, which some databases and Java programs write: surrogate pairs in UTF-8's form
        text = _strictly(data, "utf-8", "surrogatepass")
    if text is not None:
        return Decoded(text, "utf-8")
    return _damaged_utf8(data) or _mixed_lines(data) or _guessed(data, relative)


def _strictly(data: bytes, encoding: str, errors: str = "strict") -> str | None:
    try:
        return data.decode(encoding, errors)
    except UnicodeDecodeError:
        return None


def _chance_mark(data: bytes, encoding: str) -> bool:
    """Whether a byte order mark of UTF-16 is chance: "яю" in Russian cp1251 has the same bytes."""
    return (
        encoding.startswith("utf-16")
        and 0 not in data
        and _plausibility(data.decode(encoding, "replace")) < MIN_PLAUSIBILITY
    )


def _by_mark(data: bytes, encoding: str, relative: str) -> Decoded:
    text = data.decode(encoding, "replace")
    broken = text.count("\ufffd") - data.count("\ufffd".encode(encoding))
    if broken > max(1, len(text) * MAX_CONTROL_SHARE):
        raise LoadError(relative, f"its first bytes say {encoding}, but it is not; save the file as UTF-8")
    return Decoded(text, encoding, _lost(broken, encoding) if broken > 0 else None)


def _lost(broken: int, encoding: str) -> str:
    places = "one place" if broken == 1 else f"{broken} places"
    return f"{places} could not be decoded as {encoding} and became U+FFFD; save the file as UTF-8"


def _control_share(data: bytes) -> float:
    return 1 - len(data.translate(None, _CONTROLS)) / len(data) if data else 0.0


def _utf16_by_nuls(data: bytes) -> Decoded | None:
    """UTF-16 without a byte order mark: spaces, line ends and Latin letters have a NUL each."""
    nuls = data.count(0) / max(1, len(data))
    if nuls < MIN_NUL_SHARE or (nuls < MIN_LATIN_NUL_SHARE and _strictly(data, "utf-8") is not None):
        return None
    found: list[tuple[float, str, str]] = []
    for encoding in ("utf-16-le", "utf-16-be"):
        text = _strictly(data[: len(data) & ~1], encoding)
        if text is not None and (plausible := _plausibility(text)) >= MIN_PLAUSIBILITY:
            found.append((plausible, encoding, text))
    if not found:
        return None
    _, encoding, text = max(found)
    return Decoded(text, encoding, f"decoded as {encoding} without a byte order mark; save the file as UTF-8")


_PLAUSIBLE_WIDE = re.compile(
    "[\t\n\r -~\u00a0-\u052f\u3000-\u30ff\u4e00-\u9fff\uac00-\ud7a3\uff00-\uffef\u2010-\u2027]"
)


def _plausibility(text: str) -> float:
    """The share of characters that texts have; 0 without a line's or a sentence's end, or a space."""
    # Bytes of Latin text, taken in pairs, are Han characters too, but hardly ever one of these.
    if not any(c in text for c in " \n\u3000、。，"):
        return 0.0
    return len(_PLAUSIBLE_WIDE.findall(text)) / len(text)


def _damaged_utf8(data: bytes) -> Decoded | None:
    text = data.decode("utf-8", "replace")
    broken = text.count("\ufffd") - data.count(b"\xef\xbf\xbd")
    valid = sum(1 for c in text if c > "\x7f") - text.count("\ufffd")
    if broken > len(data) * MAX_BROKEN_SHARE and valid < VALID_PER_BROKEN * broken:
        return None
    return Decoded(text, "utf-8", _lost(broken, "UTF-8"))


def _mixed_lines(data: bytes) -> Decoded | None:
    """UTF-8 to which lines in cp1252 were added, as logs and notes of two programs have them."""
    # A line of another encoding is valid UTF-8 by chance only when it is very short.
    lines = [_strictly(line, "utf-8") for line in data.split(b"\n")]
    broken = lines.count(None)
    if sum(1 for line in lines if line and not line.isascii()) <= broken:
        return None
    mended = [
        line if line is not None else _strictly(raw, "cp1252")
        for line, raw in zip(lines, data.split(b"\n"), strict=True)
    ]
    if any(line is None for line in mended):
        return None
    warning = f"{broken} of its lines are not UTF-8 and were read as cp1252; save the file as UTF-8"
    return Decoded("\n".join(line or "" for line in mended), "utf-8", warning)


def _guessed(data: bytes, relative: str) -> Decoded:
    from charset_normalizer import from_bytes

    for names in (_GUESSES, _RARE_GUESSES):
        best = from_bytes(data, cp_isolation=list(names)).best()
        text = _strictly(data, best.encoding) if best else None
        if best and text is not None:
            return Decoded(text, best.encoding, _guess_warning(data, best.encoding))
    raise LoadError(relative, "it is not UTF-8, and no other known encoding fits; save the file as UTF-8")


def _guess_warning(data: bytes, encoding: str) -> str:
    certain = sum(1 for byte in data if byte > 0x7F) >= CERTAIN_CHARACTERS
    doubt = "" if certain else ", from so few characters that it may be wrong"
    return f"it is not UTF-8; the encoding {encoding} is a guess{doubt}; save the file as UTF-8"
