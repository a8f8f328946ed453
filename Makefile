# The project's commands. `make` lists them.

CARGO ?= cargo
SECONDS ?= 600
HOURS ?= 24
SEEDS ?=
PROFILE ?= dist
# pytest workers beside each other, such as 2: each has two Ray clusters of its own, about 1.2 GB.
WORKERS ?= 0

.DEFAULT_GOAL := help
.PHONY: help demo build program page env console test rust-test console-test ray-test integrations fakes lint wheels release release-test bench compat load head chaos soak worlds simulate traces fmt

help: ## List the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

demo: ## Two Ray clusters on this machine, the users' program on both, and why it ran where
	@echo "[1/2] build the control plane and its console, install Ray (minutes on a fresh clone)"
	@$(MAKE) --no-print-directory -j3 program page env
	@echo "[2/2] the demo"
	@scripts/python-env python examples/demo.py

build: program page ## Build the control plane with its console (target/debug/ray-multicluster)

program:
	$(CARGO) build -p multicluster-cli

page:
	@if command -v npm >/dev/null; then scripts/console; else echo "no npm: without the web console" >&2; fi

env:
	@scripts/python-env

console: ## Only the web console (console/dist); the control plane takes it from there
	@scripts/console

test: ## Run every test (SEEDS=n for more simulated worlds)
	@echo "[1/3] Rust: unit tests, the seeded simulation, every benchmark for seconds"
	@$(MAKE) --no-print-directory rust-test
	@echo "[2/3] the console's own tests"
	@$(MAKE) --no-print-directory console-test
	@echo "[3/3] two real Ray clusters, the SDK, the command line, a browser"
	@$(MAKE) --no-print-directory ray-test

rust-test: ## Only the tests in Rust, the seeded simulation included
	$(if $(SEEDS),SIM_SEEDS=$(SEEDS)) $(CARGO) test --workspace --lib --bins --tests --examples --benches
	$(CARGO) test --quiet --doc -p multicluster-ray -p multicluster-testkit

console-test: ## Only the console's own tests, without a browser
	@scripts/console test

ray-test: build fakes ## Only the tests on two real Ray clusters, the console's in a browser among them
	E2E_PATIENCE=$${E2E_PATIENCE:-2} scripts/python-env pytest tests -n $(WORKERS)

integrations: build ## Airflow 2, Airflow 3 and Dagster, installed and run on two real Ray clusters: minutes
	@scripts/integrations

fakes:
	$(CARGO) build -p multicluster-testkit --example fake_ray

chaos: build fakes ## Break everything under load: ten minutes alone, two hours with replicas; writes the tables in docs/reliability.md
	CHAOS_JOBS=$${CHAOS_JOBS:-1000} CHAOS_ROUNDS=$${CHAOS_ROUNDS:-3} CHAOS_REPORT=docs/reliability.md \
	  E2E_PATIENCE=$${E2E_PATIENCE:-2} scripts/python-env pytest tests/chaos tests/history -s
	REPLICA_FAULTS=$${REPLICA_FAULTS:-1000} REPLICA_DATABASES=1 CHAOS_REPORT=docs/reliability.md \
	  E2E_PATIENCE=$${E2E_PATIENCE:-2} scripts/python-env pytest tests/replicas -s
	E2E_PATIENCE=$${E2E_PATIENCE:-2} PYTHONPATH=tests:python scripts/python-env python -m chaos.classes docs/reliability.md

lint: ## Check formatting and lints
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	scripts/python-env ruff check tests python examples deploy
	scripts/python-env ruff format --check tests python examples deploy
	scripts/python-env mypy
	@scripts/console check
	@scripts/check-macos

wheels: console ## Build both wheels into target/wheels (PROFILE=dev: quick, not for others)
	scripts/python-env maturin build --locked --profile $(PROFILE) --strip --out target/wheels
	cd python && ../scripts/python-env hatchling build --target wheel --directory ../target/wheels

release: console ## Build both wheels, the source distribution and checksums into target/released, and test them
	@PROFILE=$(PROFILE) scripts/release
	@$(MAKE) --no-print-directory release-test

release-test: build ## Only the tests of target/released: each installed without Node, and used
	RELEASED=target/released E2E_PATIENCE=$${E2E_PATIENCE:-2} \
	  scripts/python-env pytest tests/sdk/test_wheels.py tests/sdk/test_example.py -k 'wheels or conda'

bench: ## Measure everything beside what people use instead; writes docs/benchmarks.md (PARTS="core tasks")
	PYTHONPATH=tests:python scripts/python-env python -m benchmarks $(PARTS)

head: build ## 500 jobs to one small Ray head, directly and through us: forty minutes, as root
	PYTHONPATH=tests:python scripts/python-env python -m benchmarks.head

compat: build ## The end-to-end core on five Rays and five Pythons; writes docs/compatibility.md
	COMPAT=all COMPAT_REPORT=$(CURDIR)/docs/compatibility.md \
	  E2E_PATIENCE=$${E2E_PATIENCE:-2} scripts/python-env pytest tests/compat

simulate: ## A simulated morning on two clusters, and what other settings would have changed
	@$(CARGO) run --quiet -p multicluster-simulator --example simulate -- \
	  --config examples/cluster.yaml --workload examples/workloads/morning.csv \
	  --capacity centos=32cpu,4gpu,128GiB --capacity mac=10cpu,32GiB \
	  --compare submission_interval=5s --compare policies=spread:1

traces: ## Every policy on recorded workloads; writes docs/scheduling-quality.md (TRACES=folder)
	@CARGO="$(CARGO)" scripts/traces $(TRACES)

load: fakes ## Two minutes of load on fake clusters; fails if anything grows (LOAD_SECONDS, LOAD_RATE)
	$(CARGO) build --release -p multicluster-cli
	LOAD_SECONDS=$${LOAD_SECONDS:-120} LOAD_RATE=$${LOAD_RATE:-30} LOAD_WATCHERS=$${LOAD_WATCHERS:-20} \
	RAY_MULTICLUSTER_BIN=$${RAY_MULTICLUSTER_BIN:-target/release/ray-multicluster} \
	  scripts/python-env pytest -s tests/performance

# What waits for the network is not optimised otherwise: see Cargo.toml.
OPTIMISED = $(foreach crate,api ray server testkit,--config profile.dev.package.multicluster-$(crate).opt-level=2)

soak: ## A day under load on virtual time; fails if memory or disk grow (HOURS=24)
	SOAK_HOURS=$(HOURS) $(CARGO) $(OPTIMISED) test -p multicluster-server --lib soak::a_day -- --nocapture

worlds: ## Simulate seeded worlds of the core, with one and with several control planes, for SECONDS each (default 600)
	SIM_SECONDS=$(SECONDS) $(CARGO) test -p multicluster-core --test simulation every_invariant_holds_in -- --nocapture
	SIM_SECONDS=$(SECONDS) $(CARGO) test -p multicluster-core --test simulation every_invariant_holds_with -- --nocapture

fmt: ## Format the sources
	$(CARGO) fmt --all
	scripts/python-env ruff format tests python examples deploy
