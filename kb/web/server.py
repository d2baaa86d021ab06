"""Runs the application on a socket until it is asked to end."""

from __future__ import annotations

import logging
import os
import signal
import socket
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from kb import command
from kb.errors import ConfigError
from kb.knowledge_base import KnowledgeBase
from kb.settings import Settings
from kb.web.answer_process import Launch
from kb.web.app import create_app
from kb.web.collections import Collections
from kb.web.connections import patient_for
from kb.web.guard import Rules
from kb.web.jobs import Jobs
from kb.web.page_images import PageImages
from kb.web.pool import Pool
from kb.web.served import Served

_GRACE_SECONDS = 5
"""For answers that are under way when the server is asked to end."""
_KEEP_ALIVE_SECONDS = 30
_MOST_CONNECTIONS = 1000
"""Beyond them a connection is told 503 at once: each takes a descriptor, of which a process has some thousand."""
_HEADER_BYTES = 16_384


@dataclass(frozen=True, slots=True)
class Entrance:
    """How clients get in."""

    listening: socket.socket
    """Bound."""
    token: str | None = None
    """What clients have to send; None: nothing."""
    certificate: Path | None = None
    """In PEM, with the key beside it; None: no TLS."""
    key: Path | None = None


def serve(settings: Settings, config: str | None, overrides: dict[str, Any], entrance: Entrance) -> int:
    """Serve until Ctrl-C or SIGTERM; what is being answered then may end within some seconds.

    Args:
        settings: As they were read.
        config: The configuration file they were read from, as it was given.
        overrides: What wins over it.
        entrance: Where to listen, and whom to let in.

    Raises:
        ConfigError: with these settings no question can be answered.
    """
    base = KnowledgeBase.open(config, **overrides)
    collections = Collections(base)
    section = settings.web
    served = Served(
        collections, Pool(Launch(config, overrides), settings), Jobs(collections), section, PageImages(settings.loading)
    )
    rules = Rules.of(section.host, entrance.token, section.allowed_hosts, section.allowed_origins)
    app = create_app(served, rules)
    # What fails is told by kb.logs; uvicorn would print what a request held as well.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    server = _Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            http=patient_for(section.idle_seconds),
            ws="none",
            lifespan="on",
            ssl_certfile=entrance.certificate,
            ssl_keyfile=entrance.key,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_GRACE_SECONDS,
            limit_concurrency=_MOST_CONNECTIONS,
            h11_max_incomplete_event_size=_HEADER_BYTES,
        ),
        f"{'https' if entrance.certificate else 'http'}://{_shown(section.host)}:"
        f"{entrance.listening.getsockname()[1]}/",
    )
    try:
        with _signals_end_it(), suppress(SystemExit):  # of a start that failed
            server.run(sockets=[entrance.listening])
    except ssl.SSLError as error:
        raise ConfigError(
            f"[web] tls_cert_file {entrance.certificate} and tls_key_file {entrance.key} are no certificate in PEM and "
            f"its key: {error.reason or error}"
        ) from error
    if app.state.failure is not None:
        raise app.state.failure
    if not server.started:
        return command.ERROR
    if served.jobs.busy:  # an ingest that is killed loses nothing; waiting for its end could take hours
        sys.stderr.flush()
        os._exit(0)
    return 0


class _Server(uvicorn.Server):
    """Says where it is once it can be asked."""

    def __init__(self, config: uvicorn.Config, address: str) -> None:
        super().__init__(config)
        self._address = address

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            command.say(f"kb answers at {self._address} (Ctrl-C ends it)")


@contextmanager
def _signals_end_it() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the server and no more: it raises them again when it has ended."""
    former = {number: signal.signal(number, _ignored) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _ignored(number: int, frame: object) -> None:
    return


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
