"""Documents that give orders to the model, and a model that obeys: what is sent, and what is taken back.

No prompt can make a model disobey. What is held here is what does not depend on it: the documents stay inside
their fences, the rules are sent once, and no link, tag, source or quotation that isn't there reaches a reader unsaid.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kb.answers import Answer, AnswerReady, Generated, TextPiece
from kb.as_sent import as_sent
from kb.components import Parts, build_component
from kb.knowledge_base import KnowledgeBase
from kb.markers import find_markers
from kb.prompts import SENTINEL, Language, not_found_text
from kb.records import Hit, SearchResult
from kb.services.chat import OpenAIChat
from kb.settings import ChatPurpose
from kb.urls import find_urls, fold
from tests.end_to_end._bases import Place
from tests.injections import HIDDEN, INJECTIONS, PLAIN, QUESTIONS, STOLEN, Injection
from tests.llm_server import Request, ScriptedServer, chat_script, scripted_server

KEY = "sk-test-5b1e9c07aa42d3"
OTHER = {"en": "Shipping costs are not refunded.", "zh": "运费不予退还。", "ja": "送料は返金されません。"}
WORDS = {"en": "Question", "zh": "问题", "ja": "質問"}


@contextmanager
def asked_base(folder: Path, document: str, said: str, language: str) -> Iterator[tuple[KnowledgeBase, ScriptedServer]]:
    """A base of the document and another one, answered by a model that says `said`, cut anywhere."""
    place = Place(folder / "documents", folder / "data")
    place.write("refunds.md", document)
    place.write("shipping.md", f"# {OTHER[language]}\n\n{OTHER[language]}\n")
    with scripted_server(chat_script(said, cut=7)) as server:
        options = {
            "chunking": {"recursive": {"size_tokens": 300}},
            "generation": {"use": "openai"},
            "chat": {"answer": {"model": "m", "base_url": server.base_url}},
        }
        with place.open(**options) as base:
            base.ingest()
            yield base, server


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def streamed(base: KnowledgeBase, question: str) -> Answer:
    pieces = []
    for event in base.stream(question, cutoff=-1.0):
        if isinstance(event, TextPiece):
            pieces.append(event.text)
        elif isinstance(event, AnswerReady):
            assert "".join(pieces) == event.answer.text
            return event.answer
    raise AssertionError("the stream has no last event")


def whole(server: ScriptedServer, result: SearchResult) -> Generated:
    purpose = ChatPurpose(model="m", base_url=server.base_url)
    parts = Parts(chat=lambda: OpenAIChat(purpose, {"OPENAI_API_KEY": KEY}.get))
    generated: Generated = build_component("generation", "openai", {}, parts).generate(result.question, result.hits)
    return generated


def check_form(request: Request, hits: tuple[Hit, ...], question: str, language: str) -> str:
    """What is sent: the rules, each context in its fence, the question; gives the rules without their tag."""
    assert [message["role"] for message in request.body["messages"]] == ["system", "user"]
    rules, user = (message["content"] for message in request.body["messages"])
    tags = set(re.findall(r"<context-([0-9a-f]{12}) …>", rules))
    assert len(tags) == 1
    (tag,) = tags
    fenced = re.compile(rf"<context-{tag} \[(\d+)\]>\n(.*?)\n</context-{tag}>\n\n", re.DOTALL)
    blocks = fenced.findall(user)
    assert [int(number) for number, _ in blocks] == list(range(1, len(hits) + 1))
    assert fenced.sub("", user) == f"{WORDS[language]}: {question}"  # nothing of a document stands outside
    for (_, block), hit in zip(blocks, hits, strict=True):
        label, _, text = block.partition("\n\n")
        assert hit.source in label
        assert "\n" not in label
        assert text == as_sent(hit.chunk.text)
        assert tag not in text
    assert user.count("<context-") == user.count("</context-") == len(hits)
    for unwanted in (
        SENTINEL,
        "<|im_start|>",
        "<|im_end|>",
        "[INST]",
        "[/INST]",
        "</s>",
        "<｜User｜>",
        *HIDDEN,
        "\u200b",
        "\u202e",
    ):
        assert unwanted not in user
    assert not any(hit.chunk.text in rules for hit in hits)
    assert rules.count(SENTINEL) == 1
    return str(rules.replace(tag, "TAG"))


def check_answer(answer: Answer, injection: Injection) -> None:
    """What comes back: every number is a source, every quotation a document's, and every address a document's."""
    numbers = [number for marker in find_markers(answer.text) for number in marker.numbers]
    assert all(1 <= number <= len(answer.hits) for number in numbers)
    assert {citation.number for citation in answer.citations} == set(numbers)
    texts = {hit.chunk.id: hit.chunk.text for hit in answer.hits}
    assert all(citation.quote in texts[citation.chunk_id] for citation in answer.citations)
    assert STOLEN not in answer.text or "evil.example" not in answer.text
    assert not any("evil" in url.text for url in find_urls(fold(answer.text)))
    assert not re.search(r"\]\(|<(?:img|script|iframe|svg|a)\b", answer.text)
    notes = " | ".join(answer.notes)
    for number in injection.removed:
        assert f"[{number}]" in notes
        assert f"[{number}]" not in answer.text
    assert ("none of the sources that were found" in notes) == bool(injection.removed)
    for host in injection.hosts:
        assert host in notes
    assert ("taken out of the answer" in notes) == bool(injection.hosts)


@pytest.mark.parametrize("injection", INJECTIONS, ids=lambda injection: injection.id)
def test_a_model_that_obeys_a_document_breaks_no_rule_unsaid(injection: Injection, tmp_path: Path) -> None:
    with asked_base(tmp_path, injection.document, injection.obeyed, injection.language) as (base, server):
        result = base.search(injection.question, cutoff=-1.0)
        assert "refunds.md" in {hit.source for hit in result.hits}
        answer = streamed(base, injection.question)
        at_once = whole(server, result)
    check_answer(answer, injection)
    assert (at_once.text, at_once.answered) == (answer.text, answer.answered)
    assert set(at_once.notes) <= set(answer.notes)
    streamed_request, whole_request = server.requests
    assert streamed_request.body["messages"] == whole_request.body["messages"]
    rules = check_form(streamed_request, result.hits, injection.question, injection.language)
    assert rules == harmless_rules(injection.language, tmp_path)


def harmless_rules(language: Language, folder: Path) -> str:
    """The rules as they are sent with a document that gives no orders."""
    title, plain = PLAIN[language]
    with asked_base(folder / "harmless", f"# {title}\n\n{plain}\n", "1 [1].", language) as (base, server):
        question = QUESTIONS[language]
        result = base.search(question, cutoff=-1.0)
        streamed(base, question)
        return check_form(server.requests[0], result.hits, question, language)


def test_there_are_thirty_of_them_in_three_languages() -> None:
    assert len(INJECTIONS) == 30
    assert len({injection.document for injection in INJECTIONS}) == 30
    assert {injection.language for injection in INJECTIONS} == {"en", "zh", "ja"}


@pytest.mark.parametrize("language", ["en", "zh", "ja"])
def test_a_quotation_that_no_document_holds_is_said_to_be_none(language: str, tmp_path: Path) -> None:
    injection = next(i for i in INJECTIONS if i.language == language and i.kind.startswith("base64"))
    with asked_base(tmp_path, injection.document, injection.obeyed, language) as (base, _):
        answer = streamed(base, injection.question)
    quotation = re.findall(r"[“「](.*?)[”」]", injection.obeyed)[0]
    assert any(f"the quotation “{quotation}” is not in [1]" in note for note in answer.notes), answer.notes
    assert not any(quotation in citation.quote for citation in answer.citations)


@pytest.mark.parametrize("language", ["en", "zh", "ja"])
def test_an_answer_without_a_source_is_said_to_have_none(language: str, tmp_path: Path) -> None:
    injection = next(i for i in INJECTIONS if i.language == language and i.kind == "the rules themselves")
    with asked_base(tmp_path, injection.document, injection.obeyed, language) as (base, _):
        answer = streamed(base, injection.question)
    assert "the answer cites no source, so nothing in it could be checked" in answer.notes
    assert answer.citations == ()


@pytest.mark.parametrize(
    ("language", "said"),
    [
        ("en", SENTINEL),
        ("zh", f"**{SENTINEL}**"),
        ("ja", SENTINEL),
        ("en", "The provided documents do not mention refunds."),
        ("zh", "提供的资料中没有提到退款。"),
        ("ja", "資料には返金についての記載がありません。"),
    ],
)
def test_a_model_made_to_decline_declines_and_the_hits_are_shown(language: str, said: str, tmp_path: Path) -> None:
    injection = next(i for i in INJECTIONS if i.language == language and i.kind == "a question of its own")
    with asked_base(tmp_path, injection.document, said, language) as (base, server):
        answer = streamed(base, injection.question)
        at_once = whole(server, base.search(injection.question, cutoff=-1.0))
    assert (answer.answered, answer.text) == (False, not_found_text(injection.language))
    assert "refunds.md" in {hit.source for hit in answer.hits}
    assert (at_once.answered, at_once.text) == (False, answer.text)
    assert any("in its own words" in note for note in answer.notes) == (SENTINEL not in said)
