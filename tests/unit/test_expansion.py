"""Other wordings of a question: read from whatever a model replies, searched together, fused to one list."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from kb.expansion import Expanded, Expander, fuse_wordings, wordings_in
from kb.ledger.words import WordsFound
from kb.recall import Recalled
from kb.records import Chunk, Hit, Step
from kb.services.chat import OpenAIChat
from kb.settings import ChatPurpose, ExpansionSection
from tests.llm_server import Reply, Request, Script, ScriptedServer, chat_reply, chat_script, error_reply

QUESTION = "How long do refunds take?"
THREE = ["When is money paid back?", "What is the time for a refund?", "How many days until a refund?"]


@pytest.mark.parametrize(
    "reply",
    [
        "\n".join(THREE),
        "\n\n".join(f"{n}. {line}" for n, line in enumerate(THREE, 1)),
        "\n".join(f"{n}) “{line}”" for n, line in enumerate(THREE, 1)),
        "Here are three other wordings, as asked!\n"
        + "\n".join(f"- {line}" for line in THREE)
        + "\nI hope this helps.",
        "Sure:\n" + "\n".join(THREE),
        "\r\n".join(f"* **{line}**" for line in THREE),
        "\n".join(f"Question {n}: {line}" for n, line in enumerate(THREE, 1)),
        f"```json\n{json.dumps(THREE)}\n```",
        json.dumps({"wordings": [{"text": THREE[0]}, {"text": THREE[1]}, THREE[2]]}),
        "\n".join([QUESTION, "how long do REFUNDS take", *THREE, THREE[0], *[f"line {n}?" for n in range(1000)]]),
        "\n".join(["", "?", "***", "1.", THREE[0], "x" * 401, *THREE[1:]]),
        "\x1b[31m" + THREE[0] + "\x00\n" + "\n".join(THREE[1:]),
    ],
)
def test_wordings_are_read_from_any_form_of_reply(reply: str) -> None:
    found = wordings_in(reply, QUESTION, 3)
    assert [one.removeprefix("[31m") for one in found] == THREE
    assert all(character.isprintable() for one in found for character in one)


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        ("3.5 mm jack?\nWhich plug?", ("3.5 mm jack?", "Which plug?")),
        ("1．退款要多久？\n2．多少天能退款？", ("退款要多久？", "多少天能退款？")),
        ("①「返金は何日かかりますか」\n②『払い戻しの期間は？』", ("返金は何日かかりますか", "払い戻しの期間は？")),
        ("以下是其他说法：\n退款时间是多长？", ("退款时间是多长？",)),
        ("2FA wird wann verlangt?\nWann?", ("2FA wird wann verlangt?", "Wann?")),
    ],
)
def test_wordings_are_read_in_every_script(reply: str, found: tuple[str, ...]) -> None:
    assert wordings_in(reply, QUESTION, 3) == found


@pytest.mark.parametrize(
    "reply", ["", " \n ", QUESTION, f'"{QUESTION}"', "{}", "[]", "[[[", "[" * 30_000, "null", "12"]
)
def test_a_reply_without_another_wording_gives_none(reply: str) -> None:
    assert wordings_in(reply, QUESTION, 3) == ()


def hit(name: str, similarity: float, rank: int) -> Hit:
    chunk = Chunk(name, name, name, 0, 1)
    return Hit(chunk, name, similarity, "fused", similarity, steps=(Step("fused", rank, similarity),))


def recalled(**similarities: float) -> Recalled:
    ranked = sorted(similarities.items(), key=lambda pair: -pair[1])
    hits = [hit(name, value, rank) for rank, (name, value) in enumerate(ranked, start=1)]
    return Recalled(hits, WordsFound(weights={"w": len(ranked)}))


def test_rankings_of_all_wordings_become_one_by_reciprocal_rank() -> None:
    expanded = [Expanded("q", ("q2", "q3")), Expanded("alone")]
    alone = recalled(z=0.9)
    lists = [recalled(a=0.8, b=0.5), recalled(b=0.9, c=0.7), recalled(c=0.6), alone]
    fused, unchanged = fuse_wordings(lists, expanded, k=10)
    assert unchanged is alone
    assert {one.chunk.id: one.score for one in fused.hits} == {
        "b": pytest.approx(2 / 12 + 1 / 11, abs=1e-6),
        "a": pytest.approx(2 / 11, abs=1e-6),
        "c": pytest.approx(1 / 12 + 1 / 11, abs=1e-6),
    }, "the original counts twice"
    assert [one.chunk.id for one in fused.hits] == ["b", "a", "c"]
    assert [one.similarity for one in fused.hits] == [0.9, 0.8, 0.7], "the highest over the wordings"
    assert fused.words.weights == {"w": 2}, "those of the original"
    assert [[(step.stage, step.rank) for step in one.steps] for one in fused.hits] == [
        [("fused", 2), ("wording 2", 1), ("expanded", 1)],
        [("fused", 1), ("expanded", 2)],
        [("wording 2", 2), ("wording 3", 1), ("expanded", 3)],
    ]


# The service


Serve = Callable[[Script], ScriptedServer]


def expander(server: ScriptedServer, wordings: int = 3) -> Expander:
    purpose = ChatPurpose(model="m", temperature=0.7, base_url=server.base_url, retries=0)
    return Expander(OpenAIChat(purpose, {"OPENAI_API_KEY": "sk-test"}.get), ExpansionSection(wordings=wordings))


def test_the_original_comes_first_and_the_wordings_are_noted(serve: Serve) -> None:
    server = serve(chat_script("\n".join(THREE)))
    (one,) = expander(server, wordings=2).expand([QUESTION])
    assert one.wordings == (QUESTION, *THREE[:2])
    assert one.notes == (f"searched in other wordings too: (2) {THREE[0]}; (3) {THREE[1]}",)
    body = server.requests[0].body
    assert body["temperature"] == 0.7
    assert "Write 2 other wordings" in body["messages"][0]["content"]
    assert body["messages"][1]["content"] == QUESTION


def test_each_question_gets_its_own_wordings_also_when_one_is_refused(serve: Serve) -> None:
    def script(request: Request) -> Reply:
        asked = request.body["messages"][-1]["content"]
        return error_reply(400, "filtered") if asked == "5?" else chat_reply(f"wording of {asked}")

    questions = [f"{n}?" for n in range(20)]
    found = expander(serve(script)).expand(questions)
    assert [one.question for one in found] == questions
    assert [one.others for one in found] == [() if n == 5 else (f"wording of {n}?",) for n in range(20)]
    assert "filtered" in found[5].notes[0]


def test_a_service_that_is_down_is_not_asked_again_for_each_question(serve: Serve) -> None:
    server = serve(lambda request: error_reply(503, "down"))
    found = expander(server).expand([f"{n}?" for n in range(100)])
    assert all(one.others == () for one in found)
    assert all(one.notes[0].startswith("only the question as it was asked was searched: ") for one in found)
    assert len(server.requests) <= 8, "one for each that was on its way"


def test_a_reply_without_wordings_is_noted(serve: Serve) -> None:
    (one,) = expander(serve(chat_script("I cannot help with that:"))).expand([QUESTION])
    assert (one.wordings, one.notes) == ((QUESTION,), ("the model gave no other wording of the question",))
