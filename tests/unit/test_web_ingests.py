"""A server's ingests: their order, their history, whom they tell, and that none is begun after the end."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kb.ingest.ignore import Selection
from kb.ingest.lock import write_lock
from kb.knowledge_base import KnowledgeBase
from kb.web.collections import Collections
from kb.web.ingesting import Wish, pattern_of
from kb.web.jobs import Job, Jobs

SECONDS = 30.0


@pytest.fixture
def collections(tmp_path: Path) -> Iterator[Collections]:
    documents = tmp_path / "documents"
    documents.mkdir()
    (documents / "one.md").write_text("# One", encoding="utf-8")
    base = KnowledgeBase.open(
        documents_dir=documents, data_dir=tmp_path / "data", embedding={"use": "hashing"}, loading={"isolated": False}
    )
    opened = Collections(base)
    yield opened
    opened.close()


@pytest.fixture
def jobs(collections: Collections) -> Iterator[Jobs]:
    made = Jobs(collections)
    yield made
    made.close()
    wait_until(lambda: not made.busy)


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_of_those_that_have_ended_the_last_fifty_are_known(jobs: Jobs) -> None:
    made = []
    for _ in range(53):
        made.append(jobs.bring_in_step())
        wait_until(lambda: made[-1].is_over)
    assert {job.state for job in made} == {"done"}
    wait_until(lambda: jobs.get(made[2].id) is None)
    assert [body["id"] for body in jobs.bodies()] == [job.id for job in reversed(made[3:])]


def test_an_empty_folder_is_no_fault(jobs: Jobs, collections: Collections, caplog: pytest.LogCaptureFixture) -> None:
    (collections.default.settings.documents_dir / "one.md").unlink()
    job = jobs.bring_in_step()
    wait_until(lambda: job.is_over)
    assert (job.state, job.report) == ("done", None)
    assert not collections.default.folder.exists()
    assert caplog.text == ""


def test_nothing_is_begun_after_the_end(jobs: Jobs, collections: Collections) -> None:
    with write_lock(collections.default.folder):
        running = jobs.bring_in_step()
        wait_until(lambda: jobs.busy)
        waiting = jobs.bring_in_step()
        jobs.close()
    wait_until(lambda: running.is_over)
    assert running.state == "done"
    time.sleep(0.1)
    assert waiting.state == "waiting"
    assert not jobs.busy


def test_a_failure_is_told_in_a_line_and_the_next_ingest_is_done(jobs: Jobs, collections: Collections) -> None:
    ledger = collections.default.folder / "ledger.sqlite"
    ledger.mkdir(parents=True)
    failed = jobs.bring_in_step()
    wait_until(lambda: failed.is_over)
    assert failed.state == "failed"
    assert failed.message
    assert "\n" not in failed.message
    ledger.rmdir()
    after = jobs.bring_in_step()
    wait_until(lambda: after.is_over)
    assert after.state == "done"


class Breaking(Collections):
    """Fails as nobody foresees, in the thread that ingests."""

    broken = True

    def get(self, name: str | None) -> KnowledgeBase:
        if self.broken and threading.current_thread() is not threading.main_thread():
            raise RuntimeError("sk-a-secret-of-a-service")
        return super().get(name)


def test_a_fault_that_nobody_foresaw_quotes_nothing_and_ends_nothing(
    collections: Collections, caplog: pytest.LogCaptureFixture
) -> None:
    breaking = Breaking(collections.default)
    jobs = Jobs(breaking)
    failed = jobs.bring_in_step()
    wait_until(lambda: failed.is_over)
    assert failed.state == "failed"
    assert failed.message
    assert "RuntimeError" in caplog.text
    assert "secret" not in caplog.text + failed.message
    breaking.broken = False
    after = jobs.bring_in_step()
    wait_until(lambda: after.is_over)
    assert after.state == "done"
    jobs.close()


def test_many_may_watch_one_ingest_and_all_see_its_end(jobs: Jobs, collections: Collections) -> None:
    async def watched(job: Job) -> list[str]:
        return [f"{one.name} {json.loads(one.data)['state']}" async for one in jobs.events(job)]

    async def all_watched() -> list[list[str]]:
        with write_lock(collections.default.folder):
            job = jobs.bring_in_step()
            watching = [asyncio.ensure_future(watched(job)) for _ in range(20)]
            gone = asyncio.ensure_future(watched(job))
            await asyncio.sleep(0.3)
            gone.cancel()
        return await asyncio.wait_for(asyncio.gather(*watching), SECONDS)

    for seen in asyncio.run(all_watched()):
        assert seen[0].startswith("progress ")
        assert seen[-2:] == ["progress done", "done done"]


def test_waiting_for_an_end_ends_with_the_patience(jobs: Jobs, collections: Collections) -> None:
    async def waited() -> tuple[bool, bool]:
        with write_lock(collections.default.folder):
            job = jobs.bring_in_step()
            soon = await jobs.over(job, 0.1)
        return soon, await jobs.over(job, SECONDS)

    assert asyncio.run(waited()) == (False, True)


def test_files_are_joined_up_to_a_number_and_kinds_are_not_mixed() -> None:
    one, other = Wish("a", paths=("1.md",)), Wish("a", paths=("2.md", "1.md"))
    assert one.joined(other, 2) == Wish("a", paths=("1.md", "2.md"))
    assert one.joined(other, 1) is None
    assert Wish("a").joined(Wish("a"), 0) == Wish("a")
    assert Wish("a").joined(one, 9) is None
    assert one.joined(Wish("a"), 9) is None
    assert Wish("a").joined(Wish("b"), 9) is None
    assert Wish("a").joined(Wish("a", rebuild=True), 9) is None


@pytest.mark.parametrize(
    "path",
    [
        "a.md",
        "uploads/退款 政策.md",
        "uploads/返品.md",
        "a*b?[c]{d}.md",
        "[[:alpha:]].md",
        "[:x].md",
        "!a.md",
        "#a.md",
        "a\\b.md",
        "**/x.md",
        " a.md",
        "a\nb.md",
        "-a-[z-a].md",
    ],
)
def test_a_files_pattern_matches_it_and_nothing_like_it(tmp_path: Path, path: str) -> None:
    selection = Selection(tmp_path, only=[pattern_of(path)])
    assert selection.asked_for(path)
    for other in (f"x/{path}", f"{path}x", f"x{path}", "axb.md", "aa.md", "x.md"):
        assert not selection.asked_for(other)
