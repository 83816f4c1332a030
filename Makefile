# Set-up and commands. Needs only Python 3.11+, make and a shell; `make demo` and `make test` do all set-up themselves.
.POSIX:
SHELL = /bin/sh

PYTHON = $$(command -v python3 || command -v python || echo python3)
VENV = .venv/bin/python
SETUP = $(PYTHON) arrakis/bootstrap

.PHONY: demo venv test test-fast test-browser test-engines lint format messages bench bench-sizing clean

demo:
	@started=$$(date +%s); $(SETUP) demo && \
	ARRAKIS_STARTED=$$started RESET="$(RESET)" PORT="$(PORT)" exec $(VENV) -m arrakis.demo

venv:
	@$(SETUP) demo

test:
	@$(SETUP) test
	@$(VENV) -m pytest -m "not browser and not engines" $(ARGS)

test-fast:
	@$(SETUP) test
	@TEST_DATABASE_URL=postgresql://none@127.0.0.1:9/none TEST_REDIS_URL=redis://127.0.0.1:9 $(VENV) -m pytest -m fast $(ARGS)

test-browser:
	@$(SETUP) test browser
	@$(VENV) -m pytest -m browser $(ARGS)

test-engines:
	@$(SETUP) test
	@$(VENV) -m pytest -m engines $(ARGS)

lint:
	@$(SETUP) test lint
	@$(VENV) -m ruff format --check .
	@$(VENV) -m ruff check .
	@$(VENV) -m mypy .
	@$(VENV) -m djlint --lint templates
	@$(VENV) manage.py messages --check
	@$(VENV) manage.py makemigrations --check --dry-run
	@$(VENV) manage.py check --fail-level WARNING

format:
	@$(SETUP) test lint
	@$(VENV) -m ruff format .
	@$(VENV) -m ruff check --fix .

messages:
	@$(SETUP) demo
	@$(VENV) manage.py messages

bench:
	@$(SETUP) test
	@if [ -d tests/bench ]; then $(VENV) -m tests.bench $(ARGS); else echo "There are no benchmarks yet."; fi

bench-sizing:
	@$(SETUP) test
	@$(VENV) -m tests.bench.sizing

clean:
	@if [ -x $(VENV) ]; then $(VENV) -m arrakis.embedded reset; $(VENV) -m arrakis.embedded reset --instance tests; fi
	@rm -rf .venv .arrakis .uv .pytest_cache .mypy_cache .ruff_cache .hypothesis
