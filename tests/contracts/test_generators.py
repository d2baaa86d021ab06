"""What every generator promises. A new one is in this suite as soon as its file is in kb/generation."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kb.answers import Generated, Quote
from kb.components import AnswerGenerator
from kb.markers import find_markers
from kb.records import Chunk, Hit
from kb.settings import component_names
from tests.contracts._generators import generator_for

TEXTS = (
    "The reading room closes at six.",
    "Refunds are paid within 30 days.",
    "退款在三十天内支付。",
    "返金は三十日以内に行われます。",
    "Requests per minute are limited.",
)
QUESTIONS = ("When are refunds paid?", "退款什么时候支付？", "返金はいつ行われますか。")
OTHER_MATTERS = ("Which Zebra pipes does Quixley sell?", "Quixley 的星座是什么？", "Quixleyの星座は何ですか。")


def hit(number: int, text: str) -> Hit:
    chunk = Chunk(f"c{number}", f"d{number}", text, 0, len(text))
    return Hit(chunk, f"{number}.md", 0.9 - number / 100, "fused", 0.8, 0.5)


HITS = tuple(hit(number, text) for number, text in enumerate(TEXTS))


@pytest.fixture(scope="module", params=component_names("generation"))
def generator(request: pytest.FixtureRequest) -> Iterator[AnswerGenerator]:
    with generator_for(request.param) as built:
        yield built


def streamed(generator: AnswerGenerator, question: str) -> tuple[list[str | Quote], Generated]:
    stream = generator.stream(question, HITS)
    pieces: list[str | Quote] = []
    while True:
        try:
            pieces.append(next(stream))
        except StopIteration as stop:
            return pieces, stop.value


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_citation_points_at_a_hit_and_every_quote_into_it(generator: AnswerGenerator, question: str) -> None:
    generated = generator.generate(question, HITS)
    assert generated.answered
    numbers = [number for marker in find_markers(generated.text) for number in marker.numbers]
    assert numbers
    assert all(1 <= number <= len(HITS) for number in numbers)
    for number, start, end in generated.quotes:
        assert number in numbers
        assert HITS[number - 1].chunk.text[start:end].strip()


@pytest.mark.parametrize("question", [*QUESTIONS, *OTHER_MATTERS])
def test_whole_and_streamed_are_equal(generator: AnswerGenerator, question: str) -> None:
    pieces, generated = streamed(generator, question)
    whole = generator.generate(question, HITS)
    assert (generated.text, generated.answered, generated.quotes) == (whole.text, whole.answered, whole.quotes)
    assert "".join(piece for piece in pieces if isinstance(piece, str)) == generated.text
    assert tuple(piece for piece in pieces if isinstance(piece, Quote)) == generated.quotes


@pytest.mark.parametrize("question", OTHER_MATTERS)
def test_what_the_hits_do_not_answer_is_not_answered(generator: AnswerGenerator, question: str) -> None:
    generated = generator.generate(question, HITS)
    assert not generated.answered
    assert generated.text.strip()
    assert generated.quotes == ()


def test_without_hits_nothing_is_answered(generator: AnswerGenerator) -> None:
    assert not generator.generate(QUESTIONS[0], ()).answered
    assert generator.name
