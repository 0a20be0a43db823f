#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# viewer.sh [build|smoke|test|measure FILE|pictures] - makes build/viewer/viewer.html; with smoke or
# test, tries it in a browser, too: smoke is the shortest way through it, test is everything.
# measure says how fast the page is with a trace; pictures makes those of the README, after
# `make demo`.
set -eu
cd "$(dirname "$0")/.."
output=build/viewer
mkdir -p "$output"

if ! cmp -s viewer/package-lock.json "$output/installed-lock.json" || [ ! -d viewer/node_modules ]
then
	(cd viewer && npm ci --no-audit --no-fund --loglevel=error >&2)
	cp viewer/package-lock.json "$output/installed-lock.json"
fi
newer=$(find src/base src/wire src/read src/analyze src/export src/lanes include \
	src/report/syscall_name.c tools/viewer_wasm.sh -newer "$output/engine.wasm" -print \
	2>/dev/null | head -n 1 || true)
if [ ! -f "$output/engine.wasm" ] || [ -n "$newer" ]; then
	tools/viewer_wasm.sh "$output/engine.wasm"
fi
(cd viewer && node_modules/.bin/tsc -p . && node build.mjs "../$output/engine.wasm" \
	"../$output/viewer.html") >&2
[ "${1:-build}" != build ] || exit 0

tools/build.sh gcc kymo test/wasm/canonical bench/read/bench_read >&2
export KYMO_ENGINE=$output/engine.wasm KYMO_CANONICAL=build/test/wasm/canonical KYMO=build/kymo
export KYMO_VIEWER=$output/viewer.html KYMO_MAKE_TRACE=build/bench/read/bench_read
[ "$1" != measure ] || exec node test/viewer/measure.mjs "$2"
if [ "$1" = pictures ]; then
	build/kymo html --force -o "$output/demo.html" build/demo/*/latest/000000.trc.zst
	exec node test/viewer/pictures.mjs "$output/demo.html" docs/pictures
fi
if [ "$1" = smoke ]; then
	exec node --test --test-reporter=tap test/viewer/smoke.test.mjs
fi
exec node --test --test-reporter=tap --test-concurrency=1 test/viewer/
