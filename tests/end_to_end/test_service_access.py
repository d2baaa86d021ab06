"""How a service is reached: headers, proxy, account, time-outs; for chat, embedding and rerank alike."""

from __future__ import annotations

import base64
import logging
import socket
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kb.components import Parts, build_component
from kb.errors import ConfigError, KbError, MissingKeyError, ServiceError
from kb.settings import load_settings
from tests.end_to_end._chats import HELLO, HITS, KEY, chat, secrets
from tests.llm_server import (
    Reply,
    Request,
    Serve,
    chat_script,
    embedding_rows,
    embeddings_reply,
    error_reply,
)
from tests.rerank_server import rerank_script

HIDDEN = "s3cr3t-9f2Jq7LmZx81Kd"


def ask_chat(base_url: str, variables: dict[str, str], **options: Any) -> None:
    assert chat(base_url, variables, **options).complete(HELLO) == "fine"


def ask_stream(base_url: str, variables: dict[str, str], **options: Any) -> None:
    assert "".join(chat(base_url, variables, **options).stream(HELLO)) == "fine"


def embed(base_url: str, variables: dict[str, str], **options: Any) -> None:
    table = {"base_url": base_url, "dimensions": 8, "vocabulary": "bytes", "retries": 0, **options}
    built = build_component("embedding", "openai", table, Parts(secret=secrets(**variables)))
    assert built.embed_queries(["a"]).shape == (1, 8)


def rerank(base_url: str, variables: dict[str, str], **options: Any) -> None:
    table = {"base_url": base_url, "retries": 0, **options}
    built = build_component("rerank", "endpoint", table, Parts(secret=secrets(**variables)))
    reranked = built.rerank("refunds", HITS)
    if reranked.notes:
        raise ServiceError(reranked.notes[0], service="rerank")


ASKS = {"chat": ask_chat, "stream": ask_stream, "embedding": embed, "rerank": rerank}


def right(request: Request) -> Reply:
    if request.path.endswith("/embeddings"):
        return embeddings_reply(request, embedding_rows(request, 8))
    return rerank_script(request) if request.path.endswith("/rerank") else chat_script("fine")(request)


@pytest.mark.parametrize("kind", ASKS)
def test_headers_and_account_are_sent_and_values_of_variables_put_in(serve: Serve, kind: str) -> None:
    server = serve(right)
    headers = {"X-Team": "docs", "X-Gateway-Key": "$GATEWAY", "X-Both": "a-$GATEWAY-$MORE"}
    variables = {"GATEWAY": HIDDEN, "MORE": "more"}
    ASKS[kind](server.base_url, variables, headers=headers, organization="org-1", project="proj-2")
    sent = server.requests[0].headers
    assert sent["x-team"] == "docs"
    assert sent["x-gateway-key"] == HIDDEN
    assert sent["x-both"] == f"a-{HIDDEN}-more"
    assert (sent["openai-organization"], sent["openai-project"]) == ("org-1", "proj-2")
    assert sent.get("authorization") == (None if kind == "rerank" else f"Bearer {KEY}")


@pytest.mark.parametrize("kind", ASKS)
def test_the_account_at_openai_is_no_business_of_another_service(
    serve: Serve, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-of-openai")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "project-of-openai")
    server = serve(right)
    ASKS[kind](server.base_url, {"OPENAI_ORG_ID": "org-of-openai", "OPENAI_PROJECT_ID": "project-of-openai"})
    assert not {"openai-organization", "openai-project"} & set(server.requests[0].headers)


@pytest.mark.parametrize("kind", ASKS)
def test_openai_itself_is_told_the_account_of_the_variables(serve: Serve, kind: str) -> None:
    proxy = serve(right)  # stands for the way to OpenAI
    variables = {"OPENAI_ORG_ID": "org-of-openai", "OPENAI_PROJECT_ID": "project-of-openai"}
    ASKS[kind]("http://api.openai.com/v1", variables, proxy=proxy.base_url)
    sent = proxy.requests[0].headers
    assert (sent["openai-organization"], sent["openai-project"]) == ("org-of-openai", "project-of-openai")


@pytest.mark.parametrize("kind", ASKS)
def test_a_header_that_says_who_asks_stands_for_the_key(serve: Serve, kind: str) -> None:
    server = serve(right)
    nobody = {"OPENAI_API_KEY": "", "TOKEN": HIDDEN}
    ASKS[kind](server.base_url, nobody, headers={"Authorization": "Basic $TOKEN"})
    assert server.requests[0].authorization == f"Basic {HIDDEN}"


@pytest.mark.parametrize("kind", ASKS)
def test_requests_pass_the_proxy_that_is_set_with_its_password(serve: Serve, kind: str) -> None:
    proxy = serve(right)
    address = proxy.base_url.replace("http://", "http://me:$PASSWORD@").removesuffix("/v1")
    ASKS[kind]("http://llm.invalid/v1", {"PASSWORD": "p%40ss"}, proxy=address)
    request = proxy.requests[0]
    assert request.path.startswith("http://llm.invalid/v1/")
    assert request.headers["proxy-authorization"] == "Basic " + base64.b64encode(b"me:p@ss").decode()


def test_without_a_proxy_of_its_own_the_environment_s_is_used(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = serve(right)
    monkeypatch.setenv("HTTP_PROXY", proxy.base_url.removesuffix("/v1"))
    ask_chat("http://llm.invalid/v1", {})
    assert proxy.requests[0].path == "http://llm.invalid/v1/chat/completions"


@pytest.mark.parametrize("kind", ASKS)
@pytest.mark.parametrize("echo", [True, False], ids=["echoed", "proxy is closed"])
def test_no_header_and_no_password_is_shown(
    serve: Serve, kind: str, echo: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "kb")
    server = serve(lambda request: error_reply(400, f"bad header {HIDDEN}, and literal-0815-value"))
    options: dict[str, Any] = {"headers": {"X-Key": "$GATEWAY", "X-Literal": "literal-0815-value"}}
    if not echo:
        options["proxy"] = f"http://me:{HIDDEN}@127.0.0.1:{_closed_port()}"
    with pytest.raises(KbError) as raised:
        ASKS[kind](server.base_url, {"GATEWAY": HIDDEN}, **options)
    shown = "".join(traceback.format_exception(raised.value)) + repr(vars(raised.value)) + caplog.text
    assert HIDDEN not in shown
    assert "literal-0815" not in shown
    assert "[key]" in str(raised.value) or "cannot reach" in str(raised.value)


def _closed_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@pytest.mark.parametrize("kind", ASKS)
@pytest.mark.parametrize(
    ("options", "variables", "says"),
    [
        ({"headers": {"X-Key": "$NOT_THERE"}}, {}, "X-Key .*takes a value from NOT_THERE, which is not set"),
        ({"headers": {"X-Key": "$GATEWAY"}}, {"GATEWAY": f"{HIDDEN}\nX-Evil: 1"}, "X-Key .*line break"),
        ({"headers": {"X-Key": "$GATEWAY"}}, {"GATEWAY": f"{HIDDEN}字"}, "beyond ASCII"),
        ({"proxy": "$GATEWAY"}, {"GATEWAY": HIDDEN}, "is no address of one: it begins with http://"),
        ({"proxy": "http://$NOT_THERE@host"}, {}, "NOT_THERE, which is not set"),
    ],
)
def test_a_variable_that_cannot_be_put_in_is_named_and_its_value_not_shown(
    kind: str, options: dict[str, Any], variables: dict[str, str], says: str
) -> None:
    with pytest.raises(ConfigError, match=says) as raised:
        ASKS[kind]("http://127.0.0.1:1/v1", variables, **options)
    assert HIDDEN not in "".join(traceback.format_exception(raised.value))


def test_a_socks_proxy_says_what_it_needs() -> None:
    try:
        import socksio  # type: ignore[import-not-found]  # noqa: F401
    except ImportError:
        with pytest.raises(ConfigError, match="pip install socksio"):
            ask_chat("http://llm.invalid/v1", {}, proxy="socks5://127.0.0.1:1")
    else:
        with pytest.raises(ServiceError, match="cannot reach"):
            ask_chat("http://llm.invalid/v1", {}, proxy=f"socks5://127.0.0.1:{_closed_port()}")


def test_a_variable_that_holds_no_proxy_is_a_setting_s_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", f"ftp://me:{HIDDEN}@host")
    with pytest.raises(ConfigError, match="HTTPS_PROXY or ALL_PROXY") as raised:
        ask_chat("http://llm.invalid/v1", {})
    assert HIDDEN not in "".join(traceback.format_exception(raised.value))


def test_a_missing_key_is_still_missed_when_headers_say_something_else() -> None:
    with pytest.raises(MissingKeyError):
        chat("http://127.0.0.1:1/v1", {"OPENAI_API_KEY": ""}, headers={"X-Team": "docs"})


def test_a_machine_that_does_not_take_the_connection_is_given_up_sooner_than_one_that_thinks(serve: Serve) -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting = []
        for _ in range(4):  # as many as the machine takes before somebody accepts them
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(full.getsockname())
            waiting.append(one)
        started = time.monotonic()
        with pytest.raises(ServiceError, match=r"could not be connected within 0\.3 seconds.*connect_timeout_seconds"):
            ask_chat(f"http://127.0.0.1:{full.getsockname()[1]}/v1", {}, connect_timeout_seconds=0.3)
        assert time.monotonic() - started < 5
        for one in waiting:
            one.close()
    slow = serve(lambda request: Reply(200, chat_script("fine")(request).pieces, wait_seconds=0.6))
    ask_chat(slow.base_url, {}, connect_timeout_seconds=0.3)


# ── as settings ──

SECTIONS = ("chat.answer", "chat.judge", "embedding.openai", "rerank.endpoint")


def load(section: str, project: Callable[..., Path], toml: str) -> None:
    project(f"[{section}]\n{toml}\n")
    settings, origins = load_settings()
    if not section.startswith("chat"):
        kind, name = section.split(".")
        component = getattr(settings, kind)
        build_component(kind, name, component.options(name), Parts(secret=origins.secret))


@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.parametrize(
    ("toml", "says"),
    [
        (f'headers = {{ "X Key" = "{HIDDEN}" }}', "headers: should be names of headers"),
        (f'headers = {{ Host = "{HIDDEN}" }}', "none of .*host"),
        (f'headers = {{ "X-Key" = "{HIDDEN}\\r\\nX-Evil: 1" }}', "without line breaks"),
        (f'headers = {{ "X-Key" = "{HIDDEN}\\u0000" }}', "without line breaks"),
        (f'headers = {{ "X-Key" = "{HIDDEN}", "x-key" = "b" }}', "each header once"),
        (f'headers = "{HIDDEN}"', "headers: should be a "),
        (f'headers = {{ "X-Key" = ["{HIDDEN}"] }}', "headers: should be a valid string"),
        (f'proxy = "{HIDDEN}"', "proxy: should be the address of a proxy"),
        (f'proxy = "ftp://me:{HIDDEN}@host"', "proxy: should be the address of a proxy"),
        (f'organization = "{HIDDEN}\\n"', "organization: should be an identifier"),
        ("connect_timeout_seconds = 0", "connect_timeout_seconds: should be greater than 0"),
    ],
)
def test_an_option_that_cannot_be_one_is_refused_and_not_shown(
    project: Callable[..., Path], section: str, toml: str, says: str
) -> None:
    with pytest.raises(ConfigError, match=says) as raised:
        load(section, project, toml)
    assert HIDDEN not in "".join(traceback.format_exception(raised.value))
    assert f"[{section}]" in str(raised.value)


def test_headers_and_proxy_stand_in_no_repr_and_come_from_a_variable_as_json(
    project: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    project(f'[chat.answer]\nproxy = "http://me:{HIDDEN}@host:1"\n')
    monkeypatch.setenv("KB_CHAT__ANSWER__HEADERS", f'{{"X-Key": "{HIDDEN}"}}')
    settings, _ = load_settings()
    assert settings.chat.answer.headers == {"X-Key": HIDDEN}
    assert HIDDEN not in repr(settings)
    monkeypatch.setenv("KB_CHAT__ANSWER__HEADERS", HIDDEN)
    with pytest.raises(ConfigError, match="headers") as raised:
        load_settings()
    assert HIDDEN not in "".join(traceback.format_exception(raised.value))


def test_prices_add_to_those_that_are_known(project: Callable[..., Path]) -> None:
    project(
        '[chat.prices]\nas_of = "2030-01-01"\nmine = { input = 1, output = 2 }\ngpt-4o = { input = 5, output = 6 }\n'
    )
    prices = load_settings()[0].chat.prices
    assert prices.dollars("mine", 1_000_000, 2_000_000) == 1 + 2 * 2
    assert prices.dollars("gpt-4o", 100_000, 0) == pytest.approx(0.5)
    assert prices.dollars("gpt-4o-mini", 2_000_000, 0) == pytest.approx(2 * 0.15)
    assert prices.dollars("another", 1, 1) is None
    for wrong in (
        "mine = { input = -1, output = 2 }",
        "mine = { input = 1 }",
        "mine = 3",
        "mine = {input=1,output=1,x=1}",
    ):
        project(f"[chat.prices]\n{wrong}\n")
        with pytest.raises(ConfigError, match=r"chat\.prices"):
            load_settings()
