"""Serve the knowledge base over HTTP, with a page to ask it: `python -m kb.serve`. A command only.

Exit status: 0 ended as asked (Ctrl-C, SIGTERM), 2 an error with a message, 70 what nobody foresaw.
"""

from __future__ import annotations

import argparse
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kb import command

if TYPE_CHECKING:
    from collections.abc import Callable

    from kb.settings import Origins, Settings, WebSection

_LEAST_TOKEN = 16
"""Characters: a shorter one can be guessed."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command and give its exit status."""
    return command.run(lambda: _run(_parser().parse_args(arguments)), interrupted="ended")


def _parser() -> argparse.ArgumentParser:
    parser = command.Parser(
        prog="python -m kb.serve",
        description="Serve the documents over HTTP: a page to ask, an API, and an OpenAI-compatible endpoint.",
        epilog="exit status: 0 ended as asked, 2 an error with a message",
    )
    parser.add_argument("--host", type=command.not_blank, help="the address to listen on (default: this machine only)")
    parser.add_argument("--port", type=int, metavar="N", help="the port; 0 takes a free one")
    parser.add_argument("--collection", type=command.name, metavar="NAME", help="the collection to ask")
    parser.add_argument(
        "--config", type=command.not_blank, metavar="FILE", help="the configuration file (default: ./config.toml)"
    )
    parser.add_argument("--log-json", metavar="FILE", help="append what happens to FILE, one JSON object a line")
    return parser


def _run(options: argparse.Namespace) -> int:
    from kb.logs import logged
    from kb.settings import load_settings

    overrides: dict[str, Any] = {"collection": options.collection} if options.collection else {}
    web = {key: value for key in ("host", "port") if (value := getattr(options, key)) is not None}
    if web:
        overrides["web"] = web
    settings, origins = load_settings(options.config, **overrides)
    with logged(options.log_json, quiet=False):
        return _serve(settings, origins, options.config, overrides)


def _serve(settings: Settings, origins: Origins, config: str | None, overrides: dict[str, Any]) -> int:
    from kb.components import not_installed
    from kb.errors import ConfigError

    try:
        from kb.web.guard import is_loopback
        from kb.web.server import Entrance, serve
    except ModuleNotFoundError as error:
        raise not_installed("python -m kb.serve", "web", error) from error
    section = settings.web
    folder = origins.config.parent if origins.config else Path.cwd()
    token = _token(section, origins.secret, folder)
    if token is None and not is_loopback(section.host):
        raise ConfigError(
            f"[web] host = {section.host!r} can be reached by others, and no token is set. Put one of at least "
            f"{_LEAST_TOKEN} characters into {section.token_env} or into [web] token_file, or listen on 127.0.0.1"
        )
    _check_store(settings, origins)
    certificate, key = (_tls_file(section, name, folder) for name in ("tls_cert_file", "tls_key_file"))
    with _listening(section) as listening:
        return serve(settings, config, overrides, Entrance(listening, token, certificate, key))


def _check_store(settings: Settings, origins: Origins) -> None:
    """Several processes answer, so the store has to be one that they share.

    Raises:
        ConfigError: it is none.
    """
    from kb.errors import ConfigError
    from kb.opening import CollectionStore

    store = CollectionStore(settings, origins)
    if store.in_memory or store.in_one_process:
        raise ConfigError(
            f"[store] use = {settings.store.use!r} as it is set up is open in one process only, and a server has "
            'several. Take "chroma", "faiss", or a server\'s url'
        )


def _token(section: WebSection, secret: Callable[[str], str | None], folder: Path) -> str | None:
    """The token of the clients; None when none is set.

    Raises:
        ConfigError: it cannot be read, or can be guessed.
    """
    from kb.errors import ConfigError

    token = secret(section.token_env)
    source = section.token_env
    if token is None and section.token_file:
        file = folder / Path(section.token_file).expanduser()
        source = str(file)
        try:
            token = file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"[web] token_file {file} cannot be read: {error}") from error
    if token is not None and (len(token) < _LEAST_TOKEN or not token.isascii() or not token.isprintable()):
        raise ConfigError(
            f"the token in {source} should have at least {_LEAST_TOKEN} characters of ASCII, as others could guess "
            'it; one is made by: python -c "import secrets; print(secrets.token_urlsafe(32))"'
        )
    return token


def _tls_file(section: WebSection, name: str, folder: Path) -> Path | None:
    """A file of [web]; None when it is not set.

    Raises:
        ConfigError: it cannot be read.
    """
    from kb.errors import ConfigError

    written: str = getattr(section, name)
    if not written:
        return None
    file = folder / Path(written).expanduser()
    try:
        file.open("rb").close()
    except OSError as error:
        raise ConfigError(f"[web] {name} {file} cannot be read: {error.strerror}") from error
    return file


def _listening(section: WebSection) -> socket.socket:
    """A socket that listens at the configured address.

    Raises:
        ConfigError: the address is not this machine's, or is taken.
    """
    from kb.errors import ConfigError

    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            section.host, section.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigError(f"[web] host = {section.host!r} is no address of this machine: {error}") from error
    try:
        if sys.platform != "win32":  # there it would let two servers have one port
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError as error:
        listening.close()
        raise ConfigError(
            f"{section.host} port {section.port} cannot be listened on: {error.strerror}. Another server may run "
            "there: end it, or take another port with --port (0: a free one)"
        ) from error
    return listening


if __name__ == "__main__":
    command.leave(main())
