# Two commands are enough for a newcomer: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
# Three processes share the tests file by file: with two, a machine of two cores idles while they wait for leases and
# servers. Those of a proof, few and long, are shared one by one.
SHARED := -n 3 --dist loadfile --no-loadscope-reorder
SHARED_PROOF := -n 3 --dist load --maxschedchunk 1
SUBJECTS := engine ingest tree workflows robots channels web
export PYTHONDONTWRITEBYTECODE = 1

.PHONY: help demo test check format prove prove-long bench bench-long docs reference lock pin clean services compiled

help:            ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: .venv/run  ## the main job on this machine: no root, no services
	@$(BIN)/custody demo $(ARGS)

test: .venv/dev services compiled  ## install what is missing, then run every test; some: make test ARGS=tests/engine
	$(BIN)/python -m pytest $(or $(ARGS),$(SHARED))

check: .venv/dev ## format, lint, types, import arrows
	$(BIN)/ruff format --check src tests bench
	$(BIN)/ruff check src tests bench
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/dev
	$(BIN)/ruff format src tests bench
	$(BIN)/ruff check --fix src tests bench

services:        ## the real servers that the tests talk to (root installs them, others are told what to install)
	@$(PYTHON) tests/rig/install.py

compiled: .venv/run  # once, or each of the thousand processes that the tests start would compile all it imports
	@$(BIN)/python -m compileall -q src

prove: .venv/dev services compiled       ## every claim at its quick figure, as a table; one row: make prove ROW=G5
	$(BIN)/python -m pytest $(SHARED_PROOF) --prove=$(or $(ROW),all) --figures=proof.json $(ARGS)

prove-long: .venv/dev services compiled  ## the same for as long as it takes
	$(BIN)/python -m pytest $(SHARED_PROOF) --prove=$(or $(ROW),all) --long --figures=proof.json $(ARGS)

bench: .venv/dev ## quick benchmarks, ours and others side by side; ratios count
	@short=0; for subject in $(SUBJECTS); do $(BIN)/python -m bench.$$subject --quick || short=1; done; exit $$short

bench-long: .venv/dev ## the same with up to a million of each
	@short=0; for subject in $(SUBJECTS); do $(BIN)/python -m bench.$$subject || short=1; done; exit $$short

docs: .venv/dev  ## check that the documentation is true: every transcript is run, every link followed
	$(BIN)/python -m pytest tests/docs $(ARGS)

reference: .venv/dev  ## write docs/reference anew from the program
	$(BIN)/python docs/make_reference.py

lock:            ## renew the pinned, hashed dependencies
	$(BIN)/uv pip compile -q --upgrade --generate-hashes --no-emit-index-url --no-header --python-version 3.11 pyproject.toml -o requirements/run.txt
	$(BIN)/uv pip compile -q --upgrade --generate-hashes --no-emit-index-url --no-header --python-version 3.11 pyproject.toml --group dev -o requirements/dev.txt
	$(BIN)/uv pip compile -q --generate-hashes --no-emit-index-url --no-header --python-version 3.11 pyproject.toml --extra azure -c requirements/run.txt -o requirements/azure.txt
	$(BIN)/python docs/make_sbom.py

pin:             ## what deploy/github-actions needs to install exactly this commit
	@echo "CUSTODY_REPOSITORY $$(git remote get-url origin 2>/dev/null | sed -nE 's#^.*github\.com[:/]([^/]+/[^/]+)$$#\1#p' | sed 's#\.git$$##' | grep . || echo 'owner/name of the repository that you publish this commit in')"
	@echo "CUSTODY_COMMIT $$(git rev-parse HEAD)"
	@echo "CUSTODY_SHA256 $$(git archive --format=tar HEAD | sha256sum | cut -d' ' -f1)"

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .import_linter_cache

# The virtual environment grows in three steps, each kept by a stamp file.
.venv/build: requirements/build.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q --disable-pip-version-check --only-binary :all: --require-hashes -r requirements/build.txt
	@touch $@

.venv/run: .venv/build requirements/run.txt pyproject.toml
	$(BIN)/uv pip install -q --compile-bytecode --python $(BIN)/python --only-binary :all: --require-hashes -r requirements/run.txt
	$(BIN)/uv pip install -q --python $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $@

.venv/dev: .venv/run requirements/dev.txt
	$(BIN)/uv pip install -q --compile-bytecode --python $(BIN)/python --require-hashes -r requirements/dev.txt
	@touch $@
