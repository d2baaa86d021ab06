"""Break text into lines: at spaces in English, almost anywhere between characters in Chinese and Japanese."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, pairwise

from _source import WIDE, Run

# JIS X 4051 and GB/T 15834: what may not begin a line, and what may not end one.
NEVER_FIRST = set(
    "、。，．・：；？！!?,.:;%)]}）］｝〕〉》」』】〗’”…—〜～ーァィゥェォッャュョヮヵヶぁぃぅぇぉっゃゅょゎ々ゝゞヽヾ％℃°"
)
NEVER_LAST = set("([{（［｛〔〈《「『【〖‘“$¥￥€£#")

_WIDE = re.compile(f"[{WIDE}‘’“”—…]")

Character = tuple[str, bool]  # with its weight: True for bold
Measure = Callable[[Character], float]
Line = tuple[Run, ...]


def break_lines(runs: Iterable[Run], width: float, measure: Measure) -> list[Line]:
    """Fill lines up to a width.

    A piece that is wider than a whole line is cut where the line is full. No line ends in a hyphen: readers of PDF take
    that for a hyphenated word and join it with the next line.

    Args:
        runs: The text; footnote marks aren't expected.
        width: The width of a line, in the unit of `measure`.
        measure: Gives a character's advance; there is no kerning.

    Returns:
        The lines, each as runs of one weight; one empty line for no text. A space where a line ends is kept, though it
        may reach beyond the width: put together the lines are the text again, as with a word processor's PDF.
    """
    lines: list[list[Character]] = [[]]
    room = width
    for piece in _pieces([(character, run.bold) for run in runs for character in run.text]):
        visible = sum(measure(character) for character in _stripped(piece))
        if visible > room and lines[-1]:
            lines.append([])
            room = width
        for character in piece:
            advance = measure(character)
            if advance > room and character[0] != " " and lines[-1]:
                lines.append([])
                room = width
            lines[-1].append(character)
            room -= advance
    return [_as_runs(line) for line in lines]


def widest_piece(runs: Iterable[Run], measure: Measure) -> float:
    """Give the width of the widest piece that can't be broken; 0 for no text."""
    pieces = _pieces([(character, run.bold) for run in runs for character in run.text])
    return max((sum(measure(character) for character in _stripped(piece)) for piece in pieces), default=0.0)


def _pieces(text: list[Character]) -> Iterator[list[Character]]:
    """Cut at every place where a line may end; spaces stay at the end of the piece before it."""
    piece = text[:1]
    for i, (before, after) in enumerate(pairwise(text), start=1):
        if _may_break(text[i - 2][0] if i > 1 else "", before[0], after[0]):
            yield piece
            piece = []
        piece.append(after)
    if piece:
        yield piece


def _may_break(second_last: str, last: str, following: str) -> bool:
    if following == " " or following in NEVER_FIRST or last in NEVER_LAST:
        return False
    if last == " ":
        return second_last not in ("-", *NEVER_LAST)
    if last == "-":
        return False
    return bool(_WIDE.match(last) or _WIDE.match(following))


def _stripped(piece: list[Character]) -> list[Character]:
    end = len(piece)
    while end and piece[end - 1][0] == " ":
        end -= 1
    return piece[:end]


def _as_runs(line: list[Character]) -> Line:
    """Join characters of one weight; spaces at the end take the weight before them, lest they stand alone."""
    visible = _stripped(line)
    if visible:
        line = visible + [(" ", visible[-1][1])] * (len(line) - len(visible))
    groups = groupby(line, lambda character: character[1])
    return tuple(Run("".join(character for character, _ in group), bold) for bold, group in groups)
