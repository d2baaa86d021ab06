"""What a reasoning model thinks aloud before its answer, taken out of whole replies and of streams.

    <think>The user asks …</think>The answer.          a block, or several, at the beginning
    The user asks …                                     the same, as chat templates leave it that
    </think>                                            put the opening mark into the prompt
    The answer.

Only what stands at the beginning is thinking; a `<think>` later in an answer is its text, and so is a closing mark
that is quoted as code. A stream can be cut anywhere.

Without an opening mark nothing tells thinking from an answer until the closing mark comes. So a stream of a model
that is known to begin so is held back until then (`held`); of any other it is passed on as it comes, and a closing
mark that comes all the same is reported (`leaked`).
"""

from __future__ import annotations

import re

_NAMES = ("think", "thinking", "reasoning")
_OPENING = re.compile(rf"\s*<({'|'.join(_NAMES)})>", re.IGNORECASE | re.ASCII)
_CLOSING = re.compile(rf"</({'|'.join(_NAMES)})>", re.IGNORECASE | re.ASCII)


def _beginnings(marks: tuple[str, ...]) -> str:
    """What a mark may begin with that is not all there yet."""
    return "|".join(sorted({mark[:length] for mark in marks for length in range(1, len(mark))}, key=len, reverse=True))


_MAYBE_OPENING = re.compile(rf"\s*(?:{_beginnings(tuple(f'<{n}>' for n in _NAMES))})?\Z", re.IGNORECASE | re.ASCII)
_MAYBE_CLOSING = re.compile(rf"(?:{_beginnings(tuple(f'</{n}>' for n in _NAMES))})\Z", re.IGNORECASE | re.ASCII)
_FENCE = "```"

_HINTS = re.compile(r"(?i)(?<![a-z0-9])r1(?![a-z0-9])|qwq|think|reason")


def begins_unopened(model: str) -> bool:
    """Whether a model's name is one of those whose templates open the thinking in the prompt.

    >>> [begins_unopened(name) for name in ("deepseek-r1:7b", "Qwen3-4B-Thinking-2507", "gpt-4o", "llama-3.1")]
    [True, True, False, False]
    """
    return _HINTS.search(model) is not None


def without_thinking(reply: str, *, all_of_it: bool = False) -> tuple[str, bool]:
    r"""A whole reply without its thinking, and whether that had no opening mark.

    Args:
        reply: What the model said.
        all_of_it: The reply broke off within thinking that has no opening mark, if nothing closes it.

    >>> without_thinking("<think>Hm.</think>\n\nYes [1].")
    ('Yes [1].', False)
    """
    thinking = ThinkingFilter(held=True)
    text = thinking.feed(reply)
    return text + thinking.finish(all_of_it=all_of_it), thinking.unopened


class ThinkingFilter:
    """Passes on what is not thinking, piece by piece.

    Args:
        held: Nothing is passed on before it is sure that no closing mark follows which has no opening one.
    """

    def __init__(self, *, held: bool = False) -> None:
        self._held = held
        self._waiting = ""
        """What has come and is not looked at yet, as its end may be the beginning of a mark."""
        self._text = ""
        """What may be the answer, of a reply without an opening mark; `_passed` of it was passed on."""
        self._passed = 0
        self._inside = ""
        """The name of the mark that thinking began with, while it goes on."""
        self._begun = False
        """Some of the answer has come."""
        self._sure = False
        """No closing mark without an opening one can follow any more."""
        self.unopened = False
        """There was thinking without an opening mark."""
        self.leaked = False
        """Some of it had been passed on."""

    def live(self) -> None:
        """Hold nothing back: the service says by itself what is thinking."""
        self._held = False

    def feed(self, piece: str) -> str:
        """Take the next piece; give what is sure to be part of the answer."""
        self._waiting += piece
        while not self._begun:
            if self._inside:
                if not self._closed():
                    return ""
            elif not self._opened():
                if _MAYBE_OPENING.fullmatch(self._waiting):
                    return ""
                self._begun = True
                self._waiting = self._without_blanks(self._waiting)
        return self._answer()

    def finish(self, *, all_of_it: bool = False) -> str:
        """Give what was held back; with `all_of_it`, what was held for want of a closing mark is thinking."""
        if self._inside:
            return ""  # it was never closed
        rest = self._text[self._passed :] + self._waiting
        if not self._begun:
            return self._without_blanks(rest)
        return "" if all_of_it and self._held and not self._sure else rest

    def _without_blanks(self, text: str) -> str:
        """Without the blanks between thinking and answer, which belong to neither."""
        return text.lstrip() if self._sure else text

    def _opened(self) -> bool:
        """Take the mark that begins a block, if one stands here."""
        opening = _OPENING.match(self._waiting)
        if opening:
            self._inside, self._waiting = opening[1].lower(), self._waiting[opening.end() :]
        return opening is not None

    def _closed(self) -> bool:
        """Leave a block out, if its end has come."""
        for closing in _CLOSING.finditer(self._waiting):
            if closing[1].lower() == self._inside:
                self._inside, self._waiting, self._sure = "", self._waiting[closing.end() :], True
                return True
        maybe = _MAYBE_CLOSING.search(self._waiting)
        self._waiting = maybe[0] if maybe else ""
        return False

    def _answer(self) -> str:
        if self._sure:
            passed, self._waiting = self._waiting, ""
            return passed
        maybe = _MAYBE_CLOSING.search(self._waiting)
        end = maybe.start() if maybe else len(self._waiting)
        new = len(self._text)
        self._text, self._waiting = self._text + self._waiting[:end], self._waiting[end:]
        for mark in _CLOSING.finditer(self._text, new):  # none is cut in two at `new`
            if self._closes(mark):
                return self._unopened(mark)
        if self._held or not self._text.strip():  # blanks before a closing mark belong to the thinking
            return ""
        passed, self._passed = self._text[self._passed :], len(self._text)
        return passed

    def _closes(self, mark: re.Match[str]) -> bool:
        """Whether it closes thinking that has no opening mark, rather than being a part of the answer."""
        before = self._text[: mark.start()]
        line = before[before.rfind("\n") + 1 :]
        quoted = before.count(_FENCE) % 2 or line.count("`") % 2
        return not quoted and f"<{mark[1]}>".lower() not in before.lower()

    def _unopened(self, mark: re.Match[str]) -> str:
        """Go on behind thinking that had no opening mark."""
        self.unopened = True
        self.leaked = bool(self._text[: self._passed].strip())
        self._waiting = self._text[mark.end() :] + self._waiting
        self._text, self._passed, self._begun, self._sure = "", 0, False, True
        return self.feed("")
