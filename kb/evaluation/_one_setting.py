"""One key of config.toml set to another value; all else in the file, comments too, stays as it is."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from kb.errors import ConfigError

_HEADER = re.compile(r"\s*\[{1,2}\s*([^\[\]]+?)\s*\]{1,2}\s*(?:#.*)?$")


def write_setting(file: Path, section: str, key: str, value: float) -> None:
    """Set `key` in `[section]`, or add it; the file is replaced as a whole, or not at all.

    Raises:
        ConfigError: the file is not there, cannot be read or written, or is written in a form that isn't
            changed by a line, such as an inline table.
    """
    file = file.resolve()  # what a link leads to, so that it stays one
    by_hand = f"set {key} = {value:g} below [{section}] by hand"
    try:
        before = file.read_bytes().decode("utf-8")
        wanted = tomllib.loads(before)
    except FileNotFoundError as error:
        raise ConfigError(f"{file} is not there, so nothing was written; make it, or {by_hand}") from error
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{file}: this is no valid TOML: {error}") from error
    after = _changed(before, section, key, f"{value:g}")
    table = wanted.setdefault(section, {})
    if isinstance(table, dict):
        table[key] = value
    if _parsed(after) != wanted:
        raise ConfigError(
            f"{file} is not in a form in which one line can be changed, so nothing was written; {by_hand}"
        )
    try:
        _replace(file, after)
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror}; {by_hand}") from error


def _changed(text: str, section: str, key: str, value: str) -> str:
    lines = text.splitlines(keepends=True)
    end = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    assignment = re.compile(rf"(\s*{re.escape(key)}\s*=\s*)(?:\"[^\"\n]*\"|'[^'\n]*'|[^\s#]+)")
    inside, below_header = False, None
    for number, line in enumerate(lines):
        header = _HEADER.match(line)
        if header:
            inside = header.group(1) == section
            below_header = number + 1 if inside else below_header
        elif inside and (found := assignment.match(line)):
            lines[number] = f"{found.group(1)}{value}{line[found.end() :]}"
            return "".join(lines)
    if below_header is None:
        gap = "" if not lines else end if lines[-1].endswith("\n") else end * 2
        lines += [f"{gap}[{section}]{end}"]
        below_header = len(lines)
    elif not lines[below_header - 1].endswith("\n"):
        lines[below_header - 1] += end
    lines.insert(below_header, f"{key} = {value}{end}")
    return "".join(lines)


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _replace(file: Path, text: str) -> None:
    """Put a whole new file in the place of the old one, as it may be read at any moment."""
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(descriptor, "wb") as written:
            written.write(text.encode("utf-8"))
            written.flush()
            os.fsync(written.fileno())
        shutil.copymode(file, name)
        os.replace(name, file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
