#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# rust_test.sh FILE - the unit tests of one Rust file that needs no crate.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
rustc --test --edition 2021 -o "$dir/tests" "$1"
RUST_BACKTRACE=0 "$dir/tests" --quiet
