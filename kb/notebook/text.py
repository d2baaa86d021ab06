"""An answer's text as HTML: its lists, code and bold print, its markers, and a quiet verdict behind each claim.

Everything that is not one of ours is text: it goes through `shown`, or through `attribute` into a title.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_left, bisect_right
from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from kb.inert import Piece, one_line, pieces, runs, safe
from kb.markers import find_markers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kb.answers import Claim, Verdict
    from kb.notebook.labels import Labels

SYMBOLS: Mapping[Verdict, str] = {"supported": "✓", "partly": "~", "unsupported": "✗"}

_WORDS = re.compile(r"\w")
_WORD_JOINER = "&#8288;"

# An item belongs to a list inside the one above when it is indented by at least this much more.
_NESTED_BY = 2


def shown(text: str) -> str:
    r"""HTML that shows `text` letter by letter, each line on its own.

    A notebook looks for formulas in the finished page, but not across elements: `$` and `\` get one of their own.
    """
    escaped = html.escape(safe(text), quote=False)
    return re.sub(r"[$\\]", r"<span>\g<0></span>", escaped).replace("\n", "<br>")


def attribute(*lines: str) -> str:
    """An attribute's value that shows each of `lines` on a line of its own."""
    return "&#10;".join(html.escape(one_line(line)) for line in lines)


def verdict_html(verdict: Verdict, labels: Labels) -> str:
    """The sign of a verdict, which is read out as words."""
    named = attribute(labels.verdicts[verdict])
    return (
        f'<span class="kb-sign kb-{verdict}" role="img" aria-label="{named}" title="{named}">{SYMBOLS[verdict]}</span>'
    )


def answer_html(text: str, titles: Mapping[int, str], claims: Sequence[Claim], labels: Labels) -> str:
    """Write an answer's text.

    Args:
        text: with `[n]`; the claims' offsets are into it.
        titles: of each number that is cited the escaped value of its marker's title.
        claims: in order.
        labels: of the question's language.
    """
    clean = safe(text)
    blocks = _Blocks(_Inline(clean, titles, _placed(text, clean, claims), labels))
    for piece in pieces(clean):
        blocks.add(piece, clean[piece.start : piece.end])
    return blocks.finish()


@dataclass(frozen=True, slots=True)
class _Placed:
    """A claim, and where it stands in the text that is `safe`, without blanks at its end."""

    claim: Claim
    start: int
    end: int


def _placed(text: str, clean: str, claims: Sequence[Claim]) -> list[_Placed]:
    """Find claims in the text that has lost some characters. Linear in the text."""
    moved: dict[int, int] = {}
    before = length = 0
    for offset in sorted({at for claim in claims for at in (claim.start, claim.end)}):
        at = min(offset, len(text))
        if before < at < len(text) and text[at - 1 : at + 1] == "\r\n":
            at -= 1  # which becomes one line end
        length += len(safe(text[before:at]))
        before = at
        moved[offset] = length
    placed = []
    for claim in sorted(claims, key=lambda claim: claim.start):
        start, end = moved[claim.start], moved[claim.end]
        placed.append(_Placed(claim, start, start + len(clean[start:end].rstrip())))
    return placed


class _Inline:
    """What stands on a line: cut where a marker, a claim, code or bold print begins or ends."""

    def __init__(self, text: str, titles: Mapping[int, str], claims: Sequence[_Placed], labels: Labels) -> None:
        self._text = text
        self.length = len(text)
        self._labels = labels
        self._claims = claims
        self._starts = [placed.start for placed in claims]
        self._markers = {
            marker.start: (marker.end, titles[marker.numbers[0]])
            for marker in find_markers(text)
            if len(marker.numbers) == 1 and marker.numbers[0] in titles
        }
        ends = [end for end, _ in self._markers.values()]
        edges = [edge for placed in claims for edge in (placed.start, placed.end)]
        self._cuts = sorted({*self._markers, *ends, *edges})
        self._signs = deque(sorted(claims, key=lambda placed: placed.end))

    def write(self, start: int, end: int) -> str:
        """Write `text[start:end]`, which is within one line and behind what was written before."""
        written: list[str] = []
        for run in runs(self._text, start, end):
            written.append(self.signs(run.start))
            cuts = self._cuts[bisect_right(self._cuts, run.start) : bisect_left(self._cuts, run.end)]
            inside = "".join(
                self._part(first, last) + self.signs(last) for first, last in pairwise([run.start, *cuts, run.end])
            )
            written.append(f"<{run.tag}>{inside}</{run.tag}>" if run.tag else inside)
        return "".join([*written, self.signs(end)])

    def signs(self, until: int) -> str:
        """The signs of the claims that end by `until` and have none yet."""
        written: list[str] = []
        while self._signs and self._signs[0].end <= until:
            # A narrow blank that no line is broken at.
            written.append("\u202f" + verdict_html(self._signs.popleft().claim.verdict, self._labels))
        return "".join(written)

    def _part(self, start: int, end: int) -> str:
        said = shown(self._text[start:end])
        if start in self._markers:
            return f'<sup class="kb-marker" title="{self._markers[start][1]}">{said}</sup>'
        if end in self._markers:  # no line begins with a marker
            said = f"{said[:-1]}&nbsp;" if said.endswith(" ") else f"{said}{_WORD_JOINER}"
        claim = self._claim_at(start)
        if claim is None or claim.verdict == "supported" or not _WORDS.search(self._text, start, end):
            return said
        title = attribute(self._labels.verdicts[claim.verdict], *claim.reasons)
        return f'<span class="kb-doubt" title="{title}">{said}</span>'

    def _claim_at(self, at: int) -> Claim | None:
        before = bisect_right(self._starts, at) - 1
        return self._claims[before].claim if before >= 0 and at < self._claims[before].end else None


class _Blocks:
    """Lines, items and code as paragraphs, nested lists and blocks; a line right below an item belongs to it."""

    def __init__(self, inline: _Inline) -> None:
        self._inline = inline
        self._written: list[str] = []
        self._lines: list[str] = []
        """Of the paragraph that is open."""
        self._lists: list[tuple[int, str]] = []
        """The indents and tags of the lists that are open, outermost first."""
        self._gap = False
        """A blank line has ended the last item."""

    def add(self, piece: Piece, said: str) -> None:
        """Take the next piece; `said` is its text."""
        if piece.kind == "code":
            self._close()
            self._written.append(f"<pre><code>{html.escape(said, quote=False)}</code></pre>")
            self._signs(piece.end)
        elif piece.kind == "item":
            self._paragraph()
            self._item(piece)
            self._gap = False
        elif not said:
            self._paragraph()
            self._gap = True
        elif self._lists and not self._gap:
            self._written.append(f"<br>{self._inline.write(piece.start, piece.end)}")
        else:
            self._close_lists()
            self._lines.append(self._inline.write(piece.start, piece.end))

    def finish(self) -> str:
        """All that was written."""
        self._close()
        self._signs(self._inline.length)
        return "".join(self._written)

    def _signs(self, until: int) -> None:
        """The signs for which no line had a place."""
        if signs := self._inline.signs(until):
            self._written.append(f"<p>{signs}</p>")

    def _item(self, piece: Piece) -> None:
        tag = "ol" if piece.mark[0].isdigit() else "ul"
        while len(self._lists) > 1 and piece.indent < self._lists[-1][0]:
            self._close_list()
        if self._lists and piece.indent < self._lists[-1][0] + _NESTED_BY:
            if self._lists[-1][1] == tag:
                self._written.append("</li>")
            else:
                self._close_list()
                self._open_list(piece.indent, tag)
        else:
            self._open_list(piece.indent, tag)
        # As the answer numbers them, whatever stands between.
        value = f' value="{int(piece.mark[:-1])}"' if tag == "ol" else ""
        self._written.append(f'<li{value} dir="auto">{self._inline.write(piece.start, piece.end)}')

    def _open_list(self, indent: int, tag: str) -> None:
        self._lists.append((indent, tag))
        self._written.append(f"<{tag}>")

    def _close_list(self) -> None:
        self._written.append(f"</li></{self._lists.pop()[1]}>")

    def _close_lists(self) -> None:
        while self._lists:
            self._close_list()

    def _paragraph(self) -> None:
        if self._lines:
            self._written.append(f'<p dir="auto">{"<br>".join(self._lines)}</p>')
            self._lines = []

    def _close(self) -> None:
        self._paragraph()
        self._close_lists()
