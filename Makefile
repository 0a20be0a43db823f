# SPDX-License-Identifier: Apache-2.0 OR MIT
# Front door. Meson, cargo and node do the work; each target sets up what it needs first.
#
#   make          the program: build/kymo
#   make demo     records a real Tokio service and shows what was found
#   make test     every test; one closing line
#   make analysis-deep  static analysis without a bound on paths: four times as long
#   make attach-rounds  200 times attach and detach under load
#   make kill     1,000 times SIGKILL at a random moment, and 100 times of a Tokio program,
#                 recovered and compared
.DEFAULT_GOAL := all
.PHONY: all setup setup-build demo test asan tsan valgrind fuzz bench matrix lint format bare wasm \
	interop analysis analysis-deep kill attach-rounds clean

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
	@$(RUN)

# For longer than among all the tests.
fuzz: export KYMO_FUZZ_SECONDS ?= 60

asan tsan valgrind fuzz matrix bare wasm interop analysis analysis-deep kill attach-rounds: setup
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
