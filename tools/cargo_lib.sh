#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# cargo_lib.sh MANIFEST TARGET_DIR ARCHIVE OUTPUT - builds a static library with cargo, by its lock
# file, and makes OUTPUT of ARCHIVE (a name in TARGET_DIR/release). After the first time it needs no
# network.
#
# Of Rust's standard library and the crates what is used stays, and all that is not ours (ky_*)
# becomes local.
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
built=$target/release/$archive
roots=$(nm --defined-only "$built" 2>/dev/null | awk '$2 == "T" && $3 ~ /^ky_/ {print "-u " $3}')
object=$output.o
# shellcheck disable=SC2086 # one word per symbol
ld -r --gc-sections $roots -o "$object" "$built"
objcopy --wildcard --keep-global-symbol='ky_*' --strip-debug "$object"
rm -f "$output"
ar crD "$output" "$object"
rm -f "$object"
