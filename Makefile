# SPDX-License-Identifier: Apache-2.0 OR MIT
# Front door. Meson, cargo and node do the work; each target sets up what it needs first.
#
#   make          the program: build/kymo
#   make demo     records a real Tokio service and shows what was found
#   make test     the gate: what every change must pass; one closing line
#   make check-all  every variant and the suites on real programs: before a release
#   make soak     what takes hours: statistics, kills, attach rounds, fuzzing
#   make viewer   the page that shows traces: build/viewer/viewer.html
#   make SUITE    one suite of tools/run_tests.py
.DEFAULT_GOAL := all
SUITES = corpus asan tsan valgrind fuzz matrix bare wasm interop perfetto profiles check-s3 check-otlp analysis analysis-deep kill attach-rounds viewer-test
.PHONY: viewer all setup setup-build demo test check-all soak bench lint format clean $(SUITES)

RUN = python3 tools/run_tests.py

all: setup-build
	@tools/build.sh gcc

setup:
	@tools/setup.sh test

setup-build:
	@tools/setup.sh build

# One page: build/viewer/viewer.html. Needs node, clang, lld and the crate zstd-sys.
viewer: setup
	@tools/viewer.sh build

demo: setup-build
	@tools/demo.sh

test: setup
	@$(RUN) gate

check-all soak: setup
	@$(RUN) $@

# For longer than among all the tests.
fuzz: export KYMO_FUZZ_SECONDS ?= 60

$(SUITES): setup
	@$(RUN) $@

lint: setup
	@$(RUN) lint tidy

format: setup
	@python3 tools/tidy.py --format

# ROWS=cost: some areas alone. ROUNDS=3: a quick check. AGAINST=DIR: beside another build's kymo.
bench: setup
	@python3 bench/run.py $(ROWS:%=--only %) $(ROUNDS:%=--rounds %) $(SEED:%=--seed %) \
		$(AGAINST:%=--against %)

clean:
	rm -rf build build-*
