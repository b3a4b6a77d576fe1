# The commands of this workspace; `make help` lists them. Everything lands in the checkout: .venv, target, .cache.
# Each step leaves a stamp, so a second call costs nothing.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := .cache/stamps
# The delta-spark jar that interop tests compare with, and its Spark and Scala.
JARS := .cache/jars

# One interpreter for the build, the driver and Spark's workers; the same settings for maturin and cargo share one build.
export VIRTUAL_ENV := $(CURDIR)/$(VENV)
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python
export PYSPARK_PYTHON := $(CURDIR)/$(BIN)/python
export PYSPARK_DRIVER_PYTHON := $(CURDIR)/$(BIN)/python
export SPARK_LOCAL_IP ?= 127.0.0.1
unexport CARGO_TARGET_DIR
# Where a machine has it set, each of the hundreds of processes that tests start compiles all packages anew.
unexport PYTHONDONTWRITEBYTECODE

RUST_SOURCES := $(shell find rust -name '*.rs' -o -name Cargo.toml 2>/dev/null) Cargo.toml Cargo.lock
PYTEST_ARGS ?=
# Two have a JVM each (tests/sharing.py) and wait for it at times; the third uses what they leave.
PYTEST_WORKERS ?= 3
BENCH_ARGS ?=
# The measures import what they share from benches/support.
BENCH_PYTHON = PYTHONPATH=benches $(BIN)/python
SIM_ARGS ?=
PLANTED_ARGS ?=
VERSIONS_ARGS ?=
DIFFERENTIAL_ARGS ?=
DOCS_ARGS ?=

.PHONY: help
help: ## list the commands
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

# --- set-up -----------------------------------------------------------------------------------------------------------

# pyspark comes as source: its wheel, 450 MB of archives, isn't packed again. What is imported is compiled then.
UNPACKED = --no-compile --config-settings=--build-option=--compression=stored

$(STAMPS)/venv: requirements/dev.lock
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "development needs Python 3.11 or newer: make PYTHON=..."'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes --no-deps $(UNPACKED) -r $<
	@mkdir -p $(@D) && touch $@

.PHONY: venv
venv: $(STAMPS)/venv ## .venv with every locked development package

# All but the boundary needs no Python: with -j it is compiled while pip installs.
$(STAMPS)/core: $(RUST_SOURCES)
	cargo build --quiet --workspace --exclude deltaplane-python --exclude deltaplane-testing --locked
	@mkdir -p $(@D) && touch $@

$(STAMPS)/develop: $(STAMPS)/venv $(STAMPS)/core pyproject.toml $(RUST_SOURCES)
	PIP_QUIET=1 $(BIN)/maturin develop --quiet
	@mkdir -p $(@D) && touch $@ && rm -f $(STAMPS)/release

.PHONY: develop
develop: $(STAMPS)/develop ## build the native core with the dev profile and install the package into .venv

$(STAMPS)/release: $(STAMPS)/venv pyproject.toml $(RUST_SOURCES)
	PIP_QUIET=1 $(BIN)/maturin develop --quiet --release
	@mkdir -p $(@D) && touch $@ && rm -f $(STAMPS)/develop

.PHONY: release
release: $(STAMPS)/release ## the same with the release profile (what benches measure)

$(STAMPS)/jars: tests/interop/jars.py | $(STAMPS)/venv
	$(BIN)/python tests/interop/jars.py > /dev/null
	@mkdir -p $(@D) && touch $@

.PHONY: jars
jars: $(STAMPS)/jars ## the delta-spark jars that the interop tests compare with

# Two toolchains and their downloads serve the build alone: some 2 minutes, once.
$(STAMPS)/servers: tests/stores/install_servers.py requirements/servers.lock requirements/locking.lock $(wildcard tests/stores/pinned/* tests/interop/histories/checker/*) | $(STAMPS)/venv
	rm -rf .cache/servers && $(BIN)/python tests/stores/install_servers.py
	@mkdir -p $(@D) && touch $@

# One jar; the others that it needs pyspark ships.
$(STAMPS)/hadoop: tests/stores/hdfs_server.py | $(STAMPS)/venv
	$(BIN)/python tests/stores/hdfs_server.py
	@mkdir -p $(@D) && touch $@

# Spark's own access to S3, some 13 MB.
$(STAMPS)/hadoop-aws: tests/stores/pinned/hadoop-aws.sha256 tests/pinned_jars.py | $(STAMPS)/venv
	$(BIN)/python tests/pinned_jars.py $<
	@mkdir -p $(@D) && touch $@

.PHONY: hadoop-aws
hadoop-aws: $(STAMPS)/hadoop-aws ## the jars by which Spark reads and writes S3

# Less than 1 MB; Delta's kernel is among the jars of delta-spark.
$(STAMPS)/unity-client: tests/catalog/foreign/unity-client.sha256 tests/pinned_jars.py | $(STAMPS)/venv
	$(BIN)/python tests/pinned_jars.py $<
	@mkdir -p $(@D) && touch $@

.PHONY: unity-client
unity-client: $(STAMPS)/unity-client ## Unity Catalog's Java client, which the catalog's server is tested with

# Spark's classes as the JVMs of the tests map them: what each of some thirty spends on loading them is more than this takes.
$(STAMPS)/classes: tests/class_archive.py tests/jvm.py | $(STAMPS)/develop
	$(BIN)/python tests/class_archive.py
	@mkdir -p $(@D) && touch $@

# Chromium and what it needs of a bare machine: some 70 MB to fetch, once.
$(STAMPS)/browser: tests/browser/install_browser.py requirements/browser.lock $(wildcard tests/browser/pinned/*) | $(STAMPS)/venv
	rm -rf .cache/browser && $(BIN)/python tests/browser/install_browser.py
	@mkdir -p $(@D) && touch $@

.PHONY: browser
browser: $(STAMPS)/browser ## the headless browser that pages are tested in

# Libraries that import deltalake, each in an environment of its own: some 300 MB to fetch, less than a minute.
$(STAMPS)/ecosystem: tests/ecosystem/environments.py requirements/uv.lock $(wildcard requirements/ecosystem/*.lock) | $(STAMPS)/venv
	$(BIN)/python tests/ecosystem/environments.py
	@mkdir -p $(@D) && touch $@

.PHONY: ecosystem-packages
ecosystem-packages: $(STAMPS)/ecosystem ## the environments of the libraries that import deltalake, and of examples

# Zensical, which builds the documentation site, with what it needs, and typos: some 40 MB to fetch.
$(STAMPS)/site-packages: requirements/docs.lock | $(STAMPS)/venv
	rm -rf .cache/zensical
	$(BIN)/python -m pip install --quiet --require-hashes --no-deps --target .cache/zensical -r $<
	@mkdir -p $(@D) && touch $@

.PHONY: site-packages
site-packages: $(STAMPS)/site-packages ## what builds the documentation site

.PHONY: servers
servers: $(STAMPS)/servers $(STAMPS)/hadoop $(STAMPS)/hadoop-aws $(STAMPS)/unity-client ## what tests of stores run against: versitygw (S3), Azurite, HDFS, an older delta-rs, a checker of histories, and jars

# With -j: what is fetched comes while the core is compiled.
.PHONY: setup
setup: develop jars servers browser ecosystem-packages site-packages $(STAMPS)/duckdb-1.5 $(STAMPS)/classes ## all that the tests need

# --- commands ---------------------------------------------------------------------------------------------------------

# The dev profile (dependencies optimised) is ready sooner than the release profile, and the tests use the same build.
.PHONY: demo
demo: develop ## set up from nothing, then load ten days of bank transactions through PySpark
	$(BIN)/deltaplane demo

# The boundary crate has no Rust tests (rust/python/Cargo.toml says why); pytest runs it.
.PHONY: test
test: setup ## every test, Rust and Python
	cargo test --workspace --exclude deltaplane-python --locked --no-fail-fast
	$(STATERIGHT) 1
	$(BIN)/python -m pytest -n $(PYTEST_WORKERS) --no-loadscope-reorder $(PYTEST_ARGS)
	$(MAKE) test-duckdbs DUCKDBS=1.5 DUCKDBS_ARGS="$(FLOATS_OF_DUCKDB)"

# What maturin tells pyo3's build scripts, so that clippy does not make the next `develop` build them again.
PYO3_AS_MATURIN = PYO3_CONFIG_FILE="$$(ls -t $(CURDIR)/target/maturin/pyo3-config-*.txt | head -1)" \
	PYO3_ENVIRONMENT_SIGNATURE="$$($(BIN)/python -c 'import sys; print("cpython-%d.%d-64bit" % sys.version_info[:2])')"

# The development environment has one version of Spark; the others come before it on the path.
SPARKS ?= 3.5 4.0 4.1 4.3
SPARKS_ARGS ?= tests/spark tests/crash/test_stream_steps.py tests/crash/test_stream_kill.py

$(STAMPS)/spark-%: requirements/spark-%.lock | $(STAMPS)/venv
	rm -rf .cache/sparks/$*
	$(BIN)/python -m pip install --quiet --require-hashes --no-deps $(UNPACKED) --target .cache/sparks/$* -r $<
	@mkdir -p $(@D) && touch $@

.PHONY: test-sparks
test-sparks: develop $(SPARKS:%=$(STAMPS)/spark-%) ## the tests of Spark on the other versions that are supported (SPARKS="3.5 4.0 4.1 4.3")
	failed=0; for version in $(SPARKS); do \
		PYTHONPATH=$(CURDIR)/.cache/sparks/$$version $(BIN)/python -m pytest -n $(PYTEST_WORKERS) \
			--no-loadscope-reorder $(SPARKS_ARGS) || failed=1; \
	done; exit $$failed

# The development environment has DuckDB 2; older versions that the extra `local` allows come before it on the path.
DUCKDBS ?= 1.5
DUCKDBS_ARGS ?= tests/sql tests/expr tests/api/rows tests/api/merge_sql tests/api/writes/test_bloom_filters.py
# What older versions answer otherwise, where nothing is done against it: rows with NaN and with zeros of both signs.
FLOATS_OF_DUCKDB = tests/expr/test_float_joins.py tests/sql/test_duckdb_files.py tests/sql/test_duckdb_scans.py \
	tests/api/writes/test_bloom_filters.py

$(STAMPS)/duckdb-%: requirements/duckdb-%.lock | $(STAMPS)/venv
	rm -rf .cache/duckdbs/$*
	$(BIN)/python -m pip install --quiet --require-hashes --no-deps --target .cache/duckdbs/$* -r $<
	@mkdir -p $(@D) && touch $@

.PHONY: test-duckdbs
test-duckdbs: develop $(DUCKDBS:%=$(STAMPS)/duckdb-%) ## the tests of SQL and of commands on rows with older versions of DuckDB (DUCKDBS="1.5")
	failed=0; for version in $(DUCKDBS); do \
		PYTHONPATH=$(CURDIR)/.cache/duckdbs/$$version $(BIN)/python -m pytest -n $(PYTEST_WORKERS) $(DUCKDBS_ARGS) || failed=1; \
	done; exit $$failed

# The lowest versions of all extras together come before the development environment's.
# Left out is what a newer version has alone: pyarrow's view of filters in footers, and of bounds of some types, casts to
# nested void, and views of more than 2 GiB; the class of an error that passes through Polars, with its plans; typer's help.
LOWEST_ARGS ?= tests/api tests/cli tests/drop_in --ignore tests/api/writes/test_bloom_filters.py \
	--deselect tests/api/test_compat.py::test_the_pages_are_up_to_date \
	--deselect tests/api/writes/test_arrow_input.py::test_more_than_two_gib_of_text_in_one_batch_is_written \
	--deselect tests/api/rows/test_patched_update.py --deselect tests/api/schema/test_void_columns.py \
	--deselect tests/api/rows/test_polars_scan.py::test_files_that_a_condition_rules_out_are_not_opened \
	--deselect "tests/api/rows/test_polars_scan.py::test_drawn_conditions_select_what_polars_selects[plain]"

$(STAMPS)/lowest: requirements/lowest.lock | $(STAMPS)/venv
	rm -rf .cache/lowest
	$(BIN)/python -m pip install --quiet --require-hashes --no-deps --target .cache/lowest -r $<
	@mkdir -p $(@D) && touch $@

.PHONY: test-lowest
test-lowest: develop $(STAMPS)/lowest ## the tests without Spark with the lowest version of each package that the extras allow
	PYTHONPATH=$(CURDIR)/.cache/lowest $(BIN)/python -m pytest -n $(PYTEST_WORKERS) $(LOWEST_ARGS)

# A free-threaded interpreter, which its wheel is built for and tested with.
FREE_THREADED ?= python3.14t
FREE_THREADED_ARGS ?= tests/api/test_threads.py tests/api/writes/test_group_races.py tests/api/writes/test_leader_batcher.py \
	tests/api/rows/test_conflicts.py tests/api/rows/test_merge.py tests/api/log/test_versions.py

.PHONY: check-free-threaded
check-free-threaded: $(STAMPS)/venv ## a wheel for free-threaded Python, and tests with its lock off (FREE_THREADED=python3.14t)
	rm -rf .cache/free-threaded && $(FREE_THREADED) -m venv .cache/free-threaded
	.cache/free-threaded/bin/python -m pip install --quiet --require-hashes --only-binary :all: -r requirements/free-threaded.lock
	PIP_QUIET=1 $(BIN)/maturin build --quiet --locked --interpreter .cache/free-threaded/bin/python \
		--target-dir target/free-threaded --out .cache/free-threaded/wheels
	.cache/free-threaded/bin/python -m pip install --quiet --no-deps .cache/free-threaded/wheels/*.whl
	PYTHON_GIL=0 .cache/free-threaded/bin/python -m pytest $(FREE_THREADED_ARGS)

.PHONY: record-sparks
record-sparks: develop $(STAMPS)/spark-3.5 $(STAMPS)/spark-4.0 $(STAMPS)/spark-4.1 $(STAMPS)/spark-4.3 ## features on each Spark, and their tables read by each, into docs/which-spark.md
	cd tests && ../$(BIN)/python -m spark_versions.record
	$(BIN)/python docs/generate_sparks.py

.PHONY: check
check: check-rust check-python ## formatting, lints, types, stubs, structure (with -j side by side)

.PHONY: check-rust
check-rust: develop
	cargo fmt --all --check
	cargo fmt --manifest-path rust/testing/stateright/Cargo.toml --check
	$(PYO3_AS_MATURIN) cargo clippy --workspace --all-targets --locked -- -D warnings

.PHONY: check-python
check-python: develop
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest deltaplane._native --mypy-config-file pyproject.toml \
		--allowlist tests/structure/stubtest-allowlist.txt --ignore-unused-allowlist
	$(BIN)/python -m pytest -q -m "not slow" tests/structure

# No Python is needed for these: they run over a simulated store, and write docs/reliability/*.json.
PROOFS = CARGO_PROFILE_DEV_OPT_LEVEL=2 cargo run --quiet --locked -p deltaplane-testing --bin proofs --

.PHONY: sim
sim: ## 100,000 seeded schedules of writers, readers and faults (SIM_ARGS="--seed N" shows one again, step by step)
	$(PROOFS) sim $(SIM_ARGS)

.PHONY: sim-tables
sim-tables: ## the same of transactions over two tables of a catalog whose server crashes
	$(PROOFS) sim-tables $(SIM_ARGS)

# A model checker of others, in a workspace and a target directory of its own.
STATERIGHT = cargo run --quiet --locked --manifest-path rust/testing/stateright/Cargo.toml --target-dir target/stateright --

.PHONY: model
model: ## every state of the commit and checkpoint protocol in the small, by our own search and by stateright's
	$(PROOFS) model
	$(STATERIGHT)

# Each fault compiles one crate in a copy of the checkout: some ten minutes at first, then less than a minute a fault.
.PHONY: planted
planted: develop ## plants one-line faults, each of which a named test must notice (PLANTED_ARGS="word" chooses some by their names)
	$(PYTHON) tests/planted/plant.py $(PLANTED_ARGS)

# Two JVMs, one after the other: an hour on two cores. `make test` compares a sample with the record that this writes.
.PHONY: differential
differential: develop jars ## thousands of statements on deltaplane and on delta-spark (DIFFERENTIAL_ARGS="merges/*" chooses scenarios, --unrecorded those without a record)
	PYTHONPATH=tests $(BIN)/python tests/interop/differential/beside.py $(DIFFERENTIAL_ARGS)

# The tests are delta-rs's own, from a checkout: they aren't in this repository.
.PHONY: drop-in
drop-in: develop ## delta-rs's Python tests on deltalake and on deltaplane.deltalake (DELTA_RS=/path/to/delta-rs, DROP_IN_ARGS="test_merge.py")
	$(BIN)/python tests/drop_in/run.py "$(DELTA_RS)" $(DROP_IN_ARGS)

.PHONY: ecosystem
ecosystem: develop servers ecosystem-packages ## every library's cases on deltaplane and on deltalake, into docs/ecosystem.md (ECOSYSTEM_ARGS="polars dlt")
	cd tests && ../$(BIN)/python -m ecosystem.record $(ECOSYSTEM_ARGS)
	$(BIN)/python docs/generate_ecosystem.py

.PHONY: examples
examples: develop ecosystem-packages ## run the use cases, and write their pages from what they print
	$(BIN)/python docs/generate_examples.py

.PHONY: bench
bench: release ## each measure beside its peers (delta-spark after `make jars`), with peak memory; BENCH_ARGS="--full" for the targets' sizes
	for measure in benches/bench_*.py benches/catalogs/bench_*.py benches/sql/bench_*.py benches/huge/bench_*.py benches/on_spark/bench_*.py; do $(BENCH_PYTHON) "$$measure" $(BENCH_ARGS); done

.PHONY: bench-report
bench-report: $(STAMPS)/venv ## every measure's newest results as one page, .cache/bench/report.html
	$(BENCH_PYTHON) benches/pages/report.py

.PHONY: bench-summary
bench-summary: $(STAMPS)/venv ## docs/benchmarks.md anew from every measure's newest results
	$(BENCH_PYTHON) benches/pages/summary.py

.PHONY: tables
tables: develop ## docs/compatibility.md, docs/properties.md, docs/reference/errors.md and README's support table anew from their data
	$(BIN)/python docs/generate.py

.PHONY: prove-stores
prove-stores: develop servers ## the store contract over every server, into docs/reliability/stores.json
	cd tests && ../$(BIN)/python -m stores.contract

.PHONY: engines
engines: develop jars ## measure what other engines read and write (ENGINES_ARGS="--duckdb PYTHON --kernel PYTHON")
	cd tests && ../$(BIN)/python -m interop.measure_engines $(ENGINES_ARGS)

# The tools of packaging, apart from the development environment: building a wheel needs no Spark.
$(STAMPS)/packaging: requirements/packaging.lock
	rm -rf .cache/packaging && $(PYTHON) -m venv .cache/packaging
	.cache/packaging/bin/python -m pip install --quiet --require-hashes --no-deps -r $<
	@mkdir -p $(@D) && touch $@

WHEEL_ARGS ?=
CHECK_WHEEL_ARGS ?=
PACKAGING_PYTHON = .cache/packaging/bin/python

# An hour on two cores at first: every crate is compiled in one unit, and all of them together once more.
.PHONY: wheel
wheel: $(STAMPS)/packaging ## the wheel of this platform, from the source distribution, into dist
	$(PACKAGING_PYTHON) packaging/build_wheel.py $(WHEEL_ARGS)

.PHONY: sdist
sdist: $(STAMPS)/packaging ## the source distribution, and an archive of its crates for builds without a network, into dist
	$(PACKAGING_PYTHON) packaging/build_sdist.py

.PHONY: check-wheel
check-wheel: $(STAMPS)/packaging ## audits of the newest wheel of dist, and README's examples without Rust and Java (CHECK_WHEEL_ARGS="--python 3.10")
	$(PACKAGING_PYTHON) packaging/check_wheel.py $(CHECK_WHEEL_ARGS)

# Long: each combination installs hundreds of megabytes.
.PHONY: versions
versions: $(STAMPS)/packaging ## README's examples on the combinations of packaging/versions.toml, into docs/versions.md
	$(PACKAGING_PYTHON) packaging/run_versions.py $(VERSIONS_ARGS)

.PHONY: licenses
licenses: $(STAMPS)/packaging ## THIRD-PARTY-LICENSES again, from Cargo.lock and the sources of crates
	$(PACKAGING_PYTHON) packaging/third_party.py

# Long: each proof in full, one after the other.
.PHONY: reliability
reliability: develop ## repeat every proof of docs/reliability and write docs/reliability.md anew
	$(BIN)/python docs/generate_reliability.py --run

.PHONY: docs
docs: develop site-packages ## the documentation site, into site/ (DOCS_ARGS="--into DIRECTORY" adds this version to those there)
	$(BIN)/python docs/building/site_build.py $(DOCS_ARGS)

.PHONY: docs-rust
docs-rust: develop ## the documentation of the Rust crates, into target/doc
	$(PYO3_AS_MATURIN) RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked

.PHONY: fmt
fmt: $(STAMPS)/venv ## format everything
	cargo fmt --all
	$(BIN)/ruff check --quiet --fix-only .
	$(BIN)/ruff format .

# uv lives outside .venv: only whoever changes the locked set needs it.
.PHONY: lock
lock: ## requirements/*.lock from requirements/*.in
	test -x .cache/uv/bin/uv || { $(PYTHON) -m venv .cache/uv && .cache/uv/bin/pip install --quiet uv; }
	for set in $(patsubst requirements/%.in,%,$(wildcard requirements/*.in requirements/ecosystem/*.in)); do \
		.cache/uv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
			--no-emit-index-url requirements/$$set.in --output-file requirements/$$set.lock; \
	done

.PHONY: clean
clean: ## everything that was built, fetched or cached
	rm -rf target .venv .cache site dist .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse metastore_db
	find python tests benches -name __pycache__ -prune -exec rm -rf {} +
	rm -f python/deltaplane/_native*.so derby.log
