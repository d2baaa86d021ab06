# Two commands are enough: `make demo` and `make test`. Both set up .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BASE := $(VENV)/.base
DEV := $(VENV)/.dev
PEERS := .bench/.peers
M3E := .m3e/.ready
# Elsewhere than on a machine with CUDA take the small build, as pytorch.org (Start Locally) prints it for the processor.
TORCH ?= torch==2.13.0
# What needs torch, which is not in the lock.
M3E_TESTS := tests/unit/test_sentence_transformers.py tests/unit/test_sentence_folder.py tests/contracts/test_embedders.py
LOCK := --universal --generate-hashes --no-header --no-annotate --python-version 3.11
# Measures times, so it runs alone.
TIMED := tests/end_to_end/test_start_up.py
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: help demo test test-m3e check fix bench eval lock
.DEFAULT_GOAL := help

help:  ## list the targets
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /  \1\t/'

$(BASE): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "kb needs Python 3.11 or newer; give it with: make PYTHON=/path/to/python3.11")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) --require-hashes -r requirements.lock
	$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

$(DEV): $(BASE) requirements-dev.lock
	$(PIP) --require-hashes -r requirements-dev.lock
	@touch $@

demo: $(BASE)  ## ingest knowledge_base/ with the embedded default and print three cited answers
	$(BIN)/python -m pipelines.ingest
	$(BIN)/python -m kb.query "What does a 429 mean and how should I handle it?"
	$(BIN)/python -m kb.query "退款政策是什么？"
	$(BIN)/python -m kb.query "パスワードを忘れたときはどうすればいいですか？"

test: $(DEV)  ## run the tests: offline, a few minutes
	$(BIN)/python -m pytest -q -rs -n auto --dist loadfile --no-loadscope-reorder --ignore $(TIMED)
	$(BIN)/python -m pytest -q -rs $(TIMED)

$(M3E): requirements-dev.lock pyproject.toml
	@test -x .m3e/bin/python || $(PYTHON) -m venv .m3e
	.m3e/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	.m3e/bin/python -m pip install --quiet --disable-pip-version-check $(TORCH)
	.m3e/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --editable '.[sentence-transformers]'
	@touch $@

test-m3e: $(M3E)  ## run the tests of sentence-transformers in .m3e, with TORCH='torch==2.13.0'
	.m3e/bin/python -m pytest -q -rs $(M3E_TESTS) -k "not e5 and not openai and not hashing"

check: $(DEV)  ## formatting, lint, types, direction of imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fix: $(DEV)  ## format and mend what can be mended by machine
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

$(PEERS): $(BASE) benchmarks/requirements-peers.txt
	@test -x .bench/bin/python || $(PYTHON) -m venv .bench
	.bench/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	.bench/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/requirements-peers.txt
	@touch $@

bench: $(DEV) $(PEERS)  ## speed, side by side with bare libraries and peers; damaged files; kills
	$(BIN)/python benchmarks/start_up.py
	$(BIN)/python -m benchmarks.pdf_speed
	$(BIN)/python -m benchmarks.fuzz_loading
	$(BIN)/python -m benchmarks.ingest_memory
	$(BIN)/python -m benchmarks.chunking_speed --peers .bench/bin/python
	$(BIN)/python -m benchmarks.nothing_changed
	$(BIN)/python -m benchmarks.ingest_overhead
	$(BIN)/python -m benchmarks.peers_ingest --peers .bench/bin/python
	$(BIN)/python -m benchmarks.search_speed
	$(BIN)/python -m benchmarks.filtered_search
	$(BIN)/python -m benchmarks.store_scale
	$(BIN)/python benchmarks/faiss_opening.py
	$(BIN)/python -m benchmarks.dask_ingest
	$(BIN)/python -m benchmarks.answer_overhead
	$(BIN)/python -m benchmarks.web_load
	$(BIN)/python benchmarks/embedding_limits.py
	$(BIN)/python -m benchmarks.crash_rounds --rounds 200

eval: $(DEV)  ## quality on the golden questions, after an ingest of knowledge_base/
	$(BIN)/python -m pipelines.ingest --quiet
	$(BIN)/python -m pipelines.evaluate golden

lock: $(DEV)  ## pin the newest versions that pyproject.toml allows
	$(PIP) uv
	$(BIN)/uv pip compile $(LOCK) --extra build --output-file requirements.lock pyproject.toml
	$(BIN)/uv pip compile $(LOCK) --extra build --extra dev --output-file requirements-dev.lock pyproject.toml
