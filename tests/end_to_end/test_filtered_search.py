"""`where`: the same hits as a search of everything that is filtered afterwards, and as many as there are."""

from __future__ import annotations

import json
import random
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kb import KnowledgeBase, asking, narrowed, rag_query
from kb.answers import AnswerReady
from kb.errors import ConfigError
from kb.knowledge_base import KnowledgeBase as Base
from kb.ledger.ledger import Ledger
from kb.records import Chunk, Document, Hit, SearchResult
from tests.commands import QUERY, run
from tests.pdf_writer import pdf

SUBJECTS = ("zebra", "lion", "parcel", "refund", "password", "holiday")
NFD_NAME = unicodedata.normalize("NFD", "資料/ガイド.md")

LEAVE = """---
author: Ada Lovelace
tags: [red, blue]
year: 2024
draft: false
date: 2026-01-01
---
# Handbook
"""
RULES = """---
author: Grace
tags: green
year: 2025
draft: true
Kind: a field of this name is not asked for
---
# Rules
"""

Truth = Callable[[Chunk, Document], bool]


def on_pages(first: int, last: int) -> Truth:
    """Some character of the chunk stands on one of these pages."""
    return lambda chunk, document: any(
        first <= page.number <= last and page.start < chunk.end and chunk.start < page.end for page in document.pages
    )


CONDITIONS: dict[str, list[tuple[str, Truth]]] = {
    "source": [
        ("handbook/leave.md", lambda _, d: d.path == "handbook/leave.md"),
        ("*.md", lambda _, d: d.path.endswith(".md")),
        ("handbook/*", lambda _, d: d.path.startswith("handbook/") and d.path.count("/") == 1),
        ("handbook/**", lambda _, d: d.path.startswith("handbook/")),
        (NFD_NAME, lambda _, d: d.path == unicodedata.normalize("NFC", NFD_NAME)),
    ],
    "path": [
        ("handbook", lambda _, d: d.path.startswith("handbook/")),
        ("資料", lambda _, d: d.path.startswith("資料/")),
        ("hand", lambda _, d: False),
    ],
    "kind": [("PDF", lambda _, d: d.kind == "pdf"), ("markdown", lambda _, d: d.kind == "markdown")],
    "heading": [
        ("zebra part", lambda c, _: "Zebra part" in c.heading_path),
        ("*part", lambda c, _: any(heading.endswith("part") for heading in c.heading_path)),
        ("handbook", lambda c, _: "Handbook" in c.heading_path),
        ("退款*", lambda c, _: any(heading.startswith("退款") for heading in c.heading_path)),
    ],
    "page": [
        ("2", on_pages(2, 2)),
        ("2-3", on_pages(2, 3)),
        ("3-", on_pages(3, 99)),
        ("-1", on_pages(1, 1)),
        ("9", lambda c, d: False),
    ],
    "author": [("ada*", lambda _, d: d.metadata.get("author") == "Ada Lovelace")],
    "tags": [
        ("blue", lambda _, d: d.metadata.get("tags") == "red, blue"),
        ("green", lambda _, d: d.metadata.get("tags") == "green"),
    ],
    "year": [("2024", lambda _, d: d.metadata.get("year") == 2024)],
    "draft": [("true", lambda _, d: d.metadata.get("draft") is True)],
    "date": [("2026-01-01", lambda _, d: d.metadata.get("date") == "2026-01-01")],
}
QUESTIONS = ["Does the zebra eat the parcel?", "password holiday refund", "退款要几天？", "パスワードを忘れた"]


def sections(dice: random.Random, count: int = 6) -> str:
    parts = [
        f"## {subject.title()} part\n\n" + " ".join(dice.choices(SUBJECTS, k=14)) + f" number {number}."
        for number, subject in enumerate(dice.sample(SUBJECTS, k=count))
    ]
    return "\n\n".join(parts) + "\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder whose documents have been ingested; tests only read it."""
    folder, dice = tmp_path_factory.mktemp("where"), random.Random(7)
    # Short pages, of which a chunk holds several, and one long page, which holds several chunks.
    lines = [[" ".join(dice.choices(SUBJECTS, k=9)) for _ in range(count)] for count in (1, 1, 1, 7, 1)]
    files: dict[str, str | bytes] = {
        "handbook/leave.md": LEAVE + sections(dice),
        "handbook/deep/rules.md": RULES + sections(dice),
        "plain.txt": "A zebra and a lion.\n\nThe parcel of the password.\n",
        "manual.pdf": pdf(lines),
        "zh/退款.md": "# 客服\n\n## 退款政策\n\n退款需要七天。\n\n## 密码\n\n密码可以重置。\n",
        NFD_NAME: "# 案内\n\n## パスワード\n\nパスワードを忘れたときは再設定します。\n\n## 返金\n\n七日かかります。\n",
    }
    for number in range(8):
        files[f"more/{number}.md"] = f"# More {number}\n\n" + sections(dice, 3)
    for name, content in files.items():
        file = folder / "knowledge_base" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    (folder / "config.toml").write_text(
        f'documents_dir = "{folder}/knowledge_base"\ndata_dir = "{folder}/kb_data"\n'
        '[embedding]\nuse = "hashing"\n[store]\nuse = "memory"\n'
        "[chunking.recursive]\nsize_tokens = 30\nmin_tokens = 0\n[loading]\nisolated = false\n",
        encoding="utf-8",
    )
    with KnowledgeBase.open(folder / "config.toml") as base:
        assert base.ingest().failed == 0
    return folder


def opened(folder: Path, candidates: int = 1000) -> Base:
    return KnowledgeBase.open(
        folder / "config.toml", retrieval={"candidates": candidates}, keyword={"candidates": candidates}
    )


@pytest.fixture(scope="module")
def base(folder: Path) -> Iterator[Base]:
    """It looks at every chunk, so that a search of all can be filtered afterwards."""
    with opened(folder) as base:
        yield base


@pytest.fixture(scope="module")
def documents(base: Base) -> dict[str, Document]:
    with Ledger(base.folder, read_only=True) as ledger:
        generation = ledger.current_generation()
        assert generation is not None
        ids = ledger.document_ids(generation.number)
        found = {document_id: ledger.document(generation.number, document_id) for document_id in ids}
    return {document_id: document for document_id, document in found.items() if document is not None}


def a_filter(dice: random.Random) -> tuple[dict[str, list[str]], list[list[Truth]]]:
    """One to three fields, each with one or two values."""
    where, truths = {}, []
    for field in dice.sample(sorted(CONDITIONS), k=dice.choice([1, 1, 2, 2, 3])):
        some = dice.sample(CONDITIONS[field], k=min(dice.choice([1, 1, 2]), len(CONDITIONS[field])))
        where[field] = [value for value, _ in some]
        truths.append([truth for _, truth in some])
    return where, truths


def everything(result: SearchResult) -> list[Hit]:
    return [*result.hits, *(dropped.hit for dropped in result.dropped)]


def ranked(hits: list[Hit], stage: str) -> list[str]:
    """The ids of those that a stage found, best first."""
    found = [(step.rank, hit.chunk.id) for hit in hits for step in hit.steps if step.stage == stage]
    return [chunk_id for _, chunk_id in sorted(found)]


@pytest.mark.parametrize(("few", "fetched", "kept"), [(10_000, 2_000, 10**6), (0, 2_000, 10**6), (0, 60, 0), (0, 0, 0)])
def test_a_filter_finds_what_a_search_of_all_would_leave_and_as_many_as_match(
    folder: Path,
    base: Base,
    documents: dict[str, Document],
    few: int,
    fetched: int,
    kept: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Whether the chunks are compared one by one or fetched from the store, which is exact here, makes no difference.
    monkeypatch.setattr(narrowed, "_FEW", few)
    monkeypatch.setattr(narrowed, "_MOST_FETCHED", fetched)
    monkeypatch.setattr(narrowed, "_NUMBERS_KEPT", kept)
    dice, sizes = random.Random(few + fetched), set()
    found = {question: base.search(question, 1000, -1.0).hits for question in QUESTIONS}
    total = len(found[QUESTIONS[0]])
    assert total > 40
    with opened(folder, candidates=5) as small:
        for _ in range(60):
            where, truths = a_filter(dice)
            question = dice.choice(QUESTIONS)
            expected = [
                hit
                for hit in found[question]
                if all(any(one(hit.chunk, documents[hit.chunk.document_id]) for one in either) for either in truths)
            ]
            result = base.search(question, 1000, -1.0, where)
            assert {hit.chunk.id: hit.score for hit in result.hits} == pytest.approx(
                {hit.chunk.id: hit.score for hit in expected}, abs=2e-6
            ), where
            assert [hit.score for hit in result.hits] == sorted((hit.score for hit in result.hits), reverse=True)
            assert result.best_score == pytest.approx(max((hit.similarity for hit in expected), default=None), abs=2e-6)
            assert bool(expected) != any("no passage matches --where" in note for note in result.notes)

            few_hits = small.search(question, 3, -1.0, where)
            assert len(few_hits.hits) == min(3, len(expected))
            candidates = everything(few_hits)
            nearest = sorted((hit.similarity for hit in expected), reverse=True)[:5]
            by_vector = {hit.chunk.id: hit.similarity for hit in candidates}
            assert [by_vector[i] for i in ranked(candidates, "dense")] == pytest.approx(nearest, abs=2e-6)
            assert ranked(candidates, "keyword") == ranked(expected, "keyword")[:5]
            for hit in candidates:
                stages = [step.stage for step in hit.steps]
                assert len(stages) == len(set(stages)), "each stage speaks once"
            sizes.add(len(expected))
    assert {0} < sizes
    assert len(sizes) > 6
    assert max(sizes) > total / 2


def test_a_passage_that_reaches_onto_a_page_is_on_it(base: Base) -> None:
    def pages(where: Any) -> set[int | None]:
        """Those on which the hits start."""
        return {hit.chunk.page for hit in base.search("zebra", 1000, -1.0, {"page": where}).hits}

    assert 1 in pages(2)
    assert pages((1, 1)) == {1}
    assert 4 in pages("4-")


def test_the_cutoff_and_its_note_are_those_of_what_the_filter_leaves(base: Base) -> None:
    result = base.search(QUESTIONS[0], cutoff=1.0, where={"path": "handbook"})
    assert result.hits == ()
    assert {hit.source.split("/")[0] for hit in everything(result)} == {"handbook"}
    assert result.best_score == max(hit.similarity for hit in everything(result))
    assert result.where == ("path=handbook",)


def test_every_way_to_ask_takes_the_filter(folder: Path, base: Base) -> None:
    where = {"source": "plain.txt"}
    assert {hit.source for hit in base.search("zebra", where=where).hits} == {"plain.txt"}
    for result in base.search_many(["zebra", "lion", "zebra"], where=where):
        assert {hit.source for hit in result.hits} == {"plain.txt"}
    answer = base.ask("zebra and lion", where=where)
    assert {citation.source for citation in answer.citations} == {"plain.txt"}
    assert answer.where == ("source=plain.txt",)
    *_, last = base.stream("zebra and lion", where=where)
    assert isinstance(last, AnswerReady)
    assert (last.answer.text, last.answer.where) == (answer.text, answer.where)
    asked = rag_query("zebra and lion", config=folder / "config.toml", where=where)
    assert (asked.text, asked.where) == (answer.text, answer.where)
    while asking._open:
        asking._open.popitem()[1].close()


def test_a_field_that_no_document_has_is_an_error_that_names_those_there_are(base: Base) -> None:
    with pytest.raises(
        ConfigError, match=r"autor=…: no document has such a field\. Allowed: source, path, kind, "
    ) as e:
        base.search("zebra", where={"autor": "Ada"})
    assert "author, date, draft, kind, tags, year" in str(e.value)


@pytest.mark.parametrize("hostile", ["' OR 1=1 --", '"; DROP TABLE chunks; --', "%", "_", "[a-z]*", "\\", "x\x00y"])
@pytest.mark.parametrize("field", ["source", "path", "kind", "heading", "author"])
def test_a_value_is_never_part_of_a_statement(base: Base, field: str, hostile: str) -> None:
    result = base.search("zebra", where={field: hostile})
    assert result.hits == ()
    assert result.notes[0].startswith("no passage matches --where")
    assert base.search("zebra").hits


def test_a_new_ingest_counts_for_the_next_question_with_the_same_filter(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"embedding": {"use": "hashing"}, "store": {"use": "memory"}}
    settings["loading"] = {"isolated": False}
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("# One\n\nThe zebra is here.\n", encoding="utf-8")
    with KnowledgeBase.open(None, documents_dir=notes, data_dir=tmp_path / "data", **settings) as base:
        base.ingest()
        where = {"kind": "markdown"}
        assert len(base.search("zebra", cutoff=-1.0, where=where).hits) == 1
        (notes / "b.md").write_text("# Two\n\nThe zebra is there.\n", encoding="utf-8")
        base.ingest()
        assert len(base.search("zebra", cutoff=-1.0, where=where).hits) == 2


# ------------------------------------------------------------------------------------------ the command


def test_the_command_takes_several_and_shows_them(folder: Path) -> None:
    where = ["--where", "path=handbook", "--where", "heading=Zebra*"]
    done = run(QUERY, "zebra", *where, "--search-only", "--json", "--cutoff", "-1", cwd=folder)
    found = json.loads(done.stdout)
    assert done.returncode == 0
    assert found["where"] == ["path=handbook", "heading=Zebra*"]
    assert {hit["source"].split("/")[0] for hit in found["hits"]} == {"handbook"}
    assert all("Zebra part" in hit["heading"] for hit in found["hits"])
    explained = run(QUERY, "zebra", *where, "--search-only", "--explain", "--cutoff", "-1", cwd=folder)
    assert "\nonly where path=handbook, heading=Zebra*\ncutoff " in explained.stdout


def test_a_filter_that_matches_nothing_says_so_and_answers_nothing(folder: Path) -> None:
    done = run(QUERY, "zebra", "--where", "page=99", "--where", "kind=pdf", cwd=folder)
    assert done.returncode == 1
    assert "Note: no passage matches --where page=99 --where kind=pdf" in done.stdout


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("kind", "has no ="),
        ("=pdf", "needs the name of a field"),
        ("kind=", "needs a value"),
        ("page=x", "is no page"),
        ("autor=Ada", "no document has such a field"),
    ],
)
def test_a_malformed_filter_is_one_line_and_status_2(folder: Path, written: str, told: str) -> None:
    done = run(QUERY, "zebra", "--where", written, cwd=folder)
    assert (done.stdout, done.returncode) == ("", 2)
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert told in done.stderr
