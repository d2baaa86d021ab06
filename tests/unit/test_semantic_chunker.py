"""Where the semantic chunker cuts, and what it keeps together."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kb.chunking._spans import Budget
from kb.chunking.semantic import Options, SemanticChunker, build
from kb.components import Embedder, Parts, build_component
from kb.errors import ConfigError
from kb.records import BlockKind, Document
from tests.end_to_end._bases import CountingEmbedder
from tests.unit.test_recursive_chunker import markdown, texts, tokens

if TYPE_CHECKING:
    from kb.components import FloatArray

TOPICS = {
    "English": (
        "The parcel leaves our warehouse in the evening. A driver brings it to the sorting centre. "
        "From there it travels overnight by lorry. The next morning a courier delivers it to the door.",
        "Bread dough has to rest before it is baked. Yeast makes it rise in a warm kitchen. "
        "The oven should be very hot at first. A crisp crust forms while the loaf bakes.",
        "Employees get thirty days of annual leave. Holidays are requested from the team lead. "
        "Whoever falls ill on holiday gets those days back. Unused leave expires in March.",
    ),
    "Chinese": (
        "包裹傍晚从仓库发出。司机把它送到分拣中心。夜里货车把它运往另一座城市。第二天早上快递员送货上门。",
        "面团在烘烤之前要先醒发。酵母让面团在温暖的厨房里膨胀。烤箱一开始要烧得很热。烤面包时会形成一层脆皮。",
        "员工每年享有三十天年假。请假要向组长提出申请。休假期间生病的员工可以补回天数。没有用完的年假三月失效。",
    ),
    "Japanese": (
        "荷物は夕方に倉庫を出ます。運転手が仕分けセンターへ運びます。夜の間にトラックで別の街へ送られます。"
        "翌朝、配達員が玄関まで届けます。",
        "パン生地は焼く前に休ませます。酵母が暖かい台所で生地を膨らませます。オーブンは最初とても熱くします。"
        "焼いている間にパリッとした皮ができます。",
        "社員には年に三十日の有給休暇があります。休暇はチームリーダーに申請します。休暇中に病気になった社員は"
        "その日数を取り戻せます。使わなかった休暇は三月に失効します。",
    ),
}


class Topics:
    """An embedder that knows the topic of a text by the first letter of its first word that is a letter alone."""

    name = "topics"
    fingerprint = "topics"
    dimension = 4
    max_tokens = 512
    token_overhead = 0
    cutoff = 0.5
    batch_texts = 8

    def __init__(self) -> None:
        self.sent: list[str] = []

    def count_tokens(self, text: str) -> int:
        return tokens(text)

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        self.sent += texts
        axes = np.eye(self.dimension, dtype=np.float32)
        return np.array([axes["ABCD".index(text.lstrip("#|- \n")[0])] for text in texts], np.float32)

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        return self.embed_documents(texts)


def chunker(embedder: Embedder | None = None, **options: Any) -> SemanticChunker:
    settings = Options(**{"threshold": 0.5, "size_tokens": 30, "min_tokens": 0, "header_tokens": 0, **options})
    budget = Budget(tokens, settings.size_tokens, settings.header_tokens, 512)
    return SemanticChunker(settings, budget, embedder or Topics(), "test")


def said(topics: str, words: int = 4) -> str:
    """A sentence of `words` tokens for each letter, on the topic of that name."""
    return " ".join(f"{topic}{' word' * (words - 2)}." for topic in topics)


def cut(text: str, blocks: Sequence[tuple[BlockKind, str]] = (), **options: Any) -> list[str]:
    return texts(chunker(**options).chunk(markdown(text, blocks)))


def topics_of(chunks: Sequence[str]) -> list[str]:
    return ["".join(character for character in chunk if character in "ABCD") for chunk in chunks]


def hashing() -> Parts:
    """What a chunker is lent with `[embedding] use = "hashing"`."""
    embedder = build_component("embedding", "hashing", {}, Parts())
    return Parts(embedder=embedder, count_tokens=embedder.count_tokens)


# Topics


@pytest.fixture(scope="module")
def e5() -> Embedder:
    embedder: Embedder = build_component("embedding", "e5", {}, Parts())
    return embedder


@pytest.mark.parametrize("language", TOPICS)
def test_a_chunk_begins_where_the_topic_changes(language: str, e5: Any) -> None:
    between = " " if language == "English" else ""
    parts = Parts(embedder=e5, count_tokens=e5.count_tokens)
    found = build(Options(min_tokens=24), parts).chunk(
        Document("d", "d.txt", between.join(TOPICS[language]), "", "text")
    )
    assert texts(found) == list(TOPICS[language])


@pytest.mark.parametrize("threshold", [-1.0, 1.0, 0.8])
def test_a_threshold_compares_neighbouring_sentences(threshold: float) -> None:
    expected = {-1.0: ["AABBA"], 1.0: ["AA", "BB", "A"], 0.8: ["AA", "BB", "A"]}
    assert topics_of(cut(said("AABBA"), threshold=threshold)) == expected[threshold]


def test_the_guides_threshold_is_that_of_its_model_only() -> None:
    small, other = Topics(), Topics()
    small.name = "openai:text-embedding-3-small"
    assert "below=0.8 window=1" in chunker(small, threshold="auto").fingerprint
    assert "below=20.0% window=4" in chunker(other, threshold="auto").fingerprint
    assert "below=0.3 window=1" in chunker(small, threshold=0.3).fingerprint


def test_the_percentile_is_of_each_documents_own_similarities() -> None:
    text = said("AAAAABBBBBAAAAA")
    assert topics_of(cut(text, threshold="auto", size_tokens=300)) == ["AAAAA", "BBBBB", "AAAAA"]
    assert topics_of(cut(text, threshold="auto", percentile=0, size_tokens=300)) == ["AAAAABBBBBAAAAA"]
    assert topics_of(cut(said("A" * 15), threshold="auto", percentile=100, size_tokens=300)) == ["A" * 15]


def test_one_strange_sentence_is_no_change_of_topic_for_the_percentile() -> None:
    text = said("AAAAACAAAAABBBBB")
    assert topics_of(cut(text, threshold="auto", percentile=10, size_tokens=300)) == ["AAAAACAAAAA", "BBBBB"]
    assert topics_of(cut(text, threshold=0.5, size_tokens=300)) == ["AAAAA", "C", "AAAAA", "BBBBB"]


@pytest.mark.parametrize("text", ["", "\n \n", "***", "- - -\n\n* * *"])
def test_what_says_nothing_is_not_embedded(text: str) -> None:
    embedder = Topics()
    chunker(embedder).chunk(markdown(text))
    assert embedder.sent == []


def test_a_rule_between_sentences_of_one_topic_does_not_part_them() -> None:
    assert cut(f"{said('AA')}\n\n---\n\n{said('A')}") == [f"{said('AA')}\n\n---\n\n{said('A')}"]


# Size


def test_what_is_on_one_topic_is_cut_at_the_cap() -> None:
    chunks = cut(said("A" * 40))
    assert "".join(topics_of(chunks)) == "A" * 40
    assert all(15 <= tokens(chunk) <= 30 for chunk in chunks)


def test_what_is_too_large_is_cut_where_both_sides_are_least_alike() -> None:
    """The first half of the cap is not given up for it."""
    assert topics_of(cut(said("ABAAABAAAA"), threshold=-1.0)) == ["ABAAAB", "AAAA"]


def test_a_change_of_topic_is_passed_over_when_a_side_would_be_small() -> None:
    assert topics_of(cut(said("ABBBBA"), min_tokens=8)) == ["ABBBBA"]
    assert topics_of(cut(said("AABBBBAA"), min_tokens=8)) == ["AA", "BBBB", "AA"]


def test_a_sentence_longer_than_a_chunk_is_taken_apart_before_it_is_embedded() -> None:
    embedder = Topics()
    text = "A " + ", ".join(["B C"] * 60) + ". " + said("DD")
    chunks = chunker(embedder).chunk(markdown(text))
    assert max(map(tokens, texts(chunks))) <= 30
    assert max(map(tokens, embedder.sent)) <= 30
    assert "".join(texts(chunks)).replace(" ", "") == text.replace(" ", "")


# Structure


def test_headings_begin_chunks_and_belong_to_what_follows_them() -> None:
    text = f"# A\n\n## A one\n\n{said('AA')}\n\n## A two\n\n{said('AA')}\n\n# A three\n"
    chunks = chunker(min_tokens=4).chunk(markdown(text))
    assert [chunk.text.split("\n")[0] for chunk in chunks] == ["# A", "## A two", "# A three"]
    assert [chunk.heading_path for chunk in chunks] == [("A", "A one"), ("A", "A two"), ("A three",)]


def test_a_tiny_section_goes_with_the_next_but_not_with_one_of_a_higher_rank() -> None:
    text = f"## A\n\n{said('A')}\n\n## A two\n\n{said('A')}\n\n# B\n\n{said('B')}"
    assert topics_of(cut(text, min_tokens=8)) == ["AAAA", "BB"]


def test_a_tiny_last_section_goes_with_the_one_before() -> None:
    text = f"# A\n\n{said('AA')}\n\n## A two\n\n{said('A')}"
    assert topics_of(cut(text, min_tokens=9)) == ["AAAAA"]


ROWS = "| A | 1 |\n|---|---|\n| B | 2 |\n| C | 3 |"


@pytest.mark.parametrize(("kind", "block"), [("table", ROWS), ("list", "- A one\n- B two\n- C three")])
def test_a_block_that_fits_is_not_cut_and_counts_as_one(kind: BlockKind, block: str) -> None:
    text = f"{said('AA')}\n\n{block}\n\n{said('BB')}"
    assert cut(text, [(kind, block)], size_tokens=40) == [f"{said('AA')}\n\n{block}", said("BB")]


def test_a_block_stays_with_the_line_that_announces_it() -> None:
    announced = f"{said('AA')} B follows:\n\n{ROWS}"
    assert cut(f"{announced}\n\n{said('BB')}", [("table", ROWS)], size_tokens=50) == [
        said("AA"),
        f"B follows:\n\n{ROWS}",
        said("BB"),
    ]


def test_a_table_larger_than_a_chunk_is_cut_between_rows_with_its_head_repeated() -> None:
    table = "| A | no |\n|---|---|\n" + "\n".join(f"| A{row} | {row} |" for row in range(20))
    chunks = chunker(size_tokens=40, header_tokens=20).chunk(markdown(f"{said('AA')}\n\n{table}", [("table", table)]))
    assert all(line.startswith("|") and line.endswith("|") for chunk in chunks[1:] for line in chunk.text.split("\n"))
    assert all("| A | no |" in chunk.embedded_text for chunk in chunks[1:])


def test_a_heading_inside_code_does_not_cut_it() -> None:
    code = "```\n# A comment\nB = 1\n```"
    document = markdown(f"{said('AA')}\n\n{code}", [("code", code)])
    assert document.headings != ()
    assert f"{said('AA')}\n\n{code}" in texts(build(Options(), hashing()).chunk(document))


# Any embedder, any length


def test_a_long_text_is_cut_in_linear_time_within_the_cap_and_always_alike() -> None:
    dice = random.Random(7)
    names = ["gateway", "window", "limit", "request", "answer", "token", "retry", "ledger", "store", "chunk"]
    sentences = [" ".join(dice.choices(names, k=dice.randint(3, 40))).capitalize() + "." for _ in range(4000)]
    built = build(Options(), hashing())

    def seconds(number: int) -> float:
        started = time.process_time()
        built.chunk(markdown(" ".join(sentences[:number])))
        return time.process_time() - started

    assert seconds(4000) < 8 * seconds(1000)
    document = markdown(" ".join(sentences[:1000]))
    chunks = built.chunk(document)
    assert chunks == build(Options(), hashing()).chunk(document)
    assert max(map(tokens, texts(chunks))) <= 300
    assert sum(map(tokens, texts(chunks))) == tokens(document.text)


def test_sentences_are_embedded_by_the_batch() -> None:
    embedder = CountingEmbedder(batch_texts=8)
    chunker(embedder).chunk(markdown(said("ABCD" * 5)))
    assert embedder.requests == 3


def test_a_chunk_that_could_not_be_embedded_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match=r"\[chunking\.semantic\] size_tokens = 500"):
        build(Options(size_tokens=500), hashing())


def test_the_fingerprint_holds_every_option() -> None:
    changes: list[dict[str, Any]] = [{}, {"threshold": 0.3}, {"percentile": 10}, {"size_tokens": 40}]
    changes += [{"min_tokens": 5}, {"header_tokens": 9}]
    assert {key for change in changes for key in change} == set(Options.model_fields)
    assert len({build(Options(**change), hashing()).fingerprint for change in changes}) == len(changes)


def test_the_fingerprint_holds_the_embedder() -> None:
    parts = hashing()
    other = build_component("embedding", "hashing", {"dimension": 64}, Parts())
    lent = Parts(embedder=other, count_tokens=other.count_tokens)
    assert build(Options(), parts).fingerprint != build(Options(), lent).fingerprint
