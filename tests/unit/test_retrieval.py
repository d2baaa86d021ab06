from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kb.background import Background
from kb.base import Base
from kb.components import Embedder, Parts, Store, StorePlace, StoreRow, build_component
from kb.ledger.documents import SourceRow
from kb.ledger.hashes import text_hash
from kb.ledger.ledger import Ledger
from kb.recall import Recall
from kb.records import Chunk, Document, Dropped, Hit, Reranked, SearchResult
from kb.retrieval import Retriever
from kb.settings import KeywordSection, RetrievalSection
from tests.hashed_chunks import replace_document

ANIMALS = {
    "zebra.md": ["The zebra has stripes.", "A zebra eats grass in the savanna.", "Herds move with the rain."],
    "lion.md": ["The lion eats the zebra.", "A lion sleeps in the shade of a tree.", "Its roar is heard for miles."],
    "codes.md": ["ERR_429 means too many requests.", "Wait, then send the request again."],
    "中文.md": ["退款需要七天。", "密码可以重置。"],
}
QUESTIONS = ["Does the zebra eat grass?", "What does ERR_429 mean?", "退款要几天？", "quarterly revenue"]


class Unsampled(Base):
    """Takes nothing off that is common to a script."""

    background = Background({})


class Collection:
    """A ledger and a store in step, without an ingest."""

    def __init__(self, folder: Path) -> None:
        self.embedder: Embedder = build_component("embedding", "hashing", {}, Parts())
        self.ledger = Ledger(folder)
        self.generation = self.ledger.begin_generation(self.embedder.fingerprint, self.embedder.dimension).number
        place = StorePlace(folder / "store", "kb", "kb", self.embedder.fingerprint, self.embedder.dimension)
        self.store: Store = build_component("store", "memory", {}, Parts(place=place))

    def put(self, source: str, texts: Sequence[str], *, discard: bool = True) -> None:
        """Write a document in the ingest's order; without `discard` it is killed after the flip."""
        text, chunks, start = "\n".join(texts), [], 0
        for number, one in enumerate(texts):
            chunks.append(Chunk(f"{source}:{number}:{one}", source, one, start, start + len(one)))
            start += len(one) + 1
        vectors = self.embedder.embed_documents(texts)
        keys = [text_hash(chunk.embedded_text) for chunk in chunks]
        self.ledger.put_vectors(self.embedder.fingerprint, zip(keys, vectors, strict=True))
        self.ledger.mark_dirty(self.generation, [chunk.id for chunk in chunks])
        self.store.upsert([StoreRow(chunk, source, vector) for chunk, vector in zip(chunks, vectors, strict=True)])
        row = SourceRow(source, source, 1, 1, "h", "indexed")
        stale = replace_document(self.ledger, self.generation, row, Document(source, source, text, "", "text"), chunks)
        if discard:
            self.store.delete(stale)
            self.ledger.forget_rows(self.generation, stale)

    def retriever(
        self,
        *,
        keyword: bool = True,
        fusion: str = "score",
        rerank: Any = None,
        sampled: bool = False,
        exact_up_to: int = 0,
        **retrieval: Any,
    ) -> Retriever:
        """A retriever; with `sampled` it takes off what is common to each script."""
        opened = Base if sampled else Unsampled
        recall = Recall(
            embedder=self.embedder,
            base=opened(self.store, self.ledger, self.generation, self.embedder.fingerprint, exact_up_to),
            keyword=KeywordSection.model_validate(
                {"enabled": keyword, "fusion": fusion, "candidates": retrieval.get("candidates", 50)}
            ),
        )
        return Retriever(
            recall,
            rerank or build_component("rerank", "none", {}, Parts()),
            RetrievalSection(**retrieval),
            reranked=1000,
        )

    def similarity(self, question: str, text: str) -> float:
        ((asked,), (passage,)) = self.embedder.embed_queries([question]), self.embedder.embed_documents([text])
        return float(asked @ passage)


class Reversing:
    """A reranker that turns the order round, and leaves out all but the `most` best."""

    def __init__(self, most: int) -> None:
        self._most = most

    def rerank(self, question: str, hits: Sequence[Hit]) -> Reranked:
        ranked = [replace(hit, score=float(number), scored_by="judge") for number, hit in enumerate(hits)]
        return Reranked(tuple(reversed(ranked))[: self._most], ("turned round",), "interval")


@pytest.fixture
def base(tmp_path: Path) -> Iterator[Collection]:
    base = Collection(tmp_path)
    for source, texts in ANIMALS.items():
        base.put(source, texts)
    yield base
    base.store.close()
    base.ledger.close()


def one(retriever: Retriever, question: str, **how: Any) -> SearchResult:
    (result,) = retriever.search_many([question], **how)
    return result


def texts(hits: Sequence[Hit | Dropped]) -> list[str]:
    return [(hit.hit if isinstance(hit, Dropped) else hit).chunk.text for hit in hits]


# What a hit says


@pytest.mark.parametrize("keyword", [False, True])
@pytest.mark.parametrize("question", QUESTIONS)
def test_every_hit_carries_the_cosine_whoever_found_it(base: Collection, question: str, keyword: bool) -> None:
    # One neighbour is asked for, and ten spare ones come along: the rest is found by words alone.
    for number in range(30):
        base.put(f"filler{number}.md", [f"{question} filler {number}"])
    result = one(base.retriever(keyword=keyword, candidates=20), question, cutoff=-1.0)
    assert len(result.hits) == 5
    for hit in (*result.hits, *(dropped.hit for dropped in result.dropped)):
        assert hit.similarity == pytest.approx(base.similarity(question, hit.chunk.text), abs=2e-6)
        assert hit.scored_by == ("fused" if keyword else "dense")
        assert keyword or hit.score == hit.similarity


def test_a_chunk_that_only_its_words_found_is_there_with_its_cosine(base: Collection) -> None:
    for number in range(40):
        base.put(f"filler{number}.md", [f"grass grass grass in the savanna {number}"])
    question = "grass of the savanna, grass grass; and roar"
    by_vector = one(base.retriever(keyword=False, candidates=5), question, top_k=5, cutoff=-1.0)
    roar = "Its roar is heard for miles."
    assert roar not in texts([*by_vector.hits, *by_vector.dropped])
    found = one(base.retriever(candidates=5), question, top_k=5, cutoff=-1.0)
    candidates = [*found.hits, *(dropped.hit for dropped in found.dropped)]
    (hit,) = [hit for hit in candidates if hit.chunk.text == roar]
    assert hit.similarity == pytest.approx(base.similarity(question, roar), abs=2e-6)
    assert hit.source == "lion.md"


@pytest.mark.parametrize("fusion", ["score", "rank"])
def test_scores_fall_and_the_fused_score_counts_both_rankings(base: Collection, fusion: str) -> None:
    result = one(base.retriever(fusion=fusion), "zebra grass savanna", cutoff=-1.0)
    scores = [hit.score for hit in result.hits]
    assert scores == sorted(scores, reverse=True)
    best = result.hits[0]
    assert best.chunk.text == "A zebra eats grass in the savanna."
    if fusion == "rank":
        assert best.score == pytest.approx(1 / (10 + 1) + 1 / (10 + 1), abs=1e-6), "first by vector and by words"
    else:
        assert best.similarity < best.score < best.similarity + 1.0, "and the weight of the words is 1"


@pytest.mark.parametrize(
    ("question", "counts"),
    [("zebra grass", "weight"), ("密码重置", "weight_unspaced"), ("パスワード密码", "weight_unspaced")],
)
def test_words_count_by_the_weight_of_the_questions_script(base: Collection, question: str, counts: str) -> None:
    found = []
    for weight in (0.0, 2.0):
        retriever = base.retriever()
        changed = retriever.recall.keyword.model_copy(update={"weight": 0.1, "weight_unspaced": 0.1, counts: weight})
        changed_recall = replace(retriever.recall, keyword=changed)
        found.append(one(replace(retriever, recall=changed_recall), question, cutoff=-1.0).hits[0])
    without, with_words = found
    assert without.score == pytest.approx(without.similarity, abs=1e-5)
    assert with_words.score > with_words.similarity + 0.1


# What is left out, and why


@pytest.mark.parametrize("cutoff", [-1.0, 0.1, 0.3, 1.0])
@pytest.mark.parametrize("top_k", [1, 3, 100])
@pytest.mark.parametrize("most", [2, 1000])
@pytest.mark.parametrize("sampled", [False, True])
def test_every_candidate_is_a_hit_or_dropped_for_one_reason(
    base: Collection, cutoff: float, top_k: int, most: int, sampled: bool
) -> None:
    def kept_for_its_code(hit: Hit) -> bool:
        return any(step.stage == "identifier" for step in hit.steps)

    retriever = base.retriever(rerank=Reversing(most), sampled=sampled)
    for result in retriever.search_many(QUESTIONS, top_k=top_k, cutoff=cutoff):
        hits, dropped = [hit.chunk.id for hit in result.hits], [found.hit.chunk.id for found in result.dropped]
        assert len(hits) <= min(top_k, most)
        assert sorted(hits + dropped) == sorted({*hits, *dropped}), "each once"
        assert len(hits + dropped) == sum(map(len, ANIMALS.values())), "all ten chunks are candidates here"
        assert all(hit.similarity >= cutoff for hit in result.hits if "ERR_429" not in hit.chunk.text)
        for found in result.dropped:
            below = found.hit.similarity < cutoff and not kept_for_its_code(found.hit)
            assert found.reason.startswith("similarity") == below
            assert below or "reranker" in found.reason or f"top_k is {top_k}" in found.reason


def test_reasons_say_by_how_much(base: Collection) -> None:
    result = one(base.retriever(), QUESTIONS[0], top_k=1, cutoff=0.2)
    reasons = [found.reason for found in result.dropped]
    assert "rank 2, and top_k is 1" in reasons
    assert any(reason.endswith("is below the cutoff 0.200") for reason in reasons)


def test_a_reranker_has_the_last_word_on_order_and_its_notes_are_passed_on(base: Collection) -> None:
    plain = one(base.retriever(), QUESTIONS[0], top_k=100, cutoff=0.0)
    turned = one(base.retriever(rerank=Reversing(2)), QUESTIONS[0], top_k=1, cutoff=0.0)
    assert texts(turned.hits) == texts(plain.hits)[::-1][:1]
    assert (turned.hits[0].scored_by, turned.notes) == ("judge", ("turned round",))
    assert [found.reason for found in turned.dropped].count("rank 2, and top_k is 1") == 1


def test_the_cutoff_keeps_what_is_exactly_on_it(base: Collection) -> None:
    best = one(base.retriever(), QUESTIONS[0], cutoff=-1.0).best_score
    assert best is not None
    assert len(one(base.retriever(), QUESTIONS[0], cutoff=best).hits) == 1
    assert one(base.retriever(), QUESTIONS[0], cutoff=best + 1e-6).hits == ()


def test_auto_is_the_embedders_own_cutoff_a_number_overrides_it_and_an_argument_both(base: Collection) -> None:
    assert one(base.retriever(), "zebra").cutoff == base.embedder.cutoff
    assert one(base.retriever(cutoff=0.5), "zebra").cutoff == 0.5
    assert one(base.retriever(cutoff=0.5), "zebra", cutoff=0.0).cutoff == 0.0


def test_top_k_is_the_settings_unless_given(base: Collection) -> None:
    assert len(one(base.retriever(top_k=2), "zebra", cutoff=-1.0).hits) == 2
    assert len(one(base.retriever(top_k=2), "zebra", cutoff=-1.0, top_k=4).hits) == 4
    assert len(one(base.retriever(candidates=1, keyword=False), "zebra", cutoff=-1.0, top_k=4).hits) == 4


def test_the_best_score_is_the_best_similarity_of_all_candidates_cut_or_not(base: Collection) -> None:
    for cutoff in (-1.0, 1.0):
        result = one(base.retriever(), QUESTIONS[1], cutoff=cutoff)
        assert result.best_score == pytest.approx(
            max(base.similarity(QUESTIONS[1], text) for text in itertools.chain(*ANIMALS.values())), abs=2e-6
        )


def test_a_cutoff_that_empties_a_list_with_a_clear_best_says_what_would_help(base: Collection) -> None:
    result = one(base.retriever(), "zebra stripes", cutoff=0.99)
    assert (result.hits, len(result.notes)) == ((), 1)
    assert result.best_score is not None
    assert f"--cutoff {result.best_score - 0.05:.2f}" in result.notes[0]
    helped = one(base.retriever(), "zebra stripes", cutoff=result.best_score - 0.05)
    assert texts(helped.hits) == ["The zebra has stripes."]
    assert helped.notes == ()


def test_no_help_is_offered_when_nothing_stands_out(tmp_path: Path) -> None:
    base = Collection(tmp_path)
    base.put("a.md", ["zebra one", "zebra two", "zebra three"])
    result = one(base.retriever(), "zebra", cutoff=0.99)
    assert (result.hits, result.notes) == ((), ())


@pytest.mark.parametrize("text", ["ERR_429 means too many requests.", "Wait, then send the request again."])
def test_a_chunk_with_the_questions_code_is_kept_whatever_its_similarity_unless_told_otherwise(
    base: Collection, text: str
) -> None:
    for kept in (True, False):
        result = one(base.retriever(keep_identifiers=kept), "How do I get rid of err_429?", cutoff=0.9)
        expected = kept and "ERR_429" in text
        assert (text in texts(result.hits)) == expected
        assert all(hit.steps[-1].stage == "identifier" for hit in result.hits)


@pytest.mark.parametrize("keyword", [False, True])
def test_a_hit_says_what_each_stage_said_of_it(base: Collection, keyword: bool) -> None:
    retriever = base.retriever(keyword=keyword, rerank=Reversing(1000))
    result = one(retriever, "zebra grass savanna", top_k=100, cutoff=-1.0)
    stages = ["dense", "keyword", "fused", "judge"] if keyword else ["dense", "judge"]
    by_stage: dict[str, list[int]] = {stage: [] for stage in stages}
    for place, hit in enumerate(result.hits, start=1):
        for step in hit.steps:
            by_stage[step.stage].append(step.rank)
        assert (hit.steps[-1].rank, hit.steps[-1].score) == (place, hit.score)
        assert hit.steps[0].score == hit.similarity
    for ranks in by_stage.values():
        assert sorted(ranks) == list(range(1, len(ranks) + 1))


def test_only_so_many_are_reranked_and_the_rest_is_left_out(base: Collection) -> None:
    retriever = replace(base.retriever(rerank=Reversing(1000)), reranked=3)
    plain = one(base.retriever(), QUESTIONS[0], top_k=100, cutoff=-1.0)
    result = one(retriever, QUESTIONS[0], top_k=100, cutoff=-1.0)
    assert texts(result.hits) == texts(plain.hits)[2::-1]
    assert [found.reason for found in result.dropped] == [f"rank {n}, and 3 are reranked" for n in range(4, 11)]


class Failing:
    """A reranker whose service is down."""

    def rerank(self, question: str, hits: Sequence[Hit]) -> Reranked:
        return Reranked(tuple(hits), ("the reranker failed",))


def test_a_reranker_that_fails_leaves_retrievals_order_with_all_that_follows(base: Collection) -> None:
    plain = one(base.retriever(), QUESTIONS[0], top_k=100, cutoff=-1.0)
    result = one(replace(base.retriever(rerank=Failing()), reranked=3), QUESTIONS[0], top_k=100, cutoff=-1.0)
    assert (result.hits, result.notes) == (plain.hits, ("the reranker failed",))


def test_grouped_by_document_the_best_chunk_stands_for_it(base: Collection) -> None:
    plain = one(base.retriever(), QUESTIONS[0], top_k=100, cutoff=-1.0)
    grouped = one(base.retriever(group_by="document"), QUESTIONS[0], top_k=3, cutoff=-1.0)
    assert [hit.source for hit in grouped.hits] == list(dict.fromkeys(hit.source for hit in plain.hits))[:3]
    assert set(texts(grouped.hits)) <= set(texts(plain.hits))
    assert len(grouped.hits) + len(grouped.dropped) == len(plain.hits)


# Only what is live


@pytest.mark.parametrize("keyword", [False, True])
@pytest.mark.parametrize("sampled", [False, True])
def test_a_chunk_that_is_not_live_is_never_shown(base: Collection, keyword: bool, sampled: bool) -> None:
    base.put("zebra.md", ["The zebra has spots."], discard=False)
    assert base.store.count() == 11, "the three old ones are still in the store"
    result = one(base.retriever(keyword=keyword, sampled=sampled), "The zebra has stripes", cutoff=-1.0, top_k=100)
    shown = texts([*result.hits, *result.dropped])
    assert "The zebra has spots." in shown
    assert not set(ANIMALS["zebra.md"]) & set(shown)
    assert len(shown) == 8


def test_stale_rows_however_many_hide_no_live_chunk(base: Collection) -> None:
    base.put("zebra.md", [f"The zebra has stripes, number {number}." for number in range(200)])
    base.put("zebra.md", ["The zebra has spots."], discard=False)
    assert base.store.count() > 200
    result = one(base.retriever(keyword=False, candidates=3), "The zebra has stripes, number 7.", cutoff=-1.0, top_k=3)
    assert len(result.hits) == 3
    assert result.hits[0].chunk.text == "The zebra has spots."


def test_neighbours_are_as_many_as_the_candidates(base: Collection) -> None:
    result = one(base.retriever(keyword=False, candidates=3), "zebra", cutoff=-1.0, top_k=2)
    assert (len(result.hits), len(result.dropped)) == (2, 1)


def test_an_empty_collection_finds_nothing(tmp_path: Path) -> None:
    result = one(Collection(tmp_path).retriever(), "zebra")
    assert (result.hits, result.dropped, result.best_score, result.notes) == ((), (), None, ())


# Several questions


@pytest.mark.parametrize("keyword", [False, True])
@pytest.mark.parametrize("sampled", [False, True])
def test_many_questions_at_once_find_what_each_alone_finds(base: Collection, keyword: bool, sampled: bool) -> None:
    retriever = base.retriever(keyword=keyword, sampled=sampled)
    questions = [*QUESTIONS, "", QUESTIONS[0], "  \n", QUESTIONS[2]]
    together = retriever.search_many(questions)
    assert [result.question for result in together] == questions
    assert together == tuple(one(retriever, question) for question in questions)


@pytest.mark.parametrize("blank", ["", "   ", "\n\t", "\u3000"])
def test_a_blank_question_finds_nothing_and_says_so(base: Collection, blank: str) -> None:
    result = one(base.retriever(), blank)
    assert (result.question, result.hits, result.dropped, result.best_score) == (blank, (), (), None)
    assert result.notes == ("the question is empty",)
    assert base.retriever().search_many([]) == ()


def test_a_question_is_embedded_once_and_blank_ones_never(base: Collection) -> None:
    asked: list[str] = []

    class Noting:
        """The same embedder, which notes what it is asked."""

        def __getattr__(self, name: str) -> Any:
            return getattr(inner, name)

        def embed_queries(self, questions: Sequence[str]) -> Any:
            asked.extend(questions)
            assert questions, "an embedder that is asked for nothing may load its model for it"
            return inner.embed_queries(questions)

    inner = base.embedder
    plain = base.retriever()
    retriever = replace(plain, recall=replace(plain.recall, embedder=Noting()))
    retriever.search_many(["", "zebra", "lion", "zebra"])
    retriever.search_many(["", " "])
    assert asked == ["zebra", "lion"]


def test_similarity_stays_within_one_even_for_the_same_text(base: Collection) -> None:
    text = ANIMALS["zebra.md"][0]
    best = one(base.retriever(), text, cutoff=-1.0).best_score
    assert best == 1.0
    assert np.isfinite(best)


# A small collection is compared as a whole


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("sampled", [False, True])
def test_the_ledgers_vectors_find_what_the_store_finds(base: Collection, question: str, sampled: bool) -> None:
    by_store = one(base.retriever(sampled=sampled, candidates=3), question)
    assert one(base.retriever(sampled=sampled, candidates=3, exact_up_to=10), question) == by_store
    assert one(base.retriever(sampled=sampled, candidates=3, exact_up_to=9), question) == by_store


def test_only_a_collection_that_is_small_enough_leaves_the_store_alone(base: Collection) -> None:
    expected = one(base.retriever(), "zebra")
    base.store.delete([hit.chunk.id for hit in expected.hits])
    assert one(base.retriever(exact_up_to=10, keyword=False), "zebra").hits, "the ledger has them"
    assert one(base.retriever(exact_up_to=10), "zebra") == expected
    assert one(base.retriever(exact_up_to=9), "zebra") != expected
