"""Where settings stand, and messages that name the place: arguments, environment, .env, config.toml.

Every place becomes one nested table, so a key has the same path everywhere: `KB_EMBEDDING__USE` is
`use` in `[embedding]`. The rank of the places is the order in which they are listed here.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from kb.errors import ConfigError

ENV_PREFIX = "KB_"
CONFIG_FILE = "config.toml"
ENV_FILE = ".env"

Location: TypeAlias = tuple[str, ...]

_MOST_FAULTS = 3
"""So many faults fit one message; more are seldom independent of the first."""

_MOST_SHOWN = 60
"""A longer value is a pasted text, which would hide the message."""

_SECRET_NAME = re.compile(r"^(?!KB_).*(KEY|TOKEN|SECRET|PASSW)", re.IGNORECASE)
_LEAST_SECRET = 4
"""A shorter value is a placeholder, and would hide every word that it is part of."""

_SECRET_KEY = re.compile(r"passw|secret|api_key|access_token|^headers$|^proxy$")
_LOOKS_SECRET = re.compile(r"^(sk|pk|Bearer)[-_ ]|://[^/]*@|(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[\w-]{20,}")
"""The usual beginnings of a key, an address with a password, and long runs of letters and digits."""


@dataclass(frozen=True, slots=True)
class Place:
    """One place that sets keys."""

    label: str
    table: Mapping[str, Any]
    variables: Mapping[Location, str] = field(default_factory=dict)
    """How the key at a location is really spelt, in the environment or .env."""

    def name(self, location: Location) -> str | None:
        """The place as a message names it, or None when it doesn't set the key at `location`."""
        table: Any = self.table
        for key in location:
            if not isinstance(table, Mapping) or key not in table:
                return None
            table = table[key]
        variable = next((name for path, name in self.variables.items() if path[: len(location)] == location), "")
        return f"{self.label} {variable}".rstrip()


class Origins:
    """The places that settings come from, highest rank first, and which of them set a key."""

    def __init__(self, config: Path | None, places: tuple[Place, ...], variables: Mapping[str, str]) -> None:
        self.config = config
        """The configuration file, absolute; None when there is none."""
        self.places = places
        self._variables = variables

    @classmethod
    def find(cls, config: str | Path | None, arguments: Mapping[str, Any], known: Collection[str]) -> Origins:
        """Read config.toml and .env of its folder, and the environment.

        Args:
            config: The configuration file; None takes `config.toml` of the working folder, if any.
            arguments: Nested dicts of settings.
            known: The top-level keys; a variable that begins with none of them is an error.

        Raises:
            ConfigError: a file is missing or can't be read, or a `KB_` variable is unknown.
        """
        # Not resolve(): a linked config.toml belongs to the folder of the link, where its user sees it.
        path = Path(os.path.abspath(Path(config or CONFIG_FILE).expanduser()))
        found = path if path.is_file() else None
        if config is not None and found is None:
            raise ConfigError(f"{path}: there is no such configuration file; give --config FILE, or leave it out")
        table = _read_toml(found) if found else {}
        env_file = path.parent / ENV_FILE
        environment, in_file = dict(os.environ), _read_env_file(env_file)
        # A variable that is set but empty in the environment hides the one in .env, and counts as not set.
        upper = {name.upper() for name in environment}
        in_file = {name: value for name, value in in_file.items() if name.upper() not in upper}
        places = (
            Place("argument", arguments),
            _variables_place("environment variable", environment, known),
            _variables_place(f"{env_file}:", in_file, known),
            Place(str(path), table),
        )
        return cls(found, places, {**in_file, **environment})

    def secret(self, name: str) -> str | None:
        """A variable's value from the environment, then .env; None when unset or empty."""
        return self._variables.get(name, "").strip() or None

    def describe(self, location: Location) -> str:
        """Name the place that set the key at `location`, or the table that it is missing from."""
        for length in range(len(location), 0, -1):
            for place in self.places:
                if name := place.name(location[:length]):
                    return name
        return ""

    def show(self, value: object) -> str:
        """A value as it may stand in a message: nothing that is, or looks like, a key or a password."""
        text = value if isinstance(value, str) else repr(value)
        secrets = (v for name, v in self._variables.items() if len(v) >= _LEAST_SECRET and _SECRET_NAME.match(name))
        if _LOOKS_SECRET.search(text) or any(secret in text for secret in secrets):
            return "a value that is not shown, as it may be a secret"
        return repr(value) if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]!r}…"


NOWHERE = Origins(None, (), {})
"""For options that come from no file: the message then names section and key only."""


def explain(error: ValidationError, model: type[BaseModel], origins: Origins, section: Location = ()) -> str:
    """Say for the first few faults: place, section, key, what is allowed, and what stands there."""
    faults: dict[Location, list[str]] = {}
    shown: dict[Location, str] = {}
    for fault in error.errors(include_url=False):
        parts = (*(str(part) for part in fault["loc"]), *filter(None, [fault.get("ctx", {}).get("key")]))
        inner, table = _key(model, parts)
        location = (*section, *inner)
        shown[location] = f" (it is {origins.show(fault['input'])})" if _may_be_shown(fault, inner) else ""
        faults.setdefault(location, []).append(_what(fault["type"], fault["msg"], table, location))
    lines = []
    for location, whats in list(faults.items())[:_MOST_FAULTS]:
        tables, key = (location[:-1], location[-1]) if len(location) > len(section) else (section, "")
        heading = f"[{'.'.join(tables)}] {key}".rstrip() if tables else key
        what = " or ".join(dict.fromkeys(whats)).replace(" or should be ", " or ")
        lines.append(": ".join(filter(None, (origins.describe(location), heading, what + shown[location]))))
    return "; ".join(lines)


def _may_be_shown(fault: ErrorDetails, location: Location) -> bool:
    """Whether a fault's input tells something, and is neither a whole table nor a secret."""
    untold = fault["type"] in ("extra_forbidden", "missing", "not_shown", "unknown_key")
    return not (untold or not location or isinstance(fault["input"], dict) or _SECRET_KEY.search(location[-1]))


def _key(model: type[BaseModel], parts: Location) -> tuple[Location, type[BaseModel]]:
    """The key that a fault is about, without what pydantic adds (index, branch of a union), and its table."""
    for index, part in enumerate(parts):
        known = model.model_fields.get(part)
        inner = known.annotation if known else None
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)) or index == len(parts) - 1:
            return parts[: index + 1], model
        model = inner
    return parts, model


def _what(kind: str, message: str, table: type[BaseModel], location: Location) -> str:
    """Pydantic's message as a sentence about a key of a file."""
    if kind == "extra_forbidden":
        return f"unknown key; allowed: {', '.join(sorted(table.model_fields)) or 'none, it has no options'}"
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        heading = ".".join(location)
        return f"should be a table: write [{heading}] and its keys below, or {_variable((*location, 'KEY'))}"
    if kind == "path_type":
        return "should be the path of a folder"
    if kind == "missing":
        return "should be set; it has no default"
    message = re.sub(r", unable to .*", "", message.removeprefix("Value error, "))
    return message.replace("Input should be", "should be")


def _variable(location: Location) -> str:
    return ENV_PREFIX + "__".join(location).upper()


def _variables_place(label: str, variables: Mapping[str, str], known: Collection[str]) -> Place:
    """Turn `KB_` variables, in any case, into a nested table; an empty value counts as not set."""
    table: dict[str, Any] = {}
    names: dict[Location, str] = {}
    for name, location in _settings_among(variables):
        if location[0] not in known:
            allowed = ", ".join(_variable((key,)) for key in known)
            raise ConfigError(f"{label} {name}: unknown variable; allowed beginnings: {allowed}")
        if not variables[name].strip():
            continue
        inner: Any = table
        for depth, key in enumerate(location[:-1], start=1):
            inner = inner.setdefault(key, {})
            if not isinstance(inner, dict):
                raise ConfigError(f"{label} {name}: {names[location[:depth]]} is set as well; keep one of the two")
        inner[location[-1]] = variables[name].strip()
        names[location] = name
    return Place(label, table, names)


def _settings_among(variables: Mapping[str, str]) -> Iterator[tuple[str, Location]]:
    """`KB_` variables with their locations, shorter ones first; of two spellings the upper-case one comes last."""
    for name in sorted(variables, key=lambda name: (name.count("__"), [-ord(c) for c in name])):
        if name.upper().startswith(ENV_PREFIX):
            yield name, tuple(name[len(ENV_PREFIX) :].lower().split("__"))


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: this is no valid TOML in UTF-8: {error}") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error


def _read_env_file(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    from dotenv import dotenv_values

    try:
        values = dotenv_values(path, encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: this is no text in UTF-8: {error}") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    return {name: value for name, value in values.items() if value is not None}
