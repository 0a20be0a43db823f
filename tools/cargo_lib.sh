#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# cargo_lib.sh MANIFEST TARGET_DIR ARCHIVE OUTPUT - builds a static library with cargo, by its lock
# file, and copies ARCHIVE (a name in TARGET_DIR/release) to OUTPUT. After the first time it needs
# no network.
set -eu
manifest=$1
target=$2
archive=$3
output=$4

# Flags meant for C (a sanitizer's, say) are not for it.
unset RUSTFLAGS CFLAGS LDFLAGS 2>/dev/null || true
log=$output.log
build() {
	cargo build --locked --release --quiet --manifest-path "$manifest" \
		--target-dir "$target" "$@"
}
if ! build --offline 2>"$log" && ! build 2>"$log"; then
	cat "$log" >&2
	echo "cargo_lib: $manifest could not be built; its crates are fetched once, from the" \
		"registry that cargo is configured for" >&2
	exit 1
fi
cp "$target/release/$archive" "$output"
