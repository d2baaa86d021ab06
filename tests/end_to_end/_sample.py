"""The sample documents, ingested with all defaults: once in a run of the tests, whichever process asks first."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from filelock import FileLock

from kb.knowledge_base import KnowledgeBase

DOCUMENTS = Path(__file__).parents[2] / "knowledge_base"


def ingested(temporary: Path) -> Path:
    """The data folder, which is to be copied and not to be opened. `temporary` is the run's folder of this process."""
    run = temporary.parent if "PYTEST_XDIST_WORKER" in os.environ else temporary
    data, begun = run / "sample", run / "sample-begun"
    with FileLock(run / "sample.lock"):
        if not data.exists():
            with pytest.MonkeyPatch.context() as patch:
                patch.chdir(run)  # where there is no config.toml and no .env
                base = KnowledgeBase.open(documents_dir=DOCUMENTS, data_dir=begun)
            with base:
                report = base.ingest()
            assert (report.failed, report.skipped) == (0, 0), report.problems
            begun.rename(data)
    return data
