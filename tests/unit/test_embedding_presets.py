"""The presets for embedding services, each against a server that refuses what that service refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kb.components import Parts, build_component
from kb.errors import AuthenticationError, KbError, MissingKeyError, RefusedError
from kb.records import Document
from kb.settings import load_settings
from tests.llm_server import Reply, Request, Serve, embedding_rows, embeddings_reply, error_reply, vector_for

PRESETS = Path(__file__).parents[2] / "docs" / "presets"
KEY = "k3y-of-a-test"
TEXTS = [
    text
    for i in range(50)
    for text in (f"Opening hours of room {i}.", f"第{i}阅览室的开放时间。", f"第{i}閲覧室の開館時間。")
]


def refusal(request: Request, *, key: str, items: int, tokens: int, dimensions: tuple[int, ...], formats: str) -> str:
    """Why a service with these limits refuses a request; empty when it takes it."""
    asked, texts = request.body.get("dimensions"), request.body["input"]
    if request.authorization != (f"Bearer {key}" if key else ""):
        return "authorization"
    if len(texts) > items:
        return f"batch size is invalid, it should not be larger than {items}"
    if max(map(len, texts)) > tokens:
        return f"an input is longer than {tokens} tokens"
    if asked is not None and asked not in dimensions:
        return "dimensions: not supported"
    if request.body.get("encoding_format") not in formats.split():
        return "encoding_format: not supported"
    return ""


def service(width: int, **limits: Any) -> Callable[[Request], Reply]:
    """A service that gives vectors of `width` numbers, unless asked for others that it has."""

    def answer(request: Request) -> Reply:
        if why := refusal(request, **limits):
            return error_reply(401 if why == "authorization" else 400, why)
        assert request.path.endswith("/embeddings")
        return embeddings_reply(request, embedding_rows(request, request.body.get("dimensions") or width))

    return answer


DASHSCOPE_WIDTHS = (64, 128, 256, 512, 768, 1024, 1536, 2048)
SERVICES = {
    "ollama": service(1024, key="", items=10**6, tokens=2048, dimensions=(), formats="float"),
    "ollama-nomic": service(768, key="", items=10**6, tokens=2048, dimensions=(), formats="float"),
    "vllm": service(1024, key="", items=10**6, tokens=8192, dimensions=(), formats="float base64"),
    "zhipu": service(2048, key=KEY, items=64, tokens=3072, dimensions=(256, 512, 1024, 2048), formats="float"),
    "dashscope": service(1024, key=KEY, items=10, tokens=8192, dimensions=DASHSCOPE_WIDTHS, formats="float"),
}
MOST_ITEMS = {"zhipu": 64, "dashscope": 10}
"""What these refuse to take more of in one request."""
WIDTHS = {"ollama": 1024, "ollama-nomic": 768, "vllm": 1024, "zhipu": 1024, "dashscope": 1024}


def table(name: str, base_url: str) -> dict[str, Any]:
    settings, _ = load_settings(PRESETS / f"{name}.toml")
    assert settings.embedding.use == "openai"
    return {**settings.embedding.options("openai"), "base_url": base_url}


def build(options: dict[str, Any]) -> Any:
    return build_component("embedding", "openai", options, Parts(secret=lambda _: KEY))


def unit(texts: list[str], width: int) -> np.ndarray[Any, Any]:
    rows: np.ndarray[Any, Any] = np.array([vector_for(text, width) for text in texts])
    unit_rows: np.ndarray[Any, Any] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit_rows


@pytest.mark.parametrize("name", SERVICES)
def test_the_service_takes_all_that_a_preset_makes_of_texts(serve: Serve, name: str) -> None:
    server = serve(SERVICES[name])
    embedder = build(table(name, server.base_url))
    assert embedder.dimension == WIDTHS[name]
    document, query = ("search_document: ", "search_query: ") if name == "ollama-nomic" else ("", "")
    vectors = embedder.embed_documents(TEXTS)
    # Nothing was refused, or it would have been sent again in smaller requests.
    sent = [text for request in server.requests for text in request.body["input"] if text != "dimension"]
    assert sorted(sent) == sorted(document + text for text in TEXTS)
    np.testing.assert_allclose(vectors, unit([document + text for text in TEXTS], WIDTHS[name]), atol=1e-6)
    asked = ["When does it open?", "几点开门？", "何時に開きますか。"]
    found = embedder.embed_queries(asked)
    np.testing.assert_allclose(found, unit([query + text for text in asked], WIDTHS[name]), atol=1e-6)


@pytest.mark.parametrize("name", SERVICES)
def test_chunks_cut_for_a_preset_are_all_taken(serve: Serve, name: str) -> None:
    settings, _ = load_settings(PRESETS / f"{name}.toml")
    embedder = build(table(name, serve(SERVICES[name]).base_url))
    parts = Parts(embedder=embedder, count_tokens=embedder.count_tokens)
    chunker = build_component("chunking", settings.chunking.use, settings.chunking.options("recursive"), parts)
    text = "# Hours\n\n" + " ".join(TEXTS) + "\n\n## 開館\n\n" + "図書館は月曜日に休みます。" * 400
    chunks = chunker.chunk(Document("d", "a.md", text, "A guide", "markdown"))
    assert len(chunks) > 5
    assert sorted(len(chunk.text) for chunk in chunks)[len(chunks) // 2] > 200  # not cut small: bytes are counted
    assert embedder.embed_documents([f"{chunk.header}\n{chunk.text}" for chunk in chunks]).shape[0] == len(chunks)


@pytest.mark.parametrize("name", sorted(MOST_ITEMS))
def test_without_the_preset_s_limit_requests_are_refused_and_sent_again_smaller(serve: Serve, name: str) -> None:
    server = serve(SERVICES[name])
    vectors = build({**table(name, server.base_url), "max_batch_items": 2000}).embed_documents(TEXTS)
    np.testing.assert_allclose(vectors, unit(TEXTS, WIDTHS[name]), atol=1e-6)
    assert max(len(request.body["input"]) for request in server.requests) > MOST_ITEMS[name]


@pytest.mark.parametrize("name", ["ollama", "vllm"])
def test_a_width_that_the_service_does_not_know_is_one_clear_error(serve: Serve, name: str) -> None:
    server = serve(SERVICES[name])
    with pytest.raises(KbError, match="dimensions"):
        build({**table(name, server.base_url), "dimensions": 512}).embed_documents(TEXTS)


def test_no_key_is_sent_where_none_is_named_and_one_that_is_wanted_is_asked_for(serve: Serve) -> None:
    server = serve(SERVICES["zhipu"])
    with pytest.raises(AuthenticationError, match=r"wants a key \(401: authorization\): put it into a variable that"):
        build({**table("zhipu", server.base_url), "api_key_env": ""}).embed_documents(["a"])
    assert [request.authorization for request in server.requests] == [""]
    with pytest.raises(MissingKeyError, match="ZHIPU_API_KEY"):
        build_component("embedding", "openai", table("zhipu", server.base_url), Parts())


def test_prefixes_are_sent_counted_and_part_of_the_fingerprint_only_when_set(serve: Serve) -> None:
    server = serve(SERVICES["vllm"])
    options = table("vllm", server.base_url)
    plain = build(options)
    assert plain.fingerprint == "openai:BAAI/bge-m3:1024"
    assert plain.token_overhead == 0
    prefixed = build({**options, "query_prefix": "查询：", "document_prefix": "passage: ", "max_tokens": 30})
    assert prefixed.fingerprint not in (plain.fingerprint, build({**options, "query_prefix": "查询："}).fingerprint)
    assert prefixed.token_overhead == len(b"passage: ")
    parts = list(prefixed.embed_parts(["x" * 21, "x" * 22]))
    assert sorted((part.rows[0], part.refused is None) for part in parts) == [(0, True), (1, False)]
    assert server.requests[-1].body["input"] == ["passage: " + "x" * 21]
    prefixed.embed_queries(["开门时间"])
    assert server.requests[-1].body["input"] == ["查询：开门时间"]
    with pytest.raises(RefusedError, match="takes at most 21: make"):
        prefixed.embed_documents(["x" * 22])
