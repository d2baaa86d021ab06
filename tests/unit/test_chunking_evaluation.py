"""The chunking evaluation: its measures on cases worked out by hand, and whole runs in three languages."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kb.embedding.hashing import HashingEmbedder
from kb.errors import ConfigError, KbError, LoadError, RefusedError
from kb.evaluation._retrieval_data import Half
from kb.evaluation._vectors import KnownVectors
from kb.evaluation.chunking import ChunkingResult, Question, evaluate, load_data, score
from kb.ingest.paid_embedding import PaidEmbedding
from kb.knowledge_base import KnowledgeBase
from kb.ledger.ledger import Ledger, collection_names
from pipelines import evaluate as command

if TYPE_CHECKING:
    from kb.components import FloatArray

Span = tuple[int, int]

CONFIG = """
[embedding]
use = "hashing"
[chunking.recursive]
size_tokens = 16
min_tokens = 0
[retrieval]
cutoff = -1.0
[store]
use = "memory"
[loading]
isolated = false
"""

# Sentences of one length in each language, of which two do not fit a chunk: five are five times as long as one.
FRAMES = {
    "en": "{} like to sleep beside quiet {} at night.",
    "zh": "{}喜欢在{}边安静地睡觉。",
    "ja": "{}はいつも{}のそばで眠る。",
}
PAIRS = {
    "en": "cows lakes,hens barns,cats walls,dogs doors,owls towns,bats caves,rats ships,pigs farms",
    "zh": "鹤 湖,牛 河,猫 墙,狗 门,马 路,羊 山,鱼 石,鸡 树",
    "ja": "鶴 湖,牛 川,猫 壁,犬 門,馬 道,羊 山,魚 石,鶏 木",
}
SENTENCES = {name: [frame.format(*pair.split()) for pair in PAIRS[name].split(",")] for name, frame in FRAMES.items()}
QUESTIONS = {"en": "Beside which walls do cats sleep?", "zh": "猫在哪个墙边睡觉？", "ja": "猫はどの壁のそばで眠る？"}
ASKED = 2
"""Which of the sentences answers the question."""


# ------------------------------------------------------------------------------------------- the measures


def measured(references: Sequence[Span], *retrieved: Span, elsewhere: Sequence[Span] = ()) -> tuple[float, ...]:
    """Recall, precision and IoU of what was retrieved of the questions' corpus, and elsewhere."""
    places = [("here", span) for span in retrieved] + [("elsewhere", span) for span in elsewhere]
    return tuple(score(Question("?", "here", tuple(references)), places))


def test_a_chunk_that_holds_more_than_the_reference_has_full_recall_and_less_precision() -> None:
    assert measured([(10, 20)], (0, 40)) == (10 / 10, 10 / 40, 10 / 40)


def test_what_is_missing_of_a_reference_lowers_recall_and_iou() -> None:
    assert measured([(10, 30)], (0, 20)) == (10 / 20, 10 / 20, 10 / (20 + 10))


def test_a_reference_in_two_chunks_is_found_in_both_parts() -> None:
    assert measured([(10, 30)], (0, 20), (20, 40)) == (20 / 20, 20 / 40, 20 / 40)


def test_chunks_that_overlap_count_each_in_the_denominators_and_once_as_found() -> None:
    assert measured([(5, 15)], (0, 20), (5, 25)) == (10 / 10, 10 / 40, 10 / 40)
    assert measured([(5, 15), (22, 32)], (0, 20), (5, 25)) == (13 / 20, 13 / 40, 13 / (40 + 7))


def test_a_chunk_retrieved_twice_counts_twice_in_the_denominators_only() -> None:
    assert measured([(0, 10)], (0, 20), (0, 20)) == (10 / 10, 10 / 40, 10 / 40)


def test_several_references_are_one_amount_of_characters() -> None:
    assert measured([(0, 10), (50, 70)], (0, 20)) == (10 / 30, 10 / 20, 10 / (20 + 20))
    assert measured([(0, 10), (50, 70)], (45, 75), (0, 20)) == (30 / 30, 30 / 50, 30 / 50)


def test_references_that_overlap_count_each_in_the_denominator_of_recall() -> None:
    assert measured([(0, 10), (5, 15)], (0, 15)) == (15 / 20, 15 / 15, 15 / 15)


def test_nothing_found_is_zero_whether_chunks_end_before_or_there_are_none() -> None:
    assert measured([(10, 20)], (0, 10), (20, 30)) == (0, 0, 0)
    assert measured([(10, 20)]) == (0, 0, 0)


def test_the_same_span_of_another_corpus_is_not_found_and_counts_in_the_denominators() -> None:
    assert measured([(10, 20)], elsewhere=[(10, 20)]) == (0, 0, 0)
    assert measured([(10, 20)], (10, 20), elsewhere=[(0, 30)]) == (10 / 10, 10 / 40, 10 / 40)


# ------------------------------------------------------------------------------------------ the whole way


def write_data(
    folder: Path, corpora: dict[str, str], rows: Sequence[tuple[str, str, Sequence[str | dict[str, Any]]]]
) -> Path:
    """Corpora, and rows of question, corpus and references; a text as a reference stands at its first place."""
    folder.mkdir(exist_ok=True)
    for name, text in corpora.items():
        (folder / f"{name}.md").write_bytes(text.encode())
    with (folder / "questions.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["question", "references", "corpus_id"])
        for question, corpus, references in rows:
            given = [placed(corpora[corpus], ref) if isinstance(ref, str) else ref for ref in references]
            writer.writerow([question, json.dumps(given), corpus])
    return folder


def placed(text: str, content: str) -> dict[str, Any]:
    start = text.index(content)
    return {"content": content, "start_index": start, "end_index": start + len(content)}


def three_languages(folder: Path) -> Path:
    corpora = {language: "\n\n".join(sentences) for language, sentences in SENTENCES.items()}
    rows = [(QUESTIONS[language], language, [SENTENCES[language][ASKED]]) for language in SENTENCES]
    return write_data(folder, corpora, rows)


def run(folder: Path, half: Half = "all") -> ChunkingResult:
    with KnowledgeBase.open() as base:
        return evaluate(base, load_data(folder), half)


def outcomes(result: ChunkingResult) -> dict[str, Any]:
    return {one.name: one.outcomes for one in result.systems}


@pytest.fixture
def data(project: Callable[..., Path], tmp_path: Path) -> Path:
    project(CONFIG)
    return tmp_path / "data"


@pytest.mark.parametrize("language", SENTENCES)
def test_the_sentence_that_answers_is_found_with_four_others_of_its_length(data: Path, language: str) -> None:
    result = run(three_languages(data))
    length = len(SENTENCES[language][ASKED])
    wanted = {"recall": 1.0, "precision": length / (5 * length), "iou": length / (5 * length)}
    assert result.figures(language) == pytest.approx({**wanted, "hits": 5, "chunks": 8, "questions": 1})


def test_all_corpora_are_one_collection_and_the_means_are_over_questions(data: Path) -> None:
    few, many = "\n\n".join(SENTENCES["en"][:2]), "\n\n".join(SENTENCES["zh"][:3])
    rows = [("a?", "en", [SENTENCES["en"][0]]), ("b?", "en", [SENTENCES["en"][1]]), ("c?", "zh", [SENTENCES["zh"][0]])]
    result = run(write_data(data, {"en": few, "zh": many}, rows))
    english, chinese = len(SENTENCES["en"][0]), len(SENTENCES["zh"][0])
    retrieved = 2 * english + 3 * chinese  # all five chunks, whatever is asked
    precision = (2 * english / retrieved + chinese / retrieved) / 3
    assert result.figures() == pytest.approx(
        {"recall": 1.0, "precision": precision, "iou": precision, "hits": 5, "chunks": 5, "questions": 3}
    )
    assert result.figures("zh")["precision"] == pytest.approx(chinese / retrieved)
    assert result.corpora() == ["en", "zh"]


def test_a_passage_that_stands_twice_counts_at_its_first_place_and_twice_as_retrieved(data: Path) -> None:
    one, other = SENTENCES["ja"][:2]
    result = run(write_data(data, {"ja": f"{one}\n\n{other}\n\n{one}"}, [("?", "ja", [one])]))
    found = len(one) / (2 * len(one) + len(other))
    assert result.figures() == pytest.approx(
        {"recall": 1.0, "precision": found, "iou": found, "hits": 3, "chunks": 3, "questions": 1}
    )


def test_a_second_run_embeds_only_what_is_new(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = three_languages(data)
    first, second = run(folder), run(folder)
    assert (first.embedded, second.embedded) == (3 * 8 + 3, 0)
    assert outcomes(first) == outcomes(second)
    monkeypatch.setenv("KB_EMBEDDING__HASHING__DIMENSION", "128")
    assert run(folder).embedded == 3 * 8 + 3
    monkeypatch.delenv("KB_EMBEDDING__HASHING__DIMENSION")
    monkeypatch.setenv("KB_CHUNKING__RECURSIVE__SIZE_TOKENS", "200")
    larger = run(folder)
    assert (sum(larger.chunks.values()), larger.embedded) == (3, 3)


def test_the_ingest_and_all_systems_embed_nothing_again(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = three_languages(data)
    given: list[str] = []
    embed = HashingEmbedder.embed_queries  # which embeds passages as well

    def counted(self: HashingEmbedder, texts: Sequence[str]) -> FloatArray:
        given.extend(texts)
        return embed(self, texts)

    monkeypatch.setattr(HashingEmbedder, "embed_queries", counted)
    run(folder)
    assert len(given) == len(set(given)) == 3 * 8 + 3


def test_words_find_what_the_vectors_miss_and_each_system_has_its_figures(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_RETRIEVAL__TOP_K", "1")
    # The first is nearer, as words of mere grammar count in vectors; the second holds what the question is about.
    near, right = (
        "What should one do when it is so, and it is that?",
        "ERR_429: wait for one minute before another try.",
    )
    rows = [("What should one do when it is that ERR_429?", "en", [right])]
    folder = write_data(data, {"en": "\n\n".join([near, right, *SENTENCES["en"]])}, rows)
    monkeypatch.setenv("KB_KEYWORD__WEIGHT", "5")
    result = run(folder)
    assert {one.name: one.figures()["recall"] for one in result.systems} == {"dense": 0.0, "fused": 1.0}
    assert result.figures()["recall"] == 1.0
    monkeypatch.setenv("KB_KEYWORD__ENABLED", "false")
    assert [one.name for one in run(folder).systems] == ["dense"]


def test_cutoff_and_relative_threshold_leave_fewer_hits(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = three_languages(data)
    monkeypatch.setenv("KB_RETRIEVAL__RELATIVE_THRESHOLD", "1")
    assert run(folder).figures()["hits"] == 1
    monkeypatch.setenv("KB_RETRIEVAL__CUTOFF", "1")
    found = run(folder).figures()
    assert (found["hits"], found["recall"], found["precision"], found["iou"]) == (0, 0, 0, 0)


def test_a_reranker_is_one_more_system_and_the_configured_one(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = SENTENCES["zh"][0]
    folder = write_data(data, {"zh": one}, [("?", "zh", [one])])
    monkeypatch.setenv("KB_RERANK__USE", "endpoint")
    monkeypatch.setenv("KB_RERANK__ENDPOINT__BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("KB_RERANK__ENDPOINT__RETRIES", "0")
    result = run(folder)
    assert list(outcomes(result)) == ["dense", "fused", "endpoint"]
    assert outcomes(result)["endpoint"] == outcomes(result)["fused"]  # nothing answers there, so the order stays


def test_the_halves_are_all_questions_and_one_question_has_no_even_half(data: Path) -> None:
    folder = three_languages(data)
    odd, even = ([q.corpus for q, *_ in run(folder, half).systems[0].outcomes] for half in ("odd", "even"))
    assert (odd, even) == (["en", "ja"], ["zh"])
    with pytest.raises(ConfigError, match="none at even places"):
        run(write_data(data, {"en": SENTENCES["en"][0]}, [("?", "en", [SENTENCES["en"][0]])]), "even")


def test_other_files_of_the_folder_are_not_searched_and_names_may_hold_signs_of_patterns(data: Path) -> None:
    text = "\n\n".join(SENTENCES["en"])
    folder = write_data(data, {"a [b]! #c": text}, [("?", "a [b]! #c", [SENTENCES["en"][0]])])
    (folder / "README.md").write_text(SENTENCES["ja"][0], encoding="utf-8")
    (folder / "a b.md").write_text(SENTENCES["zh"][0], encoding="utf-8")
    assert run(folder).figures()["chunks"] == len(SENTENCES["en"])
    (folder / ".kbignore").write_text("*", encoding="utf-8")
    with pytest.raises(KbError, match="not every corpus was ingested"):
        run(folder)


def test_measuring_leaves_no_collection_behind(data: Path, tmp_path: Path) -> None:
    run(three_languages(data))
    assert collection_names(tmp_path / "kb_data") == []
    with KnowledgeBase.open(collection="evaluation") as base:
        assert base.status().documents == 0


def test_a_reference_that_reading_has_moved_is_found_by_its_words(data: Path) -> None:
    text = "\r\n\r\n".join(SENTENCES["zh"])
    loaded = load_data(write_data(data, {"zh": text}, [("?", "zh", [SENTENCES["zh"][5]])]))
    (question,) = loaded.questions
    ((start, end),) = question.references
    assert loaded.corpora["zh"].text[start:end] == SENTENCES["zh"][5]
    assert start != text.index(SENTENCES["zh"][5])


def test_a_reference_that_stands_twice_is_taken_where_it_is_said_to_stand(data: Path) -> None:
    one = SENTENCES["en"][0]
    second = {"content": one, "start_index": len(one) + 2, "end_index": 2 * len(one) + 2}
    loaded = load_data(write_data(data, {"en": f"{one}\n\n{one}"}, [("?", "en", [second])]))
    assert loaded.questions[0].references == ((len(one) + 2, 2 * len(one) + 2),)


def test_a_reference_that_is_not_there_is_reported_and_counts_nowhere(data: Path, capsys: Any) -> None:
    one, other = SENTENCES["en"][:2]
    gone = {"content": "Geese do not.", "start_index": 0, "end_index": 13}
    rows: list[tuple[str, str, list[Any]]] = [("a?", "en", [one, gone]), ("b?", "en", [gone])]
    folder = write_data(data, {"en": f"{one}\n\n{other}"}, rows)
    assert command.main(["chunking", str(folder), "--json"]) == 0
    printed = capsys.readouterr()
    told = json.loads(printed.out)
    assert (told["questions"], told["recall"], told["unfound"]) == (1, 1.0, ["en: Geese do not."] * 2)
    assert printed.err.count("Geese do not.") == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("question,references\nWho?,[]\n", "line 2: .*corpus_id"),
        ('question,references,corpus_id\nWho?,[],en\nWho?,"[{""content"": 1}]",en\n', "line 3: .*start_index"),
        ("question,references,corpus_id\nWho?,nobody,en\n", "line 2: .*references"),
        ("question,references,corpus_id\nWho?,[],en\n", "no question with a reference"),
    ],
)
def test_questions_of_another_form_are_refused_with_their_line(data: Path, content: str, message: str) -> None:
    write_data(data, {"en": SENTENCES["en"][0]}, [])
    (data / "questions.csv").write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        load_data(data)


def test_missing_questions_and_corpora_are_named(data: Path) -> None:
    with pytest.raises(ConfigError, match=r"questions\.csv: the questions cannot be read"):
        load_data(data)
    write_data(data, {"en": SENTENCES["en"][0]}, [("?", "en", [SENTENCES["en"][0]])])
    (data / "en.md").unlink()
    with pytest.raises(LoadError, match=r"en\.md: the file does not exist"):
        load_data(data)


class Refusing(HashingEmbedder):
    """As a service that refuses a text for what it says."""

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        if any("forbidden" in text for text in texts):
            raise RefusedError("refused: not allowed", service="embedding", status=400)
        return super().embed_documents(texts)


def test_a_text_that_is_refused_for_good_ends_the_measurement_and_the_others_are_kept(tmp_path: Path) -> None:
    embedder = Refusing(64, 512)
    with Ledger(tmp_path) as ledger:
        vectors = KnownVectors(ledger, embedder, PaidEmbedding(ledger, embedder, 0, lambda texts: None))
        with pytest.raises(KbError, match=r"refused: not allowed .*'a forbidden text'"):
            vectors.of_documents(["one", "a forbidden text", "two"])
        assert vectors.of_documents(["one", "two"]).shape == (2, 64)
        assert vectors.embedded == 2


# -------------------------------------------------------------------------------------------- the command


def test_the_json_names_the_figures_the_corpora_and_the_configuration(data: Path, capsys: Any) -> None:
    folder = three_languages(data)
    assert command.main(["chunking", str(folder), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {"recall", "precision", "iou", "chunks", "seconds"} <= told.keys()
    assert told["recall"] == 1.0
    assert told["chunks"] == sum(corpus["chunks"] for corpus in told["corpora"].values()) == 3 * 8
    assert list(told["corpora"]) == list(SENTENCES)
    assert told["seconds"] == pytest.approx(sum(told["seconds_of"].values()))
    made = told["configuration"]
    assert (made["chunking"], made["embedding"], made["top_k"]) == ("recursive", "hashing", 5)
    assert (made["options"]["size_tokens"], made["options"]["min_tokens"]) == (16, 0)
    assert (made["cutoff"], made["relative_threshold"], made["rerank"]) == (-1, 0, "none")
    assert list(told["systems"]) == ["dense", "fused"]
    assert told["systems"]["fused"]["corpora"]["zh"]["iou"] == told["corpora"]["zh"]["iou"]


def test_the_printed_table_has_all_and_each_corpus(data: Path, tmp_path: Path, capsys: Any) -> None:
    folder = three_languages(data)
    other = tmp_path / "other.toml"
    other.write_text(CONFIG.replace("16", "200"), encoding="utf-8")
    assert command.main(["chunking", str(folder), "--config", str(other)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("chunker recursive (size_tokens 200, ")
    assert lines[1] == "3 questions, 3 chunks"
    # Each corpus is one chunk now, and every question gets all three.
    retrieved = sum(len("\n\n".join(sentences)) for sentences in SENTENCES.values())
    shares = {name: len(sentences[ASKED]) / retrieved for name, sentences in SENTENCES.items()}
    whole = f"{sum(shares.values()) / 3:.1%}"
    assert [line.split() for line in lines[3:6]] == [
        ["recall", "precision", "iou", "hits"],
        *([name, "100.0%", whole, whole, "3.0"] for name in ("dense", "fused")),
    ]
    assert [line.split() for line in lines[7:11]] == [
        ["fused", "questions", "chunks", "recall", "precision", "iou", "hits"],
        *([name, "1", "1", "100.0%", f"{share:.1%}", f"{share:.1%}", "3.0"] for name, share in shares.items()),
    ]
    assert lines[-1].endswith("6 texts embedded, the others were known")


def test_an_error_is_one_line_and_status_2(data: Path, capsys: Any) -> None:
    assert command.main(["chunking", str(data / "nowhere")]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert "questions.csv: the questions cannot be read" in printed.err
