# `make help` lists the targets. Everything is built in one profile, into one directory outside the checkout, so that RocksDB
# is compiled once. The packages that a command selects decide with which features the others are built: those chosen here give
# the demo, the integration tests and the benchmarks the same ones, and none of them a test's.

export CARGO_TARGET_DIR ?= $(HOME)/.cache/helve/target
# Colour and progress bars only where somebody looks.
CARGO = cargo
STEP = .ci/step
# How often `make soak` repeats.
N ?= 10
# Arguments for the demo and the benchmarks, as in: make demo ARGS="--flows 200 --keep"
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help tools build-tools compose-tools build demo test check unit integration compose-test fix bench soak

help: ## Say what can be made
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' $(MAKEFILE_LIST) | expand -t 20

tools:
	@.ci/tools

build-tools:
	@.ci/tools build

compose-tools:
	@.ci/tools compose

build: build-tools ## Build the `helve` binary and say where it is
	@$(STEP) "build" $(CARGO) build --locked --workspace --bin helve
	@echo "$(CARGO_TARGET_DIR)/debug/helve"

demo: build ## Three nodes, two MCP servers, and the leader killed in the middle (ARGS="--flows 200")
	@"$(CARGO_TARGET_DIR)/debug/helve" demo $(ARGS)

test: tools ## Everything that a change must pass
	@$(MAKE) --no-print-directory check unit integration compose-test

check: tools ## Format, lints, documentation and the tidy rules
	@$(STEP) "format" $(CARGO) fmt --all --check
	@$(STEP) "clippy" $(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	@$(STEP) "clippy, planted bugs compiled in" \
	    $(CARGO) clippy --locked --workspace --all-targets --features helve-tests/planted -- -D warnings
	@$(STEP) "client alone" $(CARGO) check --locked --package helve-client
	@$(STEP) "client alone, in memory" $(CARGO) check --locked --package helve-client --no-default-features --features memory
	@RUSTDOCFLAGS="-D warnings" $(STEP) "documentation" $(CARGO) doc --locked --workspace --no-deps
	@$(STEP) "tidy" $(CARGO) test --locked --package helve-tests --features planted --test it -- tidy::

unit: tools ## Unit tests, properties, story scripts, the log store's suite, documentation tests
	@$(STEP) "unit, properties, stories, log store" $(CARGO) test --locked --workspace --exclude helve-tests
	@$(STEP) "README" $(CARGO) test --locked --package helve-tests --features planted --doc

integration: tools ## Conformance on every host, faults, bad input, planted bugs, the demo and the demo that must fail
	@$(STEP) "integration" $(CARGO) test --locked --package helve-tests --features planted \
	    --test it -- --skip tidy::

compose-test: compose-tools ## deploy/compose.yaml: up, broken, rolled and taken down, where a Docker engine answers
	@$(STEP) "compose" $(CARGO) test --locked --package helve-tests --features planted --test compose

fix: tools ## Format, and mend what clippy can mend
	@$(CARGO) fmt --all
	@$(CARGO) clippy --workspace --all-targets --fix --allow-dirty --allow-staged

bench: build-tools ## Operations a second, latency and fsyncs of three nodes (ARGS="--seconds 10 --output json")
	@$(STEP) "benchmarks of the machine" $(CARGO) bench --locked --package helve-machine --profile dev --bench apply
	@$(STEP) "benchmarks of three nodes" $(CARGO) bench --locked --package helve-tests --profile dev --bench cluster -- $(ARGS)

soak: build tools ## The demo and the faults, N=10 times each
	@for round in $$(seq 1 $(N)); do \
	    $(STEP) "demo, round $$round of $(N)" "$(CARGO_TARGET_DIR)/debug/helve" demo $(ARGS) || exit 1; \
	done
	@$(CARGO) test --locked --package helve-tests --features planted --no-run
	@for round in $$(seq 1 $(N)); do \
	    $(STEP) "faults, round $$round of $(N)" $(CARGO) test --locked --package helve-tests --features planted \
	        --test it -- --skip tidy:: --skip demo:: || exit 1; \
	done
