# One entry point for people and for continuous integration. Every target sets up first; that is quick when done.
PYTHON ?= python3
BIN := .venv/bin
NATIVE_SOURCES = $(shell git ls-files '*/native/*.cpp' '*/native/*.h')

.PHONY: setup demo test test-full lint bench sanitize fuzz vsix wheels editor docs clean distclean
SECONDS ?= 600
# Test processes, each of up to 2.5 GB: as many as fit, up to two more than there are cores. Tests wait for a quarter of
# their time, for programs to start and limits to end them.
JOBS ?= $(shell awk -v cores=$$(nproc) '/^MemTotal/ {fit = int($$2 / 2.5e6); most = cores + 2; \
	print fit < 1 ? 1 : fit < most ? fit : most}' /proc/meminfo)
.DEFAULT_GOAL := setup
# Tests start Python hundreds of times: without kept byte code, each process would compile the modules anew.
unexport PYTHONDONTWRITEBYTECODE

setup:
	@$(PYTHON) tools/setup.py

demo: setup
	@$(BIN)/python -m tools.demo

test: lint
	@$(BIN)/python -m pytest -n $(JOBS) --maxprocesses 8 --dist worksteal -m "not full"

test-full: lint
	@$(BIN)/python -m pytest -n $(JOBS) --maxprocesses 8 --dist worksteal

lint: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy || { test $$? -eq 2 && $(BIN)/mypy --num-workers 0; }  # 2: its workers did not start in time
	@if command -v clang-format-22 >/dev/null; then clang-format-22 --dry-run -Werror $(NATIVE_SOURCES) </dev/null; fi

bench: setup
	@$(BIN)/python -m benchmarks

# The core under AddressSanitizer and UndefinedBehaviorSanitizer: its tests, then fuzzing of its inputs.
sanitize: setup
	@$(BIN)/python -m tools.sanitize

fuzz: setup
	@$(BIN)/python -m tools.fuzz $(SECONDS)

# The VS Code extension: build/hipsynth.vsix. Sets up Node by itself.
vsix: setup
	@$(BIN)/python -m tools.vsix

# The workbench's editor component, from npm's packages: serving/web/codemirror.js, which is committed.
editor: setup
	@$(BIN)/python -m tools.bundle_editor

# The package, for Python 3.11 and for all later versions: build/wheels.
wheels: setup
	@$(BIN)/python -m tools.wheels

# The documentation as a site: build/site.
docs: setup
	@$(BIN)/python -c "import material" 2>/dev/null || $(BIN)/python -m pip install --quiet "mkdocs-material>=9.6,<10"
	@$(BIN)/python -m tools.docs_site

clean:
	rm -rf build out demo-out vscode/out .pytest_cache .mypy_cache .ruff_cache .hypothesis simulator/*.so
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

distclean: clean
	rm -rf .venv .cache vscode/node_modules
