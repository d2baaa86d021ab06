from __future__ import annotations

import pickle

import pytest

from kb.errors import (
    CostRefusedError,
    IndexMismatchError,
    KbError,
    LoadError,
    LockedError,
    MissingKeyError,
    QuotaError,
    RemovalRefusedError,
    StoreError,
)

ERRORS: list[KbError] = [
    MissingKeyError("OPENAI_API_KEY", "OpenAI"),
    LoadError("文.pdf", "it is empty"),
    QuotaError("no credit left", service="OpenAI", status=429),
    StoreError("the disk is full"),
    IndexMismatchError("e5", "openai", "python -m pipelines.ingest --rebuild"),
    LockedError("process 7"),
    RemovalRefusedError("too many", removed=5, total=6),
    CostRefusedError("too much", dollars=None, allowed=1.0),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_that_travels_between_processes_keeps_its_type_its_message_and_its_facts(error: KbError) -> None:
    arrived = pickle.loads(pickle.dumps(error))
    assert type(arrived) is type(error)
    assert str(arrived) == str(error)
    assert vars(arrived) == vars(error)
