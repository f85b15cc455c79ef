# make env    the virtual environment in .venv, everything pinned (needs Python 3.11-3.13, make, a C compiler)
# make demo   calibrates this machine's OpenCL device, predicts and measures the test kernels
# make test   ruff, pyright, pytest
PYTHON ?= python3
BARVINOK = islpy-barvinok==2025.2.5.post1
VENV = .venv
BIN = $(VENV)/bin
STAMP = $(VENV)/.installed

# One thread: with more, PoCL's times on a shared machine vary by a factor of two.
export POCL_MAX_PTHREAD_COUNT = 1

.PHONY: env demo test test-slow lint clean
env: $(STAMP)

$(STAMP): pyproject.toml constraints.txt Makefile
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[opencl,dev]"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps $(BARVINOK)
	$(BIN)/python -c "import islpy; print('counting engine:', islpy.Set('[n] -> {[i]: 0 <= i < n}').card())"
	touch $@

lint: env
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

test: lint
	$(BIN)/python -m pytest -n 2 --dist loadgroup

test-slow: env
	$(BIN)/python -m pytest -m slow

demo: env
	$(BIN)/loopyperf calibrate
	$(BIN)/loopyperf validate

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache
