"""The options of the Chroma store; in a file of their own, which needs no Chroma."""

from __future__ import annotations

from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field

from kb.errors import ConfigError
from kb.settings import ComponentOptions, VariableName
from kb.settings_services import Headers, Identifier


class Options(ComponentOptions):
    """Where Chroma runs, and its index; all numbers but `sync_threshold` are Chroma's own defaults."""

    url: str = ""
    """`http://host:8000` of a Chroma server; empty keeps the data in a folder, without a server."""
    token_env: VariableName | Literal[""] = ""
    """The name of the variable that holds the server's token."""
    token_header: Literal["Authorization", "X-Chroma-Token"] = "Authorization"
    """What carries it; in `Authorization` it follows the word `Bearer`."""
    headers: Headers = Field(default_factory=dict, repr=False)
    tenant: Identifier = ""
    """Empty: Chroma's own default; so below."""
    database: Identifier = ""
    ca_file: str = ""
    """The certificate of an authority of one's own, in PEM; no other is trusted then."""
    timeout_seconds: float = Field(60.0, gt=0)
    """Without a sign of the server."""
    connect_timeout_seconds: float = Field(10.0, gt=0)
    max_request_megabytes: float = Field(10.0, gt=0)
    ef_construction: int = Field(100, ge=1)
    """Neighbours looked at when a row is added."""
    ef_search: int = Field(100, ge=1)
    """Neighbours looked at in a search; more is slower and finds more of the true nearest."""
    max_neighbors: int = Field(16, ge=2)
    """Links of a row."""
    resize_factor: float = Field(1.2, gt=1)
    """By how much a full index grows."""
    sync_threshold: int = Field(100, ge=2)
    """Rows that are logged before the index file is written.

    The first search of each process puts the rows still in the log into the index, 0.1–0.5 ms each. It
    took, with 100 and with Chroma's own 1,000: 10 and 40 ms for 286 rows of 384 dimensions, 17 and
    135 ms for 1,500, 40 and 155 ms for 6,300, 100 and 490 ms for 20,000. Filling was as fast (31 s of
    processor time for 20,000 rows with either; 477 and 460 MB were written).
    """


CHANGEABLE = frozenset(("ef_search", "resize_factor", "sync_threshold"))
"""Index options that Chroma can change in a collection; the others shape the index that is there already."""


def collection_name(options: Options, slug: str, generation: int) -> str:
    """What Chroma calls a generation: on a server all of them share one place, in a folder each has its own."""
    return f"{slug}-g{generation}" if options.url else slug


def index_options(options: Options) -> dict[str, int | float]:
    """Those that shape the index, as Chroma names them."""
    return {
        "ef_construction": options.ef_construction,
        "ef_search": options.ef_search,
        "max_neighbors": options.max_neighbors,
        "resize_factor": options.resize_factor,
        "sync_threshold": options.sync_threshold,
    }


def server_address(url: str) -> dict[str, Any]:
    """Host, port and ssl of a server's URL.

    Raises:
        ConfigError: it is no URL of a server.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        shown = "" if "@" in url else f" = {url!r}"
        raise ConfigError(f"[store.chroma] url{shown} is no URL: {error}") from error
    if parts.username is not None or parts.password is not None:
        raise ConfigError(
            "[store.chroma] url holds a name or a password, which is not shown: take it out, and name the variable "
            "that holds a token with token_env, or headers with headers"
        )
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.query:
        raise ConfigError(f"[store.chroma] url = {url!r}: it has to look like http://host:8000 or https://host")
    ssl = parts.scheme == "https"
    return {"host": parts.hostname, "port": port or (443 if ssl else 8000), "ssl": ssl}
