# make env          the virtual environment in .venv, everything pinned (needs Python 3.11 to 3.13 and a C compiler)
# make demo         calibrates this machine's OpenCL device, then predicts and measures the test kernels
# make check        linters, type checker and the core tests, in three minutes: run it while you work
# make test         linters, type checker, documentation, all tests that are not slow: what CI runs
# make sanitize     the tests of the simulator, and 20,000 random scenarios, with sanitizers: CI runs it
# make test-slow    the slow tests; those of recorded measurements need LOOPYPERF_SHARED_DATA (CONTRIBUTING.md)
# make benchmark    compares our speed with that of peers; fails where a ratio is below its limit
# make docs         builds the documentation site in build/docs; a warning is a failure
# make notebooks    executes the notebooks and stores their outputs
# make accuracy     regenerates the tables of docs/accuracy in some ten minutes (benchmarks/README.md)
# make corpora      reports how many real kernels can be counted, and why others cannot
# make test-oldest  runs the tests with the oldest supported versions in a virtual environment of its own
# make browser      installs Chromium for the tests of HTML pages where it is missing (Debian, root)
# make opencl       installs another PoCL where the bundled one does not support the processor (Debian, root)
PYTHON ?= python3
VENV ?= .venv
CONSTRAINTS ?= constraints.txt
BARVINOK ?= islpy-barvinok==2025.2.5.post1
BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip --quiet --disable-pip-version-check
STAMP = $(VENV)/.installed

# One thread: with more, PoCL's times on a shared machine vary by a factor of two.
export POCL_MAX_PTHREAD_COUNT = 1
# What is tested and timed is computed, and leaves the user's cache alone.
export LOOPYPERF_CACHE = 0
# Containers often set it; then each process that a test starts compiles the package, and pytest rewrites all asserts.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: env opencl browser demo docs benchmark check core sanitize test test-slow test-oldest notebooks accuracy corpora lint clean
env: $(STAMP)

# pip puts plain islpy, which loopy asks for, over islpy-barvinok: it comes last, and the proof is a symbolic count.
$(STAMP): pyproject.toml $(CONSTRAINTS) Makefile hatch_build.py loopyperf/pipeline/core.c loopyperf/pipeline/core.h
	$(PYTHON) -m venv $(VENV)
	$(PIP) install -c $(CONSTRAINTS) -e ".[opencl,plots,report,dataframe,learn,search,dask,docs,notebooks,dev]"
	$(PIP) install --force-reinstall --no-deps $(BARVINOK)
	$(BIN)/python -c "import islpy; print('counting engine:', islpy.Set('[n] -> {[i]: 0 <= i < n}').card())"
	touch $@

lint: env
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/codespell
	$(BIN)/pyright

benchmark: env
	$(BIN)/python -m pytest --quiet --benchmark-columns=min,median,rounds benchmarks/test_speed.py

docs: env
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --nitpicky --fresh-env $(DOCS_OPTIONS) docs build/docs

opencl: env
	@$(BIN)/loopyperf doctor | grep -q "^ok *OpenCL device" && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get -qq update && apt-get -qq install -y --no-install-recommends pocl-opencl-icd >/dev/null && exit 0; \
	fi; \
	echo "no OpenCL device, and PoCL could not be installed: tests that measure will fail"

browser:
	@command -v chromium >/dev/null && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get -qq update && apt-get -qq install -y --no-install-recommends chromium >/dev/null && exit 0; \
	fi; \
	echo "no Chromium, and it could not be installed: browser tests will be skipped"

# --dist loadfile: one worker runs all tests of a file, so that module fixtures are made once. If a worker dies, xdist
# would start another one and wait for the tests of the first one forever; the limit ends other endless runs.
PYTEST = $(if $(shell command -v timeout),timeout --kill-after=60 60m) $(BIN)/python -m pytest
PARALLEL = -n 2 --dist loadfile --max-worker-restart=0
CORE = tests/kernel tests/polyhedral tests/device tests/pipeline tests/test_layers.py tests/test_words.py tests/test_units.py

check: env
	$(MAKE) --jobs 2 --output-sync lint core

core: env
	$(PYTEST) $(PARALLEL) $(CORE)

# The tests execute the notebooks and the gallery.
test: env
	$(MAKE) --jobs 2 --output-sync lint docs DOCS_OPTIONS="-D nb_execution_mode=off -D plot_gallery=0"
	$(PYTEST) $(PARALLEL)

# AddressSanitizer, UndefinedBehaviorSanitizer and assertions on indices. Their libraries are loaded first, beside which
# PoCL does not load; the log shows a report that pytest would capture.
SANITIZED = build/sanitized
PAIRS = 20000
sanitize: env
	rm -rf $(SANITIZED)
	$(BIN)/python hatch_build.py $(SANITIZED)
	LD_PRELOAD="$$(cc -print-file-name=libasan.so) $$(cc -print-file-name=libstdc++.so)" \
	ASAN_OPTIONS=detect_leaks=0:log_path=$(abspath $(SANITIZED))/report UBSAN_OPTIONS=print_stacktrace=1 \
	LOOPYPERF_RANDOM_PAIRS=$(PAIRS) \
	$(PYTEST) -p tests.pipeline.sanitized_core $(PARALLEL) -k "not computes_the_product and not kernel_adds" tests/pipeline || \
	{ cat $(SANITIZED)/report* 2>/dev/null; false; }

test-slow: env
	$(BIN)/python -m pytest -m slow

notebooks: env
	POCL_MAX_PTHREAD_COUNT=1 $(BIN)/python -m tests.store_notebooks

accuracy: env
	$(BIN)/python -m cogapp -r -P -I benchmarks -p "from parts.printed import printed" docs/accuracy/*.md

# With FRAMEWORKS, a folder of checkouts, also what these build: in an environment of their own.
corpora: env
ifdef FRAMEWORKS
	$(MAKE) env VENV=.venv-frameworks
	.venv-frameworks/bin/python -m pip --quiet install -c $(CONSTRAINTS) -r tests/corpora/frameworks.txt
	.venv-frameworks/bin/python -m pip --quiet install --no-deps --ignore-requires-python \
		$(foreach NAME,arraycontext boxtree modepy pytato sumpy meshmode grudge pystella feinsum,$(wildcard $(abspath $(FRAMEWORKS))/$(NAME)))
	PYTHONPATH=.:benchmarks:tests/corpora/stand_ins:$(abspath $(FRAMEWORKS))/firedrake \
		.venv-frameworks/bin/python -W ignore -m tests.corpora $(abspath $(FRAMEWORKS))
else
	PYTHONPATH=.:benchmarks $(BIN)/python -W ignore -m tests.corpora
endif

test-oldest:
	$(MAKE) env VENV=.venv-oldest CONSTRAINTS=constraints-oldest.txt BARVINOK=islpy-barvinok==2025.2.5
	.venv-oldest/bin/python -m pytest $(PARALLEL) -o cache_dir=.venv-oldest/.pytest_cache

demo: env
	$(BIN)/loopyperf calibrate
	$(BIN)/loopyperf validate

clean:
	rm -rf .venv .venv-oldest build dist docs/auto_gallery .pytest_cache .ruff_cache .hypothesis
