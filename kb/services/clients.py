"""Opens the real client as the options of a service say: headers, proxy, time-outs, and whose account it is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

import openai

from kb.errors import ConfigError
from kb.services.access import Secret, filled, filled_headers
from kb.services.lanes import OpenClient
from kb.settings_services import PROXY_SCHEMES, ServiceOptions, is_proxy

# In the place of a key where none is needed: the client wants one, though nobody is to see it.
_NO_KEY = "none"
_OPENAI_S_OWN = re.compile(r"(?:^|\.)openai\.com$")
_ACCOUNT = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}
"""Headers that name an account at OpenAI, with the variables that hold the names."""


@dataclass(frozen=True, slots=True, repr=False)
class Access:
    """What of a service's options may be secret, with the variables put in."""

    headers: Mapping[str, str]
    proxy: str
    """Empty: what the environment says."""

    @classmethod
    def read(cls, options: ServiceOptions, named: str, secret: Secret) -> Access:
        """Put the values of variables in.

        Raises:
            ConfigError: a variable is not set, or holds what no header, or no proxy, can be; it is not shown.
        """
        headers = filled_headers(options.headers, named, secret)
        proxy = filled(options.proxy, f"the proxy of {named}", secret)
        if proxy and not is_proxy(proxy):
            raise ConfigError(
                f"the proxy of {named} is no address of one: it begins with "
                + ", ".join(f"{scheme}://" for scheme in PROXY_SCHEMES)
            )
        return cls(headers, proxy)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What no message may show."""
        parts = urlsplit(self.proxy)
        passwords = [text for text in (parts.password,) if text]
        return (*self.headers.values(), *passwords, *map(unquote, passwords))

    @property
    def names_a_key(self) -> bool:
        """Whether a header says by itself who asks."""
        return any(name.lower() == "authorization" for name in self.headers)


def client_opener(options: ServiceOptions, access: Access, address: str, key: str, secret: Secret) -> OpenClient:
    """What opens a client for this service; the client asks once, as who calls it counts the tries."""
    headers: dict[str, Any] = {**_account(options, address, secret), **access.headers}
    keyless = not options.api_key_env and not access.names_a_key
    timeout = openai.Timeout(
        options.timeout_seconds, connect=min(options.connect_timeout_seconds, options.timeout_seconds)
    )

    def open_client(hooks: dict[str, list[Any]]) -> openai.OpenAI:
        if keyless:
            hooks = {**hooks, "request": [*hooks.get("request", []), _without_key]}
        with _explained():
            http = openai.DefaultHttpxClient(proxy=access.proxy or None, timeout=timeout, event_hooks=hooks)
        return openai.OpenAI(
            api_key=key or _NO_KEY,
            base_url=address,
            timeout=timeout,
            # The client retries every 429, also the one that says the account is empty; so we count ourselves.
            max_retries=0,
            default_headers=headers,
            http_client=http,
        )

    return open_client


def _without_key(request: Any) -> None:
    """Take out what the client puts in the place of a key."""
    request.headers.pop("authorization", None)


def _account(options: ServiceOptions, address: str, secret: Secret) -> dict[str, Any]:
    """The headers that name an account, which the client would else take from OpenAI's variables for any service."""
    at_openai = bool(_OPENAI_S_OWN.search(urlsplit(address).hostname or ""))
    found: dict[str, Any] = {}
    for (header, variable), given in zip(_ACCOUNT.items(), (options.organization, options.project), strict=True):
        found[header] = given or (secret(variable) if at_openai else None) or openai.Omit()
    return found


@contextmanager
def _explained() -> Iterator[None]:
    """Say what is missing for a proxy, which may be the environment's; its address may hold a password."""
    try:
        yield
    except ImportError as error:
        raise ConfigError("a SOCKS proxy needs the package 'socksio': pip install socksio") from error
    except ValueError:
        raise ConfigError("a variable such as HTTPS_PROXY or ALL_PROXY holds no address of a proxy") from None
