from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.errors import LedgerError
from kb.ledger import postings
from kb.ledger.documents import SourceRow
from kb.ledger.ledger import Ledger
from kb.ledger.schema import LEDGER_FILE
from kb.records import Chunk, Document
from tests.hashed_chunks import replace_document


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path) as opened:
        opened.begin_generation("embedder-a", 3)
        yield opened


def put(ledger: Ledger, document_id: str, texts: Sequence[str], header: str = "", generation: int = 1) -> list[str]:
    """A document with one chunk for each text; the ids are `document/text`."""
    text, chunks, start = "\n".join(texts), [], 0
    for one in texts:
        name = f"{document_id}/{one}"
        chunks.append(Chunk(name, document_id, one, start, start + len(one), header=header))
        start += len(one) + 1
    ledger.mark_dirty(generation, [chunk.id for chunk in chunks])
    source = SourceRow(document_id, f"{document_id}.md", 1, 1, "h", "indexed")
    return replace_document(ledger, generation, source, Document(document_id, source.path, text, "", "text"), chunks)


def found(ledger: Ledger, question: str, generation: int = 1, limit: int = 100) -> list[str]:
    return [chunk_id for chunk_id, _ in ledger.find_words(generation, question, limit).ranking]


# What is found


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("The request failed with ERR_429 today.", "err_429"),
        ("The request failed with ERR_429 today.", "what is 429?"),
        ("Deploy v2.3.1 first.", "V2.3.1"),
        ("Write to it-team@example.org", "it-team@example.org"),
        ("the staging/area path", "staging/area"),
        ("Füße und Straße", "STRASSE"),
        ("full-width ＡＢＣ letters", "abc"),
        ("退款政策适用于所有订单", "退款"),
        ("パスワード再設定の手順", "パスワード"),
        ("한국어 문서", "한국어"),
        ("don’t panic", "don't"),
        ("it is what it is", "what is it"),
        ("emoji 🙂 counts for nothing", "emoji 🙂"),
    ],
)
def test_a_chunk_is_found_by_its_words_in_every_script(ledger: Ledger, text: str, question: str) -> None:
    put(ledger, "d", [text])
    put(ledger, "e", ["Something else entirely", "別の文章", "另一个句子"])
    assert found(ledger, question) == [f"d/{text}"]


def test_a_chunk_is_found_by_its_header(ledger: Ledger) -> None:
    put(ledger, "d", ["A passage."], header="Billing › Refunds")
    assert found(ledger, "refunds") == ["d/A passage."]


@pytest.mark.parametrize("question", ["", "   ", "?!…", "zebra", "🙂"])
def test_a_question_without_a_known_word_finds_nothing(ledger: Ledger, question: str) -> None:
    put(ledger, "d", ["A passage about nothing."])
    assert found(ledger, question) == []


def test_at_most_limit_are_given_and_the_best_of_them(ledger: Ledger) -> None:
    put(ledger, "d", [f"{'zebra ' * (number + 1)}{'lion ' * (9 - number)}" for number in range(9)])
    put(ledger, "e", [f"horse {number}" for number in range(20)])
    best = found(ledger, "zebra")
    assert len(best) == 9
    assert found(ledger, "zebra", limit=3) == best[:3]
    assert found(ledger, "zebra", limit=0) == found(ledger, "zebra", limit=-1) == []


# How it ranks


def test_scores_are_bm25_and_fall(ledger: Ledger) -> None:
    put(ledger, "d", ["zebra zebra lion", "zebra horse", "cat", "dog", "cow pig"])
    (first, first_score), (second, second_score) = ledger.find_words(1, "zebra", 10).ranking
    assert (first, second) == ("d/zebra zebra lion", "d/zebra horse")
    # Robertson and Zaragoza, with k1 = 0.6 and b = 0.75: five chunks, two of them with the word; 9 words in all.
    idf, average = math.log((5 - 2 + 0.5) / (2 + 0.5)), 9 / 5

    def weight(frequency: int, length: int) -> float:
        return idf * frequency * (0.6 + 1) / (frequency + 0.6 * (1 - 0.75 + 0.75 * length / average))

    assert first_score == pytest.approx(weight(2, 3))
    assert second_score == pytest.approx(weight(1, 2))


def test_equal_scores_are_ordered_by_id(ledger: Ledger) -> None:
    for name in ("c", "a", "b"):
        put(ledger, name, ["zebra"])
    assert found(ledger, "zebra") == ["a/zebra", "b/zebra", "c/zebra"]


def test_rare_words_count_for_more_than_common_ones(ledger: Ledger) -> None:
    put(ledger, "d", [f"request number {number}" for number in range(20)])
    put(ledger, "e", ["timeout of the gateway"])
    assert found(ledger, "request timeout")[0] == "e/timeout of the gateway"


def test_words_that_say_nothing_are_left_out_of_the_question(ledger: Ledger) -> None:
    put(ledger, "d", ["What is the one for?", "Refunds take a week."])
    assert found(ledger, "what is the refunds for") == ["d/Refunds take a week."]


# In step with the ledger


def test_words_follow_a_replaced_document(ledger: Ledger) -> None:
    put(ledger, "d", ["zebra here", "lion here"])
    put(ledger, "d", ["lion here", "tiger here"])
    assert found(ledger, "zebra") == []
    assert found(ledger, "lion") == ["d/lion here"]
    assert found(ledger, "tiger") == ["d/tiger here"]


def test_a_changed_header_is_searched_at_once(ledger: Ledger) -> None:
    put(ledger, "d", ["A passage."], header="Old")
    put(ledger, "d", ["A passage."], header="New")
    assert found(ledger, "old") == []
    assert found(ledger, "new") == ["d/A passage."]


def test_words_of_a_removed_document_are_gone(ledger: Ledger) -> None:
    put(ledger, "d", ["zebra here"])
    put(ledger, "e", ["zebra there"])
    ledger.remove_documents(1, ["d"])
    assert found(ledger, "zebra") == ["e/zebra there"]


def test_generations_have_words_of_their_own_and_take_them_along(ledger: Ledger, tmp_path: Path) -> None:
    put(ledger, "d", ["zebra old"])
    ledger.complete_generation(1)
    second = ledger.begin_generation("embedder-b", 3).number
    put(ledger, "d", ["zebra new"], generation=second)
    assert found(ledger, "zebra") == ["d/zebra old"]
    assert found(ledger, "zebra", second) == ["d/zebra new"]
    ledger.complete_generation(second)
    assert found(ledger, "zebra") == []
    with sqlite3.connect(tmp_path / LEDGER_FILE) as connection:
        for table in ("word_rows", "word_segments"):
            assert connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone() == (1,)
        assert connection.execute("SELECT term FROM postings").fetchall() == [("new",), ("zebra",)]
    connection.close()


def test_a_transaction_that_fails_leaves_the_words_as_they_were(ledger: Ledger) -> None:
    put(ledger, "d", ["zebra here"])

    def fail() -> None:
        with ledger.transaction():
            put(ledger, "d", ["lion here"])
            put(ledger, "e", ["tiger here"])
            raise LedgerError("undo")

    with pytest.raises(LedgerError, match="undo"):
        fail()
    assert (found(ledger, "zebra"), found(ledger, "lion tiger")) == (["d/zebra here"], [])


def test_words_can_be_searched_while_another_connection_writes(ledger: Ledger, tmp_path: Path) -> None:
    put(ledger, "d", ["zebra here"])
    with Ledger(tmp_path, read_only=True) as reader, ledger.transaction():
        put(ledger, "d", ["lion here"])
        assert found(reader, "zebra") == ["d/zebra here"]


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sets(st.sampled_from(["lion", "zebra", "虎狼", "t_1", "the"]))), max_size=8
    )
)
def test_after_any_edits_each_word_finds_exactly_the_live_chunks_that_hold_it(
    tmp_path_factory: pytest.TempPathFactory, edits: list[tuple[str, set[str]]]
) -> None:
    with Ledger(tmp_path_factory.mktemp("words")) as ledger:
        ledger.begin_generation("embedder-a", 3)
        now: dict[str, set[str]] = {}
        for document_id, words in edits:
            if words:
                put(ledger, document_id, sorted(words))
            else:
                ledger.remove_documents(1, [document_id])
            now[document_id] = words
        for word in ("lion", "zebra", "虎狼", "t_1", "the"):
            assert sorted(found(ledger, word)) == sorted(f"{d}/{word}" for d, words in now.items() if word in words)


def words_of(ledger: Ledger) -> dict[str, list[tuple[str, float]]]:
    return {
        word: ledger.find_words(1, word, 1000).ranking for word in ("lion", "zebra", "虎狼", "t_1", "lion zebra 虎狼")
    }


@pytest.mark.parametrize("gone", [0, 3, 1000])
def test_many_small_edits_end_in_the_same_scores_as_one_large_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: int
) -> None:
    monkeypatch.setattr(postings, "_MOST_SEGMENTS", 3)
    monkeypatch.setattr(postings, "_GONE_CHUNKS", gone)
    texts = {
        f"d{number}": [f"lion {'zebra ' * (number % 5)}", f"虎狼 t_1 {number}", "the lion"] for number in range(30)
    }
    with Ledger(tmp_path / "many") as many, Ledger(tmp_path / "one") as one:
        for ledger in (many, one):
            ledger.begin_generation("embedder-a", 3)
        for number, (document_id, some) in enumerate(texts.items()):
            put(many, document_id, ["lion lion old", *some])
            put(many, document_id, some)
            if number % 3 == 2:
                many.remove_documents(1, [document_id])
            else:
                put(one, document_id, some)
        assert words_of(many) == words_of(one)
        assert (
            many.find_words(1, "lion zebra 虎狼 old", 0).weights == one.find_words(1, "lion zebra 虎狼 old", 0).weights
        )


def test_segments_stay_few_and_the_rows_of_gone_chunks_are_never_given_to_others(
    ledger: Ledger, tmp_path: Path
) -> None:
    for number in range(100):
        put(ledger, f"d{number % 7}", [f"zebra {number}"])
        assert len(found(ledger, "zebra")) == min(number + 1, 7)
    with sqlite3.connect(tmp_path / LEDGER_FILE) as connection:
        ((segments,),) = connection.execute("SELECT COUNT(*) FROM word_segments")
    connection.close()
    assert segments <= postings._MOST_SEGMENTS


# Any question


@given(st.text(alphabet=st.characters(codec=None), max_size=60))
def test_no_question_is_an_error(tmp_path_factory: pytest.TempPathFactory, question: str) -> None:
    with Ledger(tmp_path_factory.mktemp("words")) as ledger:
        ledger.begin_generation("embedder-a", 3)
        ledger.find_words(1, question, 5)


@pytest.mark.parametrize(
    "question",
    ['zebra"', "zebra*", "terms:zebra", "zebra AND", "NEAR(zebra)", "(zebra", "-zebra", "^zebra", "\ud800zebra"],
)
def test_the_search_engines_own_signs_mean_nothing_in_a_question(ledger: Ledger, question: str) -> None:
    put(ledger, "d", ["zebra here"])
    assert found(ledger, question) == ["d/zebra here"]


def test_a_pasted_text_as_a_question_is_answered_quickly(ledger: Ledger) -> None:
    put(ledger, "d", [f"word{number} here" for number in range(2000)])
    started = time.perf_counter()
    assert found(ledger, " ".join(f"word{number}" for number in range(20_000))) != []
    assert time.perf_counter() - started < 5


# What a chunk holds of a question


def test_a_chunk_holds_the_share_of_the_weight_of_the_questions_words_found_or_not(ledger: Ledger) -> None:
    texts = ["zebra lion horse", "zebra zebra", "cat", "虎狼 zebra"]
    put(ledger, "d", texts)
    put(ledger, "gone", ["lion lion"])
    put(ledger, "gone", ["dog"])
    question = "zebra lion 虎狼 unknown"
    for limit in (1, 100):
        words = ledger.find_words(1, question, limit)
        total = sum(words.weights.values())
        held = ledger.held_shares(1, words, [f"d/{text}" for text in texts] + ["gone/lion lion", "nobody"])
        assert held == {
            f"d/{text}": pytest.approx(
                sum(words.weights[word] for word in words.weights if word in text.split()) / total
            )
            for text in texts
        }


def test_a_question_without_words_is_held_by_nothing(ledger: Ledger) -> None:
    put(ledger, "d", ["zebra"])
    assert ledger.held_shares(1, ledger.find_words(1, "?", 5), ["d/zebra"]) == {}
