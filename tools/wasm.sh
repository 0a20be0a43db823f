#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# wasm.sh - builds the reading engine for wasm32 with the distribution's clang and lld, and compares
# it in node with the native build: same traces, same bytes.
set -eu
cd "$(dirname "$0")/.."
output=build/wasm
mkdir -p "$output"

sources=$(printf '%s\n' src/wire/*.c src/read/*.c src/analyze/*.c src/analyze/findings/*.c)
sources="$sources src/base/alloc.c src/base/buf.c src/base/byte_source.c src/base/error.c
	src/base/json_write.c src/base/text.c src/base/utf8.c"
flags="-std=gnu11 -O2 -ffp-contract=off -Iinclude -Isrc"

# shellcheck disable=SC2086 # one word per source and flag
clang --target=wasm32 -nostdlib -ffreestanding -mbulk-memory $flags \
	-isystem src/analyze/wasm/include \
	-fvisibility=hidden -Wl,--no-entry -Wl,--max-memory=4294967296 -Wl,-z,stack-size=262144 \
	-Wl,--export=kymo_wasm_alloc,--export=kymo_wasm_free,--export=kymo_wasm_open \
	-Wl,--export=kymo_wasm_canonical,--export=kymo_wasm_result \
	-Wl,--export=kymo_wasm_result_bytes \
	-o "$output/kymo.wasm" $sources src/analyze/wasm/engine.c src/analyze/wasm/libc.c
tools/build.sh gcc test/wasm/canonical >&2

KYMO_WASM=$output/kymo.wasm KYMO_CANONICAL=build/test/wasm/canonical node --test test/wasm/
