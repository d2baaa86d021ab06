"""Which files of a folder are read: `[loading] include` and `exclude`, `.kbignore` files, and `--only`.

All are patterns in gitignore form (https://git-scm.com/docs/gitignore), relative to the root or, in a
`.kbignore`, to its folder. As in git the last pattern that matches decides, a file further down comes
before those above it, and below a folder that is excluded nothing is looked at. The kinds don't mix: a
file is read when it passes each, so no `.kbignore` brings back what the settings exclude.
"""

from __future__ import annotations

import re
import stat
import unicodedata
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from kb.errors import ConfigError

IGNORE_FILE = ".kbignore"

NOT_ASKED_FOR = "not asked for"
"""Why a file is passed over without a word: `--only` asks for others."""

_MOST_BYTES = 1024 * 1024
_MOST_DEEP = 3
"""So many `**` with others between them in a pattern: each multiplies the ways to match a deep path."""
_STAR = "[^/]*"
"""What pathspec makes of a star."""


@dataclass(frozen=True, slots=True)
class _Pattern:
    """One line in gitignore form."""

    text: str
    place: str
    """Where it stands, for messages."""
    regex: re.Pattern[str]
    selects: bool
    """False for a line that begins with `!`."""
    folders_only: bool
    start: tuple[str, ...] | None
    """The folders that everything it matches lies in; None when it matches at any depth."""

    def matches(self, path: str, *, is_folder: bool) -> bool:
        """Whether it names this path itself; those above it are asked by themselves."""
        if self.folders_only and not is_folder:
            return False
        found = self.regex.search(path)
        return found is not None and not found.groupdict().get("ps_d")

    def leads_into(self, folder: Sequence[str]) -> bool:
        """Whether something below a folder, given by its parts, could match."""
        return self.start is None or all(one == other for one, other in zip(self.start, folder, strict=False))


def _pattern(text: str, place: str) -> _Pattern | None:
    """Read a line; None for a blank one or a comment.

    Raises:
        ConfigError: it is no pattern, or one that means something else to git.
    """
    from pathspec.patterns.gitignore.base import GitIgnorePatternError
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    line = unicodedata.normalize("NFC", text.rstrip("\r\n"))
    bare = line if line.endswith("\\ ") else line.rstrip()
    if not bare or bare.startswith("#"):
        return None
    folders_only = bare.endswith("/")
    bare = bare.removesuffix("/")
    # Only Git's own C library knows classes such as [[:alpha:]].
    regex, selects, reason = None, None, "it has a class of characters in [: :]" if "[:" in bare else ""
    if not reason and bare.count("**/") > _MOST_DEEP:
        reason = f"it has more than {_MOST_DEEP} times **"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of brackets in brackets
            source, selects = GitIgnoreSpecPattern.pattern_to_regex(bare)
            regex = None if source is None else re.compile(_without_backtracking(source), re.DOTALL)
    except (GitIgnorePatternError, re.error):
        pass
    if reason or regex is None:
        raise ConfigError(f"{place}: {text.strip()!r} is no pattern in gitignore form{reason and f': {reason}'}")
    return _Pattern(text.strip(), place, regex, bool(selects), folders_only, _start(bare))


def _without_backtracking(regex: str) -> str:
    """The same regex, whose time rises with a name's length, not with a power of it.

    The shortest match of a star leaves the most for the next one, as long as what follows can match in
    one way only; Python's fnmatch does the same.
    """
    first, *others = regex.split(_STAR)
    middle = [f"(?>{_STAR}?{part})" if ".+" not in part else _STAR + part for part in others[:-1]]
    return "".join([first, *middle, *(_STAR + part for part in others[-1:])])


def _start(bare: str) -> tuple[str, ...] | None:
    parts = bare.removeprefix("!").split("/")
    if len(parts) == 1:
        return None
    return tuple(takewhile(lambda part: not re.search(r"[*?\[\\]", part), [part for part in parts if part]))


class Patterns:
    """Patterns of one place, the last that matches decides."""

    def __init__(self, lines: Sequence[str], place: str, *, numbered: bool = False) -> None:
        """Read lines.

        Args:
            lines: In gitignore form.
            place: Where they stand, for messages.
            numbered: Whether they are the lines of a file, in which some may be blank or comments.

        Raises:
            ConfigError: one is no pattern.
        """
        places = [f"{place}, line {number}" if numbered else place for number in range(1, len(lines) + 1)]
        read = [_pattern(line, at) for line, at in zip(lines, places, strict=True)]
        if not numbered and None in read:
            line = lines[read.index(None)]
            raise ConfigError(f"{place}: {line!r} is blank or a comment; a name that begins with # is written as \\#")
        self._falling = [pattern for pattern in reversed(read) if pattern is not None]

    def __bool__(self) -> bool:
        return bool(self._falling)

    @property
    def select_something(self) -> bool:
        """Whether not all of them only take away what others select."""
        return any(pattern.selects for pattern in self._falling)

    def decides(self, path: str, *, is_folder: bool) -> _Pattern | None:
        """The pattern that decides about this path itself; None when none matches it."""
        return next((pattern for pattern in self._falling if pattern.matches(path, is_folder=is_folder)), None)

    def covers(self, path: str, *, is_folder: bool = False) -> bool:
        """Whether a path is selected, by itself or with a folder above it."""
        for at in (path, *_above(path)):
            pattern = self.decides(at, is_folder=is_folder or at != path)
            if pattern is not None:
                return pattern.selects
        return False

    def lead_into(self, folder: str) -> bool:
        """Whether something below `folder` may be covered."""
        parts = folder.split("/")
        return any(pattern.selects and pattern.leads_into(parts) for pattern in self._falling)


def selecting(lines: Sequence[str], place: str) -> Patterns | None:
    """Patterns of what is taken; None when there are none, so that all is.

    Raises:
        ConfigError: one is no pattern, or all of them only take away.
    """
    if not lines:
        return None
    patterns = Patterns(lines, place)
    if not patterns.select_something:
        raise ConfigError(f"{place}: nothing is selected, as every pattern begins with !; begin with one that doesn't")
    return patterns


class Selection:
    """What is read below one root. Paths are relative to it: NFC, forward slashes."""

    def __init__(
        self, root: Path, *, include: Sequence[str] = (), exclude: Sequence[str] = (), only: Sequence[str] = ()
    ) -> None:
        """Read the patterns of the settings and of the call; `.kbignore` files are read as they are met.

        Raises:
            ConfigError: one is no pattern.
        """
        self._root = root
        self._include = selecting(include, "[loading] include")
        self._exclude = Patterns(exclude, "[loading] exclude")
        self._only = selecting(only, "--only")
        self._files: dict[str, Patterns] = {}
        """By the folder of the `.kbignore`; the root's is ""."""
        self.active = bool(self._include or self._exclude or self._only)
        """False as long as there is no pattern at all: then nothing has to be asked."""

    def read_file(self, folder: str) -> None:
        """Take the patterns of the `.kbignore` in a folder; it counts for all that is asked about afterwards.

        Raises:
            ConfigError: it cannot be read, or holds what is no pattern. Without it, what nobody was to see would be.
        """
        name = f"{folder}/{IGNORE_FILE}" if folder else IGNORE_FILE
        self._files[folder] = Patterns(_lines(self._root / name, name), name, numbered=True)
        self.active = True

    def why_not_entered(self, folder: str) -> str | None:
        """Why nothing below a folder is read; None when something may be."""
        if self._only is not None and not self._only.lead_into(folder):
            return NOT_ASKED_FOR
        if self._include is not None and not self._include.lead_into(folder):
            return "no pattern of [loading] include leads into this folder"
        return self._why_excluded(folder, is_folder=True)

    def why_not_read(self, file: str) -> str | None:
        """Why a file, in a folder that was entered, is not read; None when it is."""
        if not self.asked_for(file):
            return NOT_ASKED_FOR
        if self._include is not None and not self._include.covers(file):
            return "no pattern of [loading] include matches it"
        return self._why_excluded(file, is_folder=False)

    def asked_for(self, path: str, *, is_folder: bool = False) -> bool:
        """Whether `--only` covers a path, and so what becomes of it is this run's business."""
        return self._only is None or self._only.covers(path, is_folder=is_folder)

    def reads(self, file: str) -> bool:
        """Whether the patterns let a file be read in a run that looks at all, also where no folder was entered yet."""
        above = list(_above(file))[::-1]
        for folder in ("", *above):
            if folder not in self._files and (self._root / folder / IGNORE_FILE).is_file():
                self.read_file(folder)
        if self._include is not None and not self._include.covers(file):
            return False
        return not any(self._why_excluded(path, is_folder=path != file) for path in (*above, file))

    def _why_excluded(self, path: str, *, is_folder: bool) -> str | None:
        found = self._exclude.decides(path, is_folder=is_folder)
        if found is None or not found.selects:
            found = self._decided_by_files(path, is_folder=is_folder)
        return f"excluded by {found.text!r} in {found.place}" if found is not None and found.selects else None

    def _decided_by_files(self, path: str, *, is_folder: bool) -> _Pattern | None:
        if self._files:
            for folder in (*_above(path), ""):
                patterns = self._files.get(folder)
                inside = path[len(folder) + 1 :] if folder else path
                if patterns and (found := patterns.decides(inside, is_folder=is_folder)):
                    return found
        return None


def _above(path: str) -> Iterator[str]:
    """The folders that a path lies in, the nearest first."""
    at = path.rfind("/")
    while at > 0:
        yield path[:at]
        at = path.rfind("/", 0, at)


def _lines(file: Path, name: str) -> list[str]:
    """The lines of a `.kbignore`, which may be anything: the folder is not ours."""
    try:
        status = file.stat()
        if not stat.S_ISREG(status.st_mode):  # to open a pipe would wait for its other end
            raise ConfigError(f"{name} is not a file; remove it, or put patterns into it")
        if status.st_size > _MOST_BYTES:
            raise ConfigError(f"{name} has more than {_MOST_BYTES} bytes, which are no patterns; remove or shorten it")
        return file.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise ConfigError(f"{name} cannot be read: {error.strerror}; mend its permissions, or remove it") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name} is no text in UTF-8; save it anew, or remove it") from error
