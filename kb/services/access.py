"""Headers and addresses of the settings with the variables put in; in a file of its own, which needs no client."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from kb.errors import ConfigError
from kb.settings_services import VARIABLE, is_header_value

Secret = Callable[[str], str | None]
"""Looks a variable up; None when it is not set."""


def filled_headers(headers: Mapping[str, str], named: str, secret: Secret) -> dict[str, str]:
    """Headers with the values of variables in the place of `$NAME`.

    Args:
        headers: As configured.
        named: Whose they are, for messages.
        secret: Looks a variable up.

    Raises:
        ConfigError: a variable is not set, or holds what no header can carry; it is not shown.
    """
    found = {name: filled(value, f"the header {name} of {named}", secret) for name, value in headers.items()}
    for name, value in found.items():
        if not is_header_value(value):
            raise ConfigError(
                f"the header {name} of {named} holds a line break, a control character or a letter beyond ASCII"
            )
    return found


def filled(text: str, what: str, secret: Secret) -> str:
    """Put the values of variables in the place of `$NAME`.

    Raises:
        ConfigError: one is not set.
    """

    def value(found: re.Match[str]) -> str:
        held = secret(found[1])
        if held is None:
            raise ConfigError(f"{what} takes a value from {found[1]}, which is not set: put it into .env")
        return held

    return VARIABLE.sub(value, text)
