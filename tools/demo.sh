#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# demo.sh [--check] - records an ordinary Tokio service for five seconds under load and shows what
# was found; the trace stays in build/demo. With --check the findings are tested and TAP is printed.
set -eu
cd "$(dirname "$0")/.."

check=""
case "${1:-}" in
"") ;;
--check) check=1 ;;
*)
	echo "usage: tools/demo.sh [--check]" >&2
	exit 2
	;;
esac

say() {
	[ -n "$check" ] || printf '\n==> %s\n' "$*"
}

trace=build/demo
[ -z "$check" ] || trace=build/demo-check
service=build/cargo/demo/release/demo-service

say "building kymo"
tools/build.sh gcc kymo adapters/tokio/libkymo-preload.so >&2
say "building the service: examples/demo-service, axum on stable Tokio, no dependency on kymo"
cargo build --locked --release --manifest-path examples/demo-service/Cargo.toml \
	--target-dir build/cargo/demo ${check:+--quiet} >&2

rm -rf "$trace"
say "recording it, unmodified, for five seconds: build/kymo run -o $trace -- $service"
build/kymo run -o "$trace" -- "$service" --load-seconds 5 >&2
if [ -n "$check" ]; then
	exec python3 tools/check_demo.py build/kymo "$trace"
fi
say "build/kymo info $trace"
build/kymo info "$trace"
say "build/kymo report $trace"
build/kymo report "$trace"
