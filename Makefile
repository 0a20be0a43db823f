# SPDX-License-Identifier: Apache-2.0 OR MIT
# Front door. Meson, cargo and node do the work; each target sets up what it needs first.
#
#   make          the program: build/kymo
#   make demo     records a real Tokio service and shows what was found
#   make test     the gate: what every change must pass; one closing line
#   make check-all  every variant and the suites on real programs: before a release
#   make soak     what takes hours: statistics, kills, attach rounds, fuzzing
#   make SUITE    one suite of tools/run_tests.py
.DEFAULT_GOAL := all
SUITES = asan tsan valgrind fuzz matrix bare wasm interop analysis analysis-deep kill attach-rounds
.PHONY: all setup setup-build demo test check-all soak bench lint format clean $(SUITES)

RUN = python3 tools/run_tests.py

all: setup-build
	@tools/build.sh gcc

setup:
	@tools/setup.sh test

setup-build:
	@tools/setup.sh build

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

# ROUNDS=3 for a quick look.
bench: setup
	@python3 bench/run.py $(if $(ROUNDS),--rounds $(ROUNDS))

clean:
	rm -rf build build-*
