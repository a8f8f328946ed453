# The project's commands. `make` lists them.

CARGO ?= cargo
SECONDS ?= 600
SEEDS ?=

.DEFAULT_GOAL := help
.PHONY: help demo test lint bench soak fmt

help: ## List the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

demo: ## Show the scheduler at work (for now: a simulated morning on two clusters)
	@echo "The demo on real Ray clusters comes with the Python SDK. Until then: the real"
	@echo "scheduler core on virtual time, a morning of 60 jobs on the two clusters of"
	@echo "examples/cluster.yaml, and what two other settings would have changed."
	@echo
	@$(CARGO) run --quiet -p multicluster-simulator --example simulate -- \
	  --config examples/cluster.yaml --workload examples/workloads/morning.csv \
	  --capacity centos=32cpu,4gpu,128GiB --capacity mac=10cpu,32GiB \
	  --compare submission_interval=5s --compare policies=spread:1

test: ## Run every test, the seeded simulation included (SEEDS=n for more worlds)
	$(if $(SEEDS),SIM_SEEDS=$(SEEDS)) $(CARGO) test --workspace --lib --tests --examples

lint: ## Check formatting and lints
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

bench: ## Measure the core; writes target/bench/core.json
	$(CARGO) bench -p multicluster-core --bench core

soak: ## Simulate seeded worlds for SECONDS (default 600)
	SIM_SECONDS=$(SECONDS) $(CARGO) test -p multicluster-core --test simulation every_invariant -- --nocapture

fmt: ## Format the sources
	$(CARGO) fmt --all
