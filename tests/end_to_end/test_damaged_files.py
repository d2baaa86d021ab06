"""Damaged files give a text or a reason: a short run of the benchmark that reads thousands of them."""

from __future__ import annotations

import pytest

from benchmarks import fuzz_loading

FEW = 90
"""Three of each of the sample documents; the long run is `make bench`."""


@pytest.mark.parametrize("seed", [1, 2])
def test_damaged_sample_documents_are_read_or_refused(seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    status = fuzz_loading.main(["--inputs", str(FEW), "--seed", str(seed)])
    printed = capsys.readouterr().out
    assert status == 0, printed
    assert f"{FEW} damaged files of 29" in printed
    assert "'text'" in printed
    assert "'refused'" in printed
