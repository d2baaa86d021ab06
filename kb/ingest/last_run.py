"""Keeping in the ledger how a run ended, for whoever asks later."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kb.errors import KbError, LedgerError, StoreDiedError
from kb.ledger.runs import Ending, LastRun

if TYPE_CHECKING:
    from kb.ingest.report import IngestReport
    from kb.ledger.ledger import Ledger


@contextmanager
def kept_as_last(ledger: Ledger) -> Iterator[Callable[[IngestReport], IngestReport]]:
    """Keep how the run inside ends; it hands its report to what it is given here.

    One small write at the end. A run that is killed cannot write it; that it died shows in its lock,
    which still has its holder's name.
    """
    began, started = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), time.perf_counter()

    def keep(ended: Ending, error: str = "", counts: dict[str, int] | None = None) -> None:
        ledger.set_last_run(LastRun(began, round(time.perf_counter() - started, 3), ended, error, counts or {}))

    def done(report: IngestReport) -> IngestReport:
        counts = {field.name: getattr(report, field.name) for field in fields(report)}
        keep("done", counts={name: value for name, value in counts.items() if type(value) is int})
        return report

    try:
        yield done
    except BaseException as error:
        with suppress(LedgerError):  # what ended the run is worth more than the note about it
            ended: Ending = "failed"
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                ended = "interrupted"
            elif isinstance(error, StoreDiedError):
                ended = "died"
            # What is not ours may quote anything, a key among it.
            said = str(error) if isinstance(error, KbError) else type(error).__name__
            keep(ended, said)
        raise
