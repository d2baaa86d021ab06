"""An answer without the sentences in which a claim has no support, as it is written.

Nothing is shown before the first claim that stays: an answer of which nothing stays is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from kb.citations import Checked


@dataclass(slots=True)
class Kept:
    """Takes text and what was found of its statements; gives what stays, each statement at its new place."""

    checked: list[Checked] = field(default_factory=list)
    """The statements that stay."""
    left_out: int = 0
    """Sentences that don't."""
    _taken: str = ""
    _text: str = ""
    _shown: int = 0  # how much of the text that stays has been given
    _done: int = 0  # how much of what was taken has been decided
    _statements: list[Checked] = field(default_factory=list)
    _joins: bool = False  # a sentence was left out right before

    @property
    def text(self) -> str:
        """The text that stays."""
        return self._text.rstrip()

    def take(self, shown: str | Checked) -> None:
        """Take the next piece of the text, or what was found of a statement in it."""
        if isinstance(shown, str):
            self._taken += shown
        else:
            self._statements.append(shown)

    def given(self, settled: int) -> Iterator[str | Checked]:
        """Give what stays of the text before `settled`, of which all statements have been taken."""
        ready: list[Checked] = []
        while self._statements and self._statements[0].statement.sentence[1] <= settled:
            sentence = self._statements[0].statement.sentence
            of_it = [one for one in self._statements if one.statement.sentence == sentence]
            del self._statements[: len(of_it)]
            self._write(sentence[0])
            if any(one.claim is not None and one.claim.verdict == "unsupported" for one in of_it):
                self._done, self._joins = sentence[1], True
                self.left_out += 1
                continue
            shift = len(self._text) - sentence[0]
            self._write(sentence[1])
            ready += [_moved(one, shift) for one in of_it]
        self._write(settled)
        self.checked += ready
        if any(one.claim is not None for one in self.checked) and (piece := self.text[self._shown :]):
            self._shown += len(piece)
            yield piece
        yield from ready

    def _write(self, end: int) -> None:
        """Keep what was taken up to `end`."""
        piece = self._taken[self._done : end]
        self._done = max(self._done, end)
        if self._joins and piece:
            at_line_start = not self._text or self._text.endswith("\n")
            rest = piece.lstrip(" \t")
            if at_line_start:
                rest = rest.removeprefix("\n")
            elif not rest.startswith("\n"):
                rest = piece if not self._text[-1].isspace() else rest
            if rest:
                self._joins = False
            piece = rest
        self._text += piece


def _moved(checked: Checked, shift: int) -> Checked:
    """The same, so many characters further on."""
    statement, claim = checked.statement, checked.claim
    start, end = statement.sentence
    return replace(
        checked,
        statement=replace(
            statement,
            start=statement.start + shift,
            end=statement.end + shift,
            sentence=(start + shift, end + shift),
        ),
        claim=claim and replace(claim, start=claim.start + shift, end=claim.end + shift),
    )
