"""Cut Noto Sans and Noto Sans CJK down to the characters of one document, in the glyph shapes of its language."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

from fontTools.pens.cu2quPen import Cu2QuPen
from fontTools.pens.ttGlyphPen import TTGlyphPen
from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont, newTable
from fontTools.varLib.instancer import instantiateVariableFont

LATIN, WIDE = "Latin", "Wide"  # font families in the PDF
REGULAR, BOLD = "", "B"

# Package, file in it, and the axes to fix where the file is a variable font. The Japanese build of Noto Sans CJK holds
# the glyphs of every region; its own Latin lacks letters such as ć, so Latin comes from Noto Sans.
FONTS: dict[tuple[str, str], tuple[str, str, dict[str, float]]] = {
    (LATIN, REGULAR): ("fontpkg_noto_sans", "files/NotoSans[wdth,wght].ttf", {"wght": 400, "wdth": 100}),
    (LATIN, BOLD): ("fontpkg_noto_sans", "files/NotoSans[wdth,wght].ttf", {"wght": 700, "wdth": 100}),
    (WIDE, REGULAR): ("noto_cjk_sans_jp_regular", "NotoSansCJKjp-Regular.otf", {}),
    (WIDE, BOLD): ("noto_cjk_sans_jp_bold", "NotoSansCJKjp-Bold.otf", {}),
}
LANGUAGE_SYSTEMS = {"zh": "ZHS "}  # where the shapes aren't the Japanese ones
LARGEST_ERROR = 1.0  # of a TrueType curve against the PostScript one, in thousandths of an em
LAST_LATIN = "\u024f"  # beyond it are quotes and dashes, which Chinese and Japanese set as wide as Han


class FontError(Exception):
    """A font isn't installed, or lacks a character that a document needs."""


@dataclass(frozen=True, slots=True)
class Fonts:
    """Font files by family and style, and the characters to take from the Latin ones."""

    paths: dict[tuple[str, str], Path]
    latin: frozenset[str]


def cut_fonts(language: str, characters: Iterable[str], folder: Path) -> Fonts:
    """Write the fonts that a document needs into `folder`, each with its characters only.

    Args:
        language: "en", "zh" or "ja".
        characters: What the document shows.
        folder: An existing folder.

    Raises:
        FontError: A font's package isn't installed, or a character is in none of them.
    """
    wanted = set(characters)
    candidates = wanted if language == "en" else {character for character in wanted if character <= LAST_LATIN}
    with _open_font(LATIN, REGULAR) as font:
        latin = {character for character in candidates if ord(character) in font.getBestCmap()}
    shares = {LATIN: latin, WIDE: wanted - latin}
    paths = {}
    for (family, style), (_, _, axes) in FONTS.items():
        if not shares[family]:
            continue
        paths[family, style] = folder / f"{family}{style}.ttf"
        with _open_font(family, style) as font:
            _take_regional_shapes(font, language)
            _check_complete(font, shares[family])
            _subset(font, shares[family])
            if axes:
                instantiateVariableFont(font, axes, inplace=True)
            if "CFF " in font:
                _make_truetype(font)
            font.save(paths[family, style])
    return Fonts(paths, frozenset(latin))


def _open_font(family: str, style: str) -> TTFont:
    package, name, _ = FONTS[family, style]
    try:
        resource = files(package).joinpath(name)
    except ModuleNotFoundError as error:
        raise FontError(f"the package {package.replace('_', '-')} isn't installed; it holds {name}") from error
    with as_file(resource) as path:
        return TTFont(path, lazy=True, recalcTimestamp=False)


def _subset(font: TTFont, characters: set[str]) -> None:
    subsetter = Subsetter(Options(layout_features=[], notdef_outline=True, hinting=False))
    subsetter.populate(unicodes=[ord(character) for character in characters | {" "}])
    subsetter.subset(font)


def _make_truetype(font: TTFont) -> None:
    """Turn PostScript outlines into TrueType ones, in place.

    For PostScript fonts fpdf2 writes an encoding of its own into the PDF, of which pypdf makes NUL characters.
    """
    glyphs, order = font.getGlyphSet(), font.getGlyphOrder()
    outlines = {}
    for name in order:
        pen = TTGlyphPen(None)
        glyphs[name].draw(Cu2QuPen(pen, LARGEST_ERROR, reverse_direction=True))
        outlines[name] = pen.glyph()
    font["loca"], font["glyf"] = newTable("loca"), newTable("glyf")
    font["glyf"].glyphOrder, font["glyf"].glyphs = order, outlines
    for name, (advance, _) in font["hmtx"].metrics.items():
        font["glyf"][name].recalcBounds(font["glyf"])
        font["hmtx"][name] = advance, getattr(outlines[name], "xMin", 0)
    font["maxp"].tableVersion = 0x00010000
    for key in ("maxZones", "maxTwilightPoints", "maxStorage", "maxFunctionDefs", "maxInstructionDefs"):
        setattr(font["maxp"], key, 0)
    for key in ("maxStackElements", "maxSizeOfInstructions", "maxComponentElements"):
        setattr(font["maxp"], key, 0)
    for tag in ("CFF ", "VORG"):
        if tag in font:
            del font[tag]
    font.sfntVersion = "\000\001\000\000"


def _take_regional_shapes(font: TTFont, language: str) -> None:
    """Point the font's character map at the glyphs that OpenType's `locl` feature would put in for a language."""
    if language not in LANGUAGE_SYSTEMS or "CFF " not in font:
        return
    table = font["GSUB"].table
    scripts = [record.Script.LangSysRecord for record in table.ScriptList.ScriptRecord]
    systems = [x.LangSys for script in scripts for x in script if x.LangSysTag == LANGUAGE_SYSTEMS[language]]
    features = [table.FeatureList.FeatureRecord[i] for system in systems for i in system.FeatureIndex]
    lookups = {i for record in features if record.FeatureTag == "locl" for i in record.Feature.LookupListIndex}
    shapes: dict[str, str] = {}
    for i in sorted(lookups):
        for subtable in table.LookupList.Lookup[i].SubTable:
            shapes.update(getattr(subtable, "ExtSubTable", subtable).mapping)
    for part in font["cmap"].tables:
        if part.isUnicode() and hasattr(part, "cmap"):
            part.cmap = {code: shapes.get(glyph, glyph) for code, glyph in part.cmap.items()}


def _check_complete(font: TTFont, characters: set[str]) -> None:
    known = font.getBestCmap()
    missing = sorted(character for character in characters if ord(character) not in known)
    if missing:
        codes = ", ".join(f"U+{ord(character):04X} {character}" for character in missing)
        raise FontError(f"no glyph for {codes}; word the text without it")
