# Everything that is done to this repository has a target here; `make` alone lists them.
#
# A target that needs a tool has it looked for, and installed where that is possible, by
# scripts/need.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := help
.PHONY: help run test test-system format lint unit doc tidy deny advisories msrv fuzz-smoke python \
	wheels fuzz soak faults bench golden clean

# Tests and benchmarks read as if nothing had been measured of this machine.
export STOOK_PROFILE_DIR :=

# Seconds per fuzz target, in `make fuzz` and in `make test`.
SECONDS ?= 60
SMOKE_SECONDS ?= 6

# step NAME: a headline with the time since the step before, so that a slow one is seen.
step = @printf '== %s (%s)\n' '$(1)' "$$(date -u +%H:%M:%S)"

help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' Makefile

run: ## Pack many small files, load them, compare and plot. DIR=… takes an own folder.
	@scripts/need rust
	cargo build --release --locked -p stook-cli
	target/release/stook study many-small-files --work target/study --out target/study $(if $(DIR),--dir '$(DIR)')

# One recipe rather than prerequisites: the order is that of the cost of finding a fault, also under
# -j. `tidy` is not among them, because it is a test of xtask and so a part of `unit`.
test: ## Check everything. As root it ends with the tests that need root.
	@for target in format lint doc deny unit msrv fuzz-smoke python; do $(MAKE) "$$target"; done
	@if [ "$$(id -u)" = 0 ]; then \
		$(MAKE) test-system; \
	else \
		printf '%s\n' '== left out, because this is not root: make test-system'; \
		cargo test --quiet --locked --test system -- --list --format terse; \
	fi

test-system: ## Test what needs root: loop devices, dropped caches, mounts.
	$(call step,system tests)
	@scripts/need rust system
	@[ "$$(id -u)" = 0 ] || { echo 'make test-system needs root'; exit 1; }
	cargo test --locked --test system -- --test-threads=1

format: ## Check the formatting.
	$(call step,format)
	@scripts/need rust
	cargo fmt --all --check

lint: ## Run clippy on all targets.
	$(call step,lint)
	@scripts/need rust
	cargo clippy --quiet --locked --profile lint --all-targets --all-features -- -D warnings
	cargo clippy --quiet --locked --profile lint -p stook-python -- -D warnings

unit: ## Run the tests that need no privilege.
	$(call step,tests)
	@scripts/need rust archives lists web
	cargo test --quiet --locked

doc: ## Build the documentation; a broken link is an error.
	$(call step,documentation)
	@scripts/need rust
	RUSTDOCFLAGS='-D warnings' cargo doc --quiet --locked --profile lint --no-deps --document-private-items

tidy: ## Check the rules that no compiler knows.
	$(call step,tidy)
	@scripts/need rust
	cargo run --quiet --locked --profile lint -p xtask -- tidy

deny: ## Check licences, sources and versions of the dependencies.
	$(call step,dependencies)
	@scripts/need rust deny
	target/tools/bin/cargo-deny --log-level error --locked check --hide-inclusion-graph licenses bans sources

advisories: ## Check the dependencies for known vulnerabilities (needs GitHub).
	$(call step,advisories)
	@scripts/need rust deny
	target/tools/bin/cargo-deny --locked check advisories

msrv: ## Build what is published with the oldest compiler that is promised.
	$(call step,oldest compiler)
	@scripts/need rust msrv
	version=$$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml); \
	cargo "+$$version.0" check --quiet --locked --profile lint -p stook -p stook-mount -p stook-serve -p stook-study -p stook-cli

fuzz-smoke:
	$(call step,fuzz targets)
	@scripts/need rust fuzz
	scripts/fuzz '$(SMOKE_SECONDS)'

python: ## Test the Python parts.
	$(call step,python)
	@scripts/need rust torch fuse compiler
	python3 -m unittest discover --start-directory tests/python
	scripts/python test

wheels: ## Build release wheels into target/wheels/release.
	@scripts/need rust
	scripts/python wheels

fuzz: ## Fuzz: TARGET=… (default: all) for SECONDS=… each.
	@scripts/need rust fuzz
	scripts/fuzz '$(SECONDS)' $(TARGET)

soak: ## Soak a pack for SECONDS=… (3600 for an hour): kills, compactions, readers, an outside log; 200 killed copies; 1,000 mounts; a bad sector at every block; whole sweeps, also of failing and full file systems.
	@scripts/need rust system
	STOOK_BAD_BLOCKS=all cargo test --release --locked -p stook-cli --test system -- unreadable --nocapture
	STOOK_SWEEPS=whole cargo test --release --locked -p stook-cli --test system -- faults:: copy:: mount:: --test-threads=1 --nocapture
	STOOK_SWEEPS=whole cargo test --release --locked -p stook --test it
	cargo build --release --locked -p stook-testing --bin soak
	cargo build --release --locked -p stook-cli
	dir=$$(mktemp -d); target/release/soak copies "$$dir" target/release/stook --seed "$$RANDOM"; rm -rf "$$dir"
	dir=$$(mktemp -d); target/release/soak "$$dir" --seconds '$(SECONDS)' --seed "$$RANDOM"; rm -rf "$$dir"

faults: ## Let each operation of packs, tar, unzip, copiers, SQLite and LMDB fail; writes benchmarks/runs/. MOST=0 tries each.
	@scripts/need rust system archives copiers
	@[ "$$(id -u)" = 0 ] || { echo 'make faults needs root'; exit 1; }
	cargo build --release --locked -p stook-cli
	cargo run --release --locked -p stook-peers -- faults $(if $(MOST),--most '$(MOST)')

bench: ## Compare with other systems; writes benchmarks/runs/.
	@scripts/need rust system
	cargo run --release --locked -p stook-peers -- pack
	cargo run --release --locked -p stook-peers -- bench
	cargo run --release --locked -p stook-peers -- sparse
	cargo run --release --locked -p stook-peers -- gather
	@scripts/need archives copiers
	cargo build --release --locked -p stook-cli
	cargo run --release --locked -p stook-peers -- stitch
	cargo run --release --locked -p stook-peers -- unpack
	cargo run --release --locked -p stook-peers -- copy
	@scripts/need lists
	cargo run --release --locked -p stook-peers -- verify

golden: ## Write the golden packs anew (only for a new version of the format).
	@scripts/need rust
	STOOK_WRITE_GOLDEN=1 cargo test --quiet --locked -p stook --test it -- --exact \
		pack::golden::golden_packs_are_made_byte_for_byte_as_when_they_were_committed

clean: ## Remove what was built and what fuzzing left.
	cargo clean
	rm -rf fuzz/artifacts fuzz/corpus-run
