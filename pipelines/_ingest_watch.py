"""`--watch`: an ingest after each change of the folder, until Ctrl-C."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from kb import command
from pipelines._ingest_report import in_a_line, say_problems

if TYPE_CHECKING:
    from kb.ingest.report import IngestReport, Problem
    from kb.knowledge_base import KnowledgeBase


def watch(base: KnowledgeBase, options: argparse.Namespace, ingest: Callable[[], IngestReport]) -> None:
    """Ingest now and after each change, one line a run, until Ctrl-C; what goes wrong later is said.

    Raises:
        KbError: the first run cannot be done, for a reason that waiting does not mend.
        KeyboardInterrupt: Ctrl-C in the middle of a run.
    """
    from kb.ingest.watch import watch_folder

    data = (base.settings.data_dir, base.folder)
    runs = _Runs(ingest, quiet=options.quiet, as_json=options.json)
    try:
        watch_folder(base.folder_to_read(options.folder), data, runs)
    except KeyboardInterrupt:  # how watching ends; only an ingest that is at it is interrupted
        if runs.is_at_it:
            raise


class _Runs:
    """Runs, and what has been said of them: a problem that stays is not said again after each."""

    def __init__(self, ingest: Callable[[], IngestReport], *, quiet: bool, as_json: bool) -> None:
        self._ingest = ingest
        self._quiet = quiet
        self._as_json = as_json
        self.is_at_it = False
        self._is_first = True
        self._problems: frozenset[Problem] = frozenset()
        self._error = ""

    def __call__(self) -> bool:
        """Do one run; whether it could be done."""
        from kb.errors import KbError, LockedError, RemovalRefusedError, ServiceError

        # What the next change or some time may mend; all else is to be known at once, not after a day.
        passing = (LockedError, RemovalRefusedError, ServiceError) if self._is_first else KbError
        try:
            self.is_at_it = True
            report = self._ingest()
            self.is_at_it = False
        except passing as error:
            if str(error) != self._error:
                command.say(f"error: {error}")
            self._error = str(error)
            self.is_at_it = False
            return False
        finally:
            self._is_first = False
        self._error = ""
        self._say(report)
        return True

    def _say(self, report: IngestReport) -> None:
        if self._as_json:
            command.write_json(report.as_dict())
            return
        say_problems([problem for problem in report.problems if problem not in self._problems], quiet=self._quiet)
        self._problems = frozenset(report.problems)
        if not self._quiet:
            command.write(f"{time.strftime('%H:%M:%S')} {in_a_line(report)}")
