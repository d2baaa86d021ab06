"""What is synced: include, exclude and .kbignore take documents out like deleted ones, --only leaves the rest alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kb.errors import ConfigError, RemovalRefusedError
from kb.ledger.ledger import Ledger
from tests.end_to_end._bases import NUMBERS, UNREADABLE, CountingEmbedder, Place, a_text


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path / "documents", tmp_path / "data", embedder=CountingEmbedder())
    for name, word in (("a.md", "apple"), ("notes/b.md", "bread"), ("notes/c.txt", "cheese"), ("private/d.md", "date")):
        place.write(name, a_text([word]))
    return place


def sources(place: Place) -> set[str]:
    return {source for source, _, _ in place.contents().values()}


def loading(**keys: Any) -> dict[str, Any]:
    return {"loading": {"isolated": False, **keys}}


# Include, exclude, .kbignore


@pytest.mark.parametrize("where", ["setting", "file"])
def test_what_is_excluded_is_not_read_and_what_was_read_of_it_goes_and_comes_back_without_embedding(
    place: Place, where: str
) -> None:
    place.ingest()
    options = loading(exclude=["private/", "*.txt"]) if where == "setting" else None
    if where == "file":
        place.write(".kbignore", "private/\n*.txt\n")
    report = place.ingest(options=options)
    assert (report.unchanged, report.removed, report.chunks_removed, report.failed) == (2, 2, 2, 0)
    reasons = {problem.path: problem.reason for problem in report.problems}
    assert "'private/' in " in reasons["private"]
    assert "'*.txt' in " in reasons["notes/c.txt"]
    assert sources(place) == {"a.md", "notes/b.md"}
    assert place.found("date") == []
    again = place.ingest(options=options)
    assert (again.unchanged, again.removed, again.failed) == (2, 0, 0)
    (place.documents / ".kbignore").unlink(missing_ok=True)
    back = place.ingest()
    assert (back.indexed, back.embedded, len(place.found("date"))) == (2, 0, 1)


def test_include_names_all_that_is_read(place: Place) -> None:
    report = place.ingest(options=loading(include=["/notes/", "!*.txt"]))
    assert (report.indexed, report.skipped) == (1, 3)
    assert sources(place) == {"notes/b.md"}


def test_a_failed_document_that_is_excluded_goes_and_is_no_longer_reported(place: Place) -> None:
    place.ingest()
    place.write("notes/b.md", UNREADABLE)
    assert place.ingest().failed == 1
    report = place.ingest(options=loading(exclude=["b.md"]))
    assert (report.failed, report.removed, report.skipped) == (0, 1, 1)
    assert "notes/b.md" not in sources(place)


def test_patterns_that_would_take_much_away_are_refused_with_what_they_do(place: Place) -> None:
    for number in NUMBERS:
        place.write(f"more/{number}.md", a_text([number]))
    place.ingest()
    before = place.contents()
    place.write(".kbignore", "more/\n")
    with pytest.raises(RemovalRefusedError, match=r"12 of 16 documents .* \(12 of them excluded by patterns") as error:
        place.ingest()
    assert (error.value.removed, error.value.total) == (12, 16)
    with pytest.raises(RemovalRefusedError, match="16 of them excluded"):
        place.ingest(options=loading(exclude=["*"]))
    assert place.contents() == before
    assert place.ingest(allow_removals=True).removed == 12


def test_a_question_hears_of_excluded_documents_as_gone_and_of_others_only_when_they_are_read(place: Place) -> None:
    place.ingest(options=loading(exclude=["private/"]))
    with place.open(**loading(exclude=["private/"])) as base:
        assert base.changed_since_ingest() is None
    with place.open(**loading(exclude=["private/", "*.txt"])) as base:
        assert "1 gone" in str(base.changed_since_ingest())
    with place.open() as base:
        assert "1 new" in str(base.changed_since_ingest())


# --only


def test_only_looks_at_what_it_matches_and_leaves_all_else_as_it_is(place: Place) -> None:
    place.ingest()
    place.write("a.md", a_text(["avocado"]))
    place.write("notes/b.md", a_text(["butter"]))
    place.write("notes/new.md", a_text(["nutmeg"]))
    (place.documents / "notes" / "c.txt").unlink()
    (place.documents / "private" / "d.md").unlink()
    report = place.ingest(only="/notes/")
    assert (report.files, report.indexed, report.unchanged, report.removed) == (2, 2, 0, 1)
    assert sources(place) == {"a.md", "notes/b.md", "notes/new.md", "private/d.md"}
    assert (place.found("avocado"), len(place.found("date"))) == ([], 1)
    report = place.ingest()
    assert (report.indexed, report.unchanged, report.removed) == (1, 2, 1)


def test_only_can_be_the_first_ingest_and_take_several_patterns(place: Place) -> None:
    report = place.ingest(only=["a.md", "*.txt"])
    assert (report.files, report.indexed) == (2, 2)
    report = place.ingest(only=["*.txt", "!notes/"])
    assert (report.files, report.unchanged) == (1, 1), "the last pattern that matches the file itself decides"
    assert place.ingest().indexed == 2


def test_only_reports_what_is_skipped_or_failed_among_what_it_matches(place: Place) -> None:
    place.write("notes/bad.md", UNREADABLE)
    place.write("notes/picture.png", b"no document")
    place.write("picture.png", b"no document")
    place.write("bad.md", UNREADABLE)
    report = place.ingest(only="notes/")
    assert [(problem.path, problem.status) for problem in report.problems] == [
        ("notes/bad.md", "failed"),
        ("notes/picture.png", "skipped"),
    ]


def test_only_keeps_what_it_matches_below_a_folder_that_cannot_be_looked_at(place: Place, tmp_path: Path) -> None:
    place.ingest()
    (place.documents / "notes").rename(tmp_path / "elsewhere")
    (place.documents / "notes").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    report = place.ingest(only="*.txt")
    assert (report.failed, report.removed, report.skipped) == (1, 0, 0)
    assert "notes/c.txt" in sources(place)


def test_only_is_refused_where_it_matches_nothing_or_would_lose_the_rest(place: Place) -> None:
    for ingested in (False, True):
        with pytest.raises(ConfigError, match=r"--only: nothing in .* matches 'documents/a\.md'"):
            place.ingest(only="documents/a.md")
        if not ingested:
            place.ingest()
    with pytest.raises(ConfigError, match="don't go together"):
        place.ingest(only="a.md", rebuild=True)


def test_other_chunk_settings_with_only_cut_only_what_it_matches(place: Place) -> None:
    place.ingest()
    with Ledger(place.folder, read_only=True) as ledger:
        before = {source.path: source.pipeline for source in ledger.sources(1).values()}
    coarse = {"chunking": {"recursive": {"size_tokens": 60, "min_tokens": 40}}}
    assert place.ingest(only="notes/", options=coarse).indexed == 2
    with Ledger(place.folder, read_only=True) as ledger:
        after = {source.path: source.pipeline for source in ledger.sources(1).values()}
    assert {path for path in after if after[path] != before[path]} == {"notes/b.md", "notes/c.txt"}
