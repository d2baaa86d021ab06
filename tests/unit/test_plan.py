from __future__ import annotations

import time
from pathlib import Path

import pytest

from kb.errors import ConfigError, RemovalRefusedError
from kb.ingest.plan import Plan, changes_in_words, check_removals, check_root, make_plan
from kb.ingest.walk import FoundFile, Walk
from kb.ledger.documents import SourceRow
from kb.loading import document_id
from kb.settings import IngestSection

PIPELINES = {".md": "markdown-1 chunker-1", ".pdf": "pdf-1 chunker-1"}
LIMITS = IngestSection()


def a_file(name: str, size: int = 10, mtime_ns: int = 1) -> FoundFile:
    return FoundFile(Path("/documents", name), name, size, mtime_ns)


def a_source(name: str, size: int = 10, mtime_ns: int = 1, **other: str) -> SourceRow:
    suffix = Path(name).suffix.lower()
    values = {"content_hash": "h", "status": "indexed", "pipeline": PIPELINES[suffix], **other}
    return SourceRow(document_id(name), name, size, mtime_ns, **values)  # type: ignore[arg-type]


def by_id(*sources: SourceRow) -> dict[str, SourceRow]:
    return {source.document_id: source for source in sources}


def a_plan(removed: int, kept: int = 0) -> tuple[Walk, Plan, set[str]]:
    """A walk that finds `kept` of the documents and misses `removed` of them."""
    names = [f"{number}.md" for number in range(removed + kept)]
    walk = Walk(tuple(a_file(name) for name in names[removed:]), ())
    sources = by_id(*map(a_source, names))
    return walk, make_plan(walk, sources, PIPELINES), set(sources)


# What is due


@pytest.mark.parametrize(
    ("source", "due"),
    [
        (a_source("a.md"), False),
        (a_source("a.md", size=11), True),
        (a_source("a.md", mtime_ns=2), True),
        (a_source("a.md", pipeline="markdown-2 chunker-1"), True),
        (a_source("a.md", pipeline="markdown-1 chunker-2"), True),
        (a_source("a.md", status="failed", reason="damaged"), True),
        (a_source("b.md"), True),
    ],
)
def test_a_file_is_due_when_it_or_what_reads_it_has_changed_or_when_it_failed(source: SourceRow, due: bool) -> None:
    plan = make_plan(Walk((a_file("a.md"),), ()), by_id(source), PIPELINES)
    assert (len(plan.due), len(plan.unchanged)) == ((1, 0) if due else (0, 1))


def test_a_suffix_in_capitals_is_compared_by_its_loader() -> None:
    plan = make_plan(Walk((a_file("A.PDF"),), ()), by_id(a_source("A.PDF")), PIPELINES)
    assert [file.relative for file in plan.unchanged] == ["A.PDF"]


def test_due_files_stay_in_the_walks_order() -> None:
    walk = Walk(tuple(map(a_file, ("a.md", "b.md", "c/d.md"))), ())
    assert [file.relative for file in make_plan(walk, {}, PIPELINES).due] == ["a.md", "b.md", "c/d.md"]


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("a.md", "itself"),
        ("sub/b.md", "its folder"),
        ("sub/deep/c.md", "its folder"),
        ("substitute.md", None),
        ("other/a.md", None),
        ("a.md.md", None),
    ],
)
def test_what_was_skipped_by_itself_or_with_its_folder_is_hidden_not_removed(path: str, reason: str | None) -> None:
    walk = Walk((), (("a.md", "itself"), ("sub", "its folder")))
    plan = make_plan(walk, by_id(a_source(path)), PIPELINES)
    assert [found for _, found in plan.hidden] == ([reason] if reason else [])
    assert [source.path for source in plan.removed] == ([] if reason else [path])


def test_planning_stays_quick_when_many_are_gone_and_many_are_skipped() -> None:
    walk = Walk((), tuple((f"skipped/{number}.bin", "no loader") for number in range(20_000)))
    sources = by_id(*(a_source(f"gone/{number}.md") for number in range(5_000)))
    started = time.perf_counter()
    assert len(make_plan(walk, sources, PIPELINES).removed) == 5_000
    # Each with each would be a hundred million comparisons: a minute.
    assert time.perf_counter() - started < 5


# Which root


def test_a_folder_is_taken_when_it_is_the_collections_own_or_the_first(tmp_path: Path) -> None:
    check_root(tmp_path, None, 0, allow_removals=False)
    check_root(tmp_path, tmp_path, 12, allow_removals=False)
    check_root(tmp_path, tmp_path.parent, 0, allow_removals=False)


def test_another_folder_is_refused_with_counts_unless_allowed(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(RemovalRefusedError, match="12 documents") as refused:
        check_root(other, tmp_path, 12, allow_removals=False)
    assert (refused.value.removed, refused.value.total) == (12, 12)
    check_root(other, tmp_path, 12, allow_removals=True)


def test_a_missing_folder_is_an_error_at_first_and_a_refusal_later(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    for allowed in (False, True):
        with pytest.raises(ConfigError, match="does not exist"):
            check_root(missing, None, 0, allow_removals=allowed)
    with pytest.raises(RemovalRefusedError, match="is a disk not mounted"):
        check_root(missing, missing, 12, allow_removals=False)
    check_root(missing, missing, 12, allow_removals=True)


def test_a_root_that_is_a_file_is_never_taken(tmp_path: Path) -> None:
    file = tmp_path / "file.md"
    file.touch()
    with pytest.raises(ConfigError, match="is not a folder"):
        check_root(file, None, 0, allow_removals=True)
    with pytest.raises(RemovalRefusedError, match="is not a folder"):
        check_root(file, file, 12, allow_removals=True)


# How much may go


@pytest.mark.parametrize(
    ("removed", "kept", "refused"),
    [(5, 5, False), (6, 4, True), (10, 1, True), (8, 1, False), (0, 20, False), (12, 0, True), (3, 0, True)],
)
def test_more_than_half_of_at_least_ten_or_all_at_once_is_refused(removed: int, kept: int, refused: bool) -> None:
    walk, plan, documents = a_plan(removed, kept)
    if refused:
        with pytest.raises(RemovalRefusedError) as error:
            check_removals(Path("/documents"), walk, plan, documents, LIMITS, allow_removals=False)
        assert (error.value.removed, error.value.total) == (removed, removed + kept)
    else:
        check_removals(Path("/documents"), walk, plan, documents, LIMITS, allow_removals=False)
    check_removals(Path("/documents"), walk, plan, documents, LIMITS, allow_removals=True)


def test_the_limits_are_settings() -> None:
    walk, plan, documents = a_plan(2, 2)
    strict = IngestSection(max_removal_share=0.25, max_removal_from=4)
    with pytest.raises(RemovalRefusedError, match="2 of 4 documents"):
        check_removals(Path("/documents"), walk, plan, documents, strict, allow_removals=False)


def test_sources_without_a_document_do_not_count_as_removed() -> None:
    walk, plan, documents = a_plan(15, 5)
    kept = documents - {source.document_id for source in plan.removed[:14]}
    check_removals(Path("/documents"), walk, plan, kept, LIMITS, allow_removals=False)


def test_an_unreadable_folder_removes_nothing_so_it_is_not_refused() -> None:
    walk = Walk((), (("sub", "the folder cannot be listed"),))
    sources = by_id(*(a_source(f"sub/{number}.md") for number in range(12)))
    plan = make_plan(walk, sources, PIPELINES)
    check_removals(Path("/documents"), walk, plan, sources.keys(), LIMITS, allow_removals=False)
    assert len(plan.hidden) == 12


# What to tell a person who asks


@pytest.mark.parametrize(
    ("files", "sources", "words"),
    [
        ([a_file("a.md")], [a_source("a.md")], None),
        ([a_file("a.md")], [], "1 new"),
        ([], [a_source("a.md")], "1 gone"),
        ([a_file("a.md", mtime_ns=2)], [a_source("a.md")], "1 changed"),
        ([a_file("a.md"), a_file("c.md")], [a_source("a.md", size=1), a_source("b.md")], "1 new, 1 changed, 1 gone"),
        ([a_file("a.md")], [a_source("a.md", status="failed", reason="damaged")], None),
    ],
)
def test_changes_are_told_in_words_and_an_old_failure_is_none(
    files: list[FoundFile], sources: list[SourceRow], words: str | None
) -> None:
    told = changes_in_words(Walk(tuple(files), ()), by_id(*sources))
    assert told == (words and f"the folder has changed since the last ingest (files: {words})")


def test_a_source_that_cannot_be_looked_at_is_not_told_as_gone() -> None:
    assert changes_in_words(Walk((), (("sub", "a link"),)), by_id(a_source("sub/a.md"))) is None
