# Two commands are enough: `make demo` and `make test`. Both set up .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help demo test check fix bench eval lock
.DEFAULT_GOAL := help

help:  ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  \1\t/'

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "kb needs Python 3.11 or newer; give it with: make PYTHON=/path/to/python3.11")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(STAMP)  ## ingest knowledge_base/ with the embedded default and print three cited answers
	$(BIN)/python -m pipelines.ingest
	$(BIN)/python -m kb.query "What does a 429 mean and how should I handle it?"
	$(BIN)/python -m kb.query "退款政策是什么？"
	$(BIN)/python -m kb.query "パスワードを忘れたときはどうすればいいですか？"

test: $(STAMP)  ## run the tests: offline, a few minutes
	$(BIN)/python -m pytest -q

check: $(STAMP)  ## formatting, lint, types, direction of imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fix: $(STAMP)  ## format and mend what can be mended by machine
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP)  ## speed, side by side with a bare script
	$(BIN)/python benchmarks/start_up.py

eval: $(STAMP)  ## quality on the golden questions
	$(BIN)/python -m pipelines.evaluate golden

lock: $(STAMP)  ## pin the newest versions that pyproject.toml allows
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --universal --generate-hashes --no-header --no-annotate --python-version 3.11 --extra dev --output-file requirements.lock pyproject.toml
