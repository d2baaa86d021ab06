"""The options of the Qdrant store; in a file of their own, which needs no Qdrant."""

from __future__ import annotations

import ipaddress
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

from pydantic import Field

from kb.errors import ConfigError, MissingKeyError
from kb.settings import ComponentOptions, OptionalVariableName

if TYPE_CHECKING:
    from kb.components import Parts

_SECTION = "[store.qdrant]"
_PORT = 6333
"""Qdrant's own, which its client takes for https as well."""


class Options(ComponentOptions):
    """Where Qdrant runs, and how it is asked."""

    url: str = ""
    """`http://host:6333` of a Qdrant server; empty keeps the data in a folder, without a server."""
    api_key_env: OptionalVariableName = ""
    """The name of the variable that holds the server's key; empty sends none."""
    allow_http_key: bool = False
    """Whether the key may go over plain http to another machine, where everyone on the way can read it."""
    ca_file: str = ""
    """A file of certificates (PEM) that the server's has to be signed by; empty: those that the system trusts."""
    timeout_seconds: int = Field(30, ge=1)
    """Qdrant's client takes whole seconds."""
    in_memory: bool = False
    """Without a `url`: nothing is written to the disk, and all is gone when the process ends."""
    batch_size: int = Field(100, ge=1, le=10_000)
    """Points of one upsert."""
    exact: bool = False
    """A server compares a question with every vector instead of walking its index."""
    max_neighbors: int = Field(16, ge=2)
    """Links of a point in a server's index; Qdrant's `m`, and its default."""
    ef_construction: int = Field(100, ge=4)
    """Neighbours that a server looks at when it adds a point; Qdrant's `ef_construct`, and its default."""
    ef_search: int = Field(100, ge=1)
    """Neighbours that a server looks at in a search; Qdrant's `hnsw_ef`. Its default is `ef_construct`."""


def check(options: Options) -> None:
    """Look whether the options fit each other.

    Raises:
        ConfigError: they don't, or `url` is no URL of a server.
    """
    if options.url and options.in_memory:
        raise ConfigError(f"{_SECTION} in_memory = true, but url names a server: leave one of them out")
    if options.url:
        _address(options.url)


def key_of(options: Options, parts: Parts) -> str | None:
    """The server's key; None when none is named.

    Raises:
        MissingKeyError: it is named, and not set.
        ConfigError: it would go to another machine readable by everyone on the way.
    """
    if not options.url or not options.api_key_env:
        return None
    key = parts.secret(options.api_key_env)
    if key is None:
        raise MissingKeyError(options.api_key_env, f"the Qdrant server at {options.url}")
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(f"the key in {options.api_key_env} holds characters that no header can: copy it again")
    address = _address(options.url)
    if address.scheme == "http" and not options.allow_http_key and not _is_this_machine(address.hostname or ""):
        raise ConfigError(
            f"{_SECTION} url = {options.url!r}: the key in {options.api_key_env} would be readable on the way. Use "
            "https, or, on a network that you trust, set allow_http_key = true"
        )
    return key


def client_arguments(options: Options, key: str | None) -> dict[str, Any]:
    """What Qdrant's client is made with for a server.

    Raises:
        ConfigError: `ca_file` cannot be read.
    """
    arguments: dict[str, Any] = {
        "url": options.url,
        "port": _PORT,
        "timeout": options.timeout_seconds,
        # It would ask in a thread of its own and warn in the middle of whatever is printed.
        "check_compatibility": False,
        # As `api_key` the client would warn of plain http, which `key_of` has looked at.
        "headers": {} if key is None else {"api-key": key},
    }
    if options.ca_file:
        file = Path(options.ca_file).expanduser()
        try:
            arguments["verify"] = ssl.create_default_context(cafile=str(file))
        except (OSError, ValueError) as error:  # an SSLError is an OSError
            reason = getattr(error, "strerror", None) or error
            raise ConfigError(f"{_SECTION} ca_file = {options.ca_file!r} cannot be read: {reason}") from error
    return arguments


def collection_name(options: Options, slug: str, generation: int) -> str:
    """What Qdrant calls a generation: on a server all of them share one place, in a folder each has its own."""
    return f"{slug}-g{generation}" if options.url else slug


def _address(url: str) -> SplitResult:
    form = "it has to look like http://host:6333 or https://host:6333"
    try:
        address = urlsplit(url)
        port = address.port
    except ValueError as error:
        raise ConfigError(f"{_SECTION} url is no URL ({error}): {form}") from error
    if "@" in address.netloc:  # not shown, as it may hold a password
        raise ConfigError(f"{_SECTION} url must hold no user or password: put a key into the variable of api_key_env")
    if address.scheme not in ("http", "https") or not address.hostname or port == 0:
        raise ConfigError(f"{_SECTION} url = {url!r}: {form}")
    if address.query or address.fragment:  # not shown, as it may hold a key
        raise ConfigError(f"{_SECTION} url must end with the path: {form}")
    return address


def _is_this_machine(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
