"""Knowing before doing: a dry run reports what the run after it does, writes nothing, and says what it costs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kb.errors import CostRefusedError, IndexMismatchError, RemovalRefusedError, ServiceError
from kb.ingest.lock import write_lock
from kb.ingest.report import IngestReport
from pipelines import ingest as command
from tests.commands import FAST
from tests.end_to_end._bases import NUMBERS, UNREADABLE, CountingEmbedder, Place, a_text

MODEL = "text-embedding-3-small"


class MeteredEmbedder(CountingEmbedder):
    """The counting embedder as a service that is paid for."""

    def __init__(
        self, model: str, *, tokens_per_minute: int | None = None, requests_per_minute: int | None = None, **more: Any
    ) -> None:
        super().__init__(**more)
        self.model = model
        self.tokens_per_minute = tokens_per_minute
        self.requests_per_minute = requests_per_minute


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path / "documents", tmp_path / "data", embedder=CountingEmbedder(batch_texts=2))
    place.write("a.md", a_text(NUMBERS[:5]))
    place.write("b.md", a_text(["zebra"]))
    return place


def undone(report: IngestReport) -> IngestReport:
    """A report without what only one of a dry run and a run has."""
    return replace(report, dry_run=False, seconds=0.0, expected_seconds=None)


def files(folder: Path) -> dict[Path, bytes]:
    """All that is below a folder, without what SQLite keeps for readers."""
    return {
        path: path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.endswith(("-shm", "-wal"))
    }


def nothing(place: Place) -> None:
    """The first ingest."""


def an_edit(place: Place) -> None:
    place.write("a.md", a_text([*NUMBERS[:2], "inserted", *NUMBERS[3:5]]))


def a_rename_and_a_touch(place: Place) -> None:
    (place.documents / "a.md").rename(place.documents / "c.md")
    os.utime(place.documents / "b.md", ns=(1, 1))


def twins(place: Place) -> None:
    for name in ("c.md", "sub/d.md"):
        place.write(name, a_text(["twin", "zebra"]))


def everything(place: Place) -> None:
    an_edit(place)
    twins(place)
    (place.documents / "b.md").unlink()
    place.write("bad.md", UNREADABLE)
    place.write("picture.png", b"no document")
    place.write("empty.md", "")


@pytest.mark.parametrize("change", [nothing, an_edit, a_rename_and_a_touch, twins, everything])
def test_a_dry_run_reports_exactly_what_the_run_after_it_does(place: Place, change: Callable[[Place], None]) -> None:
    small = {"ingest": {"batch_chunks": 2}}  # so that twins are written apart
    if change is not nothing:
        place.ingest()
    change(place)
    told = place.ingest(dry_run=True, options=small)
    done = place.ingest(options=small)
    assert undone(told) == undone(done)
    assert (told.dry_run, done.dry_run) == (True, False)
    assert (told.embedded > 0) == (change is not a_rename_and_a_touch)


def test_a_dry_run_of_a_rebuild_and_of_other_chunk_settings_is_exact_as_well(place: Place) -> None:
    place.ingest()
    place.write("b.md", UNREADABLE)
    for how in (
        {"rebuild": True},
        {"options": {"chunking": {"recursive": {"size_tokens": 60, "min_tokens": 40}}}},
    ):
        told = place.ingest(dry_run=True, **how)
        assert undone(told) == undone(place.ingest(**how))


def test_a_dry_run_after_an_interruption_counts_only_what_is_still_to_be_paid(place: Place) -> None:
    with pytest.raises(ServiceError):
        place.with_embedder(CountingEmbedder(fails_after=4, batch_texts=2)).ingest()
    told = place.ingest(dry_run=True)
    assert told.embedded == 2
    assert undone(told) == undone(place.ingest())


def test_a_dry_run_reads_in_the_processes_that_read(place: Place) -> None:
    isolated = replace(place, isolated=True)
    assert undone(isolated.ingest(dry_run=True)) == undone(place.ingest())


# It does nothing


def test_a_dry_run_makes_no_collection(place: Place) -> None:
    assert place.ingest(dry_run=True).indexed == 2
    assert not place.data.exists()


def test_a_dry_run_writes_nothing_embeds_nothing_and_waits_for_no_lock(place: Place) -> None:
    embedder = CountingEmbedder()
    place = place.with_embedder(embedder)
    place.ingest()
    before, sent = files(place.data), list(embedder.sent)
    everything(place)
    with write_lock(place.folder):
        held = files(place.data)
        assert place.ingest(dry_run=True).indexed == 4
        assert files(place.data) == held
    assert files(place.data) == before
    assert embedder.sent == sent


def test_a_dry_run_refuses_what_the_run_would_refuse(place: Place) -> None:
    for number in NUMBERS:
        place.write(f"{number}.md", a_text([number]))
    place.ingest()
    with pytest.raises(IndexMismatchError):
        place.with_embedder(CountingEmbedder(dimension=32)).ingest(dry_run=True)
    for number in NUMBERS:
        (place.documents / f"{number}.md").unlink()
    with pytest.raises(RemovalRefusedError, match="12 of 14"):
        place.ingest(dry_run=True)
    assert place.ingest(dry_run=True, allow_removals=True).removed == 12
    assert len(place.contents()) == 5 + 1 + 12


# Cost and time


def test_the_cost_is_tokens_by_the_price_of_the_model_and_nothing_for_a_model_that_runs_here(place: Place) -> None:
    assert replace(place, embedder=None).ingest(dry_run=True).dollars == 0.0
    paid = place.with_embedder(MeteredEmbedder("dear"))
    prices = {"ingest": {"prices": {"dear": 1_000.0}}}
    told, done = paid.ingest(dry_run=True, options=prices), paid.ingest(options=prices)
    assert told.tokens > 0
    assert told.dollars == done.dollars == pytest.approx(told.tokens * 1_000.0 / 1_000_000)
    assert paid.ingest(dry_run=True, options=prices).dollars == 0.0, "all is paid for"


def test_known_prices_stay_when_the_table_adds_one(place: Place) -> None:
    paid = place.with_embedder(MeteredEmbedder(MODEL))
    told = paid.ingest(dry_run=True, options={"ingest": {"prices": {"dear": 1_000.0}}})
    assert told.dollars == pytest.approx(told.tokens * 0.02 / 1_000_000)


def test_the_cost_is_unknown_of_a_service_that_names_no_model_or_one_without_a_price(place: Place) -> None:
    assert place.ingest(dry_run=True).dollars is None, "it counts requests, so there is a service"
    report = place.with_embedder(MeteredEmbedder("unheard-of")).ingest(dry_run=True)
    assert (report.dollars, report.tokens > 0) == (None, True)


@pytest.mark.parametrize(
    ("tokens", "requests", "minutes"),
    [
        (10, None, lambda told: told.tokens / 10),
        (None, 2, lambda told: told.embedding_calls / 2),
        (1_000_000, 2, lambda told: told.embedding_calls / 2),
        (None, None, None),
    ],
)
def test_the_time_is_what_the_slower_of_both_rates_takes(
    place: Place, tokens: int | None, requests: int | None, minutes: Callable[[IngestReport], float] | None
) -> None:
    embedder = MeteredEmbedder(MODEL, tokens_per_minute=tokens, requests_per_minute=requests, batch_texts=2)
    told = place.with_embedder(embedder).ingest(dry_run=True)
    expected = None if minutes is None else pytest.approx(60 * minutes(told), abs=0.06)
    assert told.expected_seconds == expected


def test_max_cost_refuses_before_the_first_request_and_changes_nothing(place: Place) -> None:
    embedder = MeteredEmbedder("dear")
    paid = place.with_embedder(embedder)
    prices = {"ingest": {"prices": {"dear": 1_000.0}}}
    paid.ingest(options=prices)
    before, sent = paid.contents(), list(embedder.sent)
    place.write("a.md", a_text(NUMBERS[5:]))
    told = paid.ingest(dry_run=True, options=prices)
    assert told.dollars
    for dry_run in (False, True):
        with pytest.raises(CostRefusedError, match=f"{told.embedded} texts of {told.tokens} tokens") as refused:
            paid.ingest(options=prices, max_cost=told.dollars / 2, dry_run=dry_run)
        assert (refused.value.dollars, refused.value.allowed) == (told.dollars, told.dollars / 2)
    assert (paid.contents(), embedder.sent) == (before, sent)
    assert paid.ingest(options=prices, max_cost=told.dollars).embedded == told.embedded


def test_max_cost_refuses_what_has_no_price_and_says_where_to_set_it(place: Place) -> None:
    paid = place.with_embedder(MeteredEmbedder("unheard-of"))
    with pytest.raises(CostRefusedError, match=r'below \[ingest\.prices\], as "unheard-of" = ') as refused:
        paid.ingest(max_cost=1_000.0)
    assert refused.value.dollars is None
    with pytest.raises(CostRefusedError, match="by counting, which has no price"):
        place.ingest(max_cost=1_000.0)
    free = replace(place, embedder=None, data=place.data.with_name("other")).ingest(max_cost=0.0)
    assert free.embedded > 0, "what runs here costs nothing"


def test_sentences_that_decide_where_chunks_end_are_counted_and_the_rest_is_said_to_be_estimated(place: Place) -> None:
    semantic = {"chunking": {"use": "semantic"}}
    told = place.ingest(dry_run=True, options=semantic)
    done = place.ingest(options=semantic)
    assert told.embedded == pytest.approx(done.embedded, rel=0.5)
    assert [problem.path for problem in told.problems] == ["."]
    assert "estimated" in told.problems[0].reason
    again = place.ingest(dry_run=True, options=semantic)
    assert (again.unchanged, again.problems) == (2, ())


# The command


def test_the_command_says_what_a_run_would_do_and_what_it_costs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {**FAST, "KB_LOADING__ISOLATED": "false"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    place = Place(tmp_path / "docs", tmp_path / "kb_data")
    for name in ("a.md", "b.md"):
        place.write(name, a_text([name]))
    assert command.main(["docs", "--dry-run", "--only", "/a.md"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "dry run, nothing was changed; a run would give:"
    assert lines[1] == "1 file: 1 indexed, 0 unchanged, 0 skipped, 0 failed"
    assert lines[3] == "cost: nothing; time of the embedding: unknown, as no rate is set"
    assert not place.data.exists()
    reports = []
    for arguments in (["--dry-run"], ["--max-cost", "0"]):
        assert command.main(["docs", "--json", *arguments]) == 0
        reports.append(json.loads(capsys.readouterr().out))
    told, done = reports
    assert (list(told), told["dry_run"], done["dry_run"]) == (list(done), True, False)


@pytest.mark.parametrize("wrong", ["nan", "inf", "-1", "free"])
def test_a_sum_that_is_none_is_refused_before_anything_is_done(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["docs", f"--max-cost={wrong}"]) == 2
    assert "argument --max-cost: should be a sum in dollars" in capsys.readouterr().err
