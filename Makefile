# `make help` lists the targets. Everything is built in one profile, into one directory outside the checkout, so that RocksDB
# is compiled once. The packages and features that a command selects decide with which features all others are built: TESTS
# selects the same for every test, so that nothing is compiled twice for them; demo and benchmarks get the features they ship with.

export CARGO_TARGET_DIR ?= $(HOME)/.cache/helve/target
# Colour and progress bars only where somebody looks.
CARGO = cargo
STEP = .ci/step
# How long `make soak` goes on.
HOURS ?= 1
# Arguments for the demo, the benchmarks and the chaos suite, as in: make demo ARGS="--flows 200 --keep"
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help tools build-tools compose-tools build demo test check unit tests chaos-short compose-test chaos planted soak fix bench

TESTS = $(CARGO) test --locked --workspace --features helve-tests/planted
CHAOS = $(TESTS) --test chaos --

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
	@$(MAKE) --no-print-directory check tests chaos-short compose-test

check: tools ## Format, lints, documentation and the tidy rules
	@$(STEP) "format" $(CARGO) fmt --all --check
	@$(STEP) "clippy" $(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	@$(STEP) "clippy, planted bugs compiled in" \
	    $(CARGO) clippy --locked --workspace --all-targets --features helve-tests/planted -- -D warnings
	@$(STEP) "clippy, chaos and compose" \
	    $(CARGO) clippy --locked --workspace --features helve-tests/planted --test chaos --test compose -- -D warnings
	@$(STEP) "client alone" $(CARGO) check --locked --package helve-client
	@$(STEP) "client alone, in memory" $(CARGO) check --locked --package helve-client --no-default-features --features memory
	@RUSTDOCFLAGS="-D warnings" $(STEP) "documentation" $(CARGO) doc --locked --workspace --no-deps
	@$(STEP) "tidy" $(TESTS) --test it -- tidy::

unit: tools ## Unit tests alone, and the machine's properties and story scripts
	@$(STEP) "the machine as it ships" $(CARGO) test --locked --package helve-machine
	@$(STEP) "unit" $(TESTS) --lib --bins

tests: tools ## Unit tests, properties, stories, conformance on every host, faults, bad input, planted bugs, the demo
	@$(STEP) "the machine as it ships" $(CARGO) test --locked --package helve-machine
	@$(STEP) "unit and integration" $(TESTS) --lib --bins --tests -- --skip tidy::
	@$(STEP) "documentation tests" $(TESTS) --doc

compose-test: compose-tools ## deploy/compose.yaml: up, broken, rolled and taken down, where a Docker engine answers
	@$(STEP) "compose" $(TESTS) --test compose --

chaos-short: tools ## The fixed short part of the chaos suite
	@$(STEP) "chaos, the short part" $(CHAOS) --short

chaos: tools ## All faults, at least 20 seeds, at most 20 minutes; or what is asked for (ARGS="--seed 7 --fault kill-leader")
	@$(STEP) "chaos" $(CHAOS) $(or $(ARGS),--minutes 16 --rounds 1)

planted: tools ## Each planted bug is found by the chaos test that is there for it
	@$(STEP) "planted bugs" $(CHAOS) --planted all $(ARGS)

fix: tools ## Format, and mend what clippy can mend
	@$(CARGO) fmt --all
	@$(CARGO) clippy --workspace --all-targets --fix --allow-dirty --allow-staged

bench: build-tools ## Operations a second, latency and fsyncs of three nodes (ARGS="--seconds 10 --output json")
	@$(STEP) "benchmarks of the machine" $(CARGO) bench --locked --package helve-machine --profile dev --bench apply
	@$(STEP) "benchmarks of three nodes" $(CARGO) bench --locked --package helve-tests --profile dev --bench cluster -- $(ARGS)

soak: tools ## All faults, round after round, with seeds that nobody has run before (HOURS=8)
	@$(STEP) "soak, $(HOURS) h" $(CHAOS) --hours $(HOURS) $(ARGS)
