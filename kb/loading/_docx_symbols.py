"""Characters of Word's symbol fonts (`w:sym`), whose codes mean nothing in other fonts."""

from __future__ import annotations

_SYMBOL_FROM_0X21 = "!∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_ αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼"
_SYMBOL_FROM_0XA1 = "ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…│─↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊〈®©™∑"
_WINGDINGS = {
    0x4A: "☺", 0x4C: "☹", 0x6C: "●", 0x6E: "■", 0x6F: "□", 0x71: "❑", 0x75: "◆", 0x76: "❖", 0x9F: "•", 0xA7: "▪",
    0xA8: "☐", 0xD8: "➢", 0xDF: "←", 0xE0: "→", 0xE8: "➔", 0xFB: "✗", 0xFC: "✓", 0xFD: "☒", 0xFE: "☑",
}  # fmt: skip
"""The bullets, arrows and check boxes that forms and lists use."""


def symbol(font: str, code: str) -> str:
    """The Unicode character of a code in a symbol font; "" where it is a picture without one."""
    try:
        number = int(code, 16)
    except ValueError:
        return ""
    glyph = number - 0xF000 if 0xF000 <= number <= 0xF0FF else number
    name = font.lower()
    if name == "symbol":
        if 0x21 <= glyph < 0x21 + len(_SYMBOL_FROM_0X21):
            return _SYMBOL_FROM_0X21[glyph - 0x21]
        return _SYMBOL_FROM_0XA1[glyph - 0xA1] if 0xA1 <= glyph < 0xA1 + len(_SYMBOL_FROM_0XA1) else ""
    if name.startswith("wingdings"):
        return _WINGDINGS.get(glyph, "") if name == "wingdings" else ""
    return chr(number) if 0x20 <= number < 0xE000 and name != "webdings" else ""
