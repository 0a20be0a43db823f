#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# viewer_wasm.sh OUTPUT.wasm - the viewer's engine for wasm32: the reading side of this tree, and
# the decoder of libzstd, whose source lies in the crate zstd-sys.
set -eu
output=$(realpath -m "$1")
cd "$(dirname "$0")/.."
objects=$output.objects
rm -rf "$objects"
mkdir -p "$objects/include/sys"

metadata="cargo metadata --manifest-path src/rust/Cargo.toml --format-version 1"
manifest=$($metadata --offline 2>/dev/null || $metadata)
zstd=$(printf '%s' "$manifest" | python3 -c 'import json, os, sys
print(next(os.path.dirname(package["manifest_path"])
           for package in json.load(sys.stdin)["packages"]
           if package["name"] == "zstd-sys"))')/zstd/lib

# The names of system calls are those of the machine that builds.
printf '#include <sys/syscall.h>\n' | cc -E -dM - |
	awk '/^#define __NR_[a-z0-9_]+ [0-9]+$/ { sub(/^__NR_/, "SYS_", $2); print }' |
	sort >"$objects/include/sys/syscall.h"
cat >"$objects/include/sys/utsname.h" <<END
struct utsname { char machine[16]; };
static inline int uname(struct utsname *out)
{
	__builtin_memcpy(out->machine, "$(uname -m)", sizeof("$(uname -m)"));
	return 0;
}
END

sources=$(printf '%s\n' src/wire/*.c src/read/*.c src/analyze/*.c src/lanes/*.c src/lanes/wasm/*.c)
sources="$sources src/export/export.c src/export/lines.c src/export/reasons.c"
# Analysis made small is as fast here, measured over 10 M events, and a fifth of the page less.
small=$(printf '%s\n' src/analyze/findings/*.c)
for source in $sources; do
	case $source in
	*_json.c | src/analyze/* | src/export/*) small="$small $source" ;;
	*) fast="${fast-} $source" ;;
	esac
done
sources=$fast
sources="$sources src/report/syscall_name.c src/base/alloc.c src/base/buf.c src/base/byte_source.c
	src/base/error.c src/base/json_write.c src/base/text.c src/base/utf8.c"
unpack="$zstd/common/entropy_common.c $zstd/common/error_private.c $zstd/common/fse_decompress.c
	$zstd/common/zstd_common.c $zstd/common/xxhash.c $zstd/decompress/huf_decompress.c
	$zstd/decompress/zstd_ddict.c $zstd/decompress/zstd_decompress.c
	$zstd/decompress/zstd_decompress_block.c"
# Not -ffreestanding: it makes a call of each memcpy of two bytes, a third of the time to decode.
target="--target=wasm32 -nostdlibinc -mbulk-memory -msimd128 -O3 -fvisibility=hidden
	-Werror=implicit-function-declaration -Werror=int-conversion
	-isystem src/analyze/wasm/include"

# As many at once as there are CPUs; ccache, where it is in the way, makes the second time short.
compile() { # PREFIX FLAG... -- SOURCE...
	prefix=$1
	shift
	flags=""
	while [ "$1" != -- ]; do
		flags="$flags $1"
		shift
	done
	shift
	# shellcheck disable=SC2086 # one word per flag
	printf '%s\n' "$@" | awk -v at="$objects/$prefix" '{ print at NR ".o"; print }' |
		xargs -n 2 -P "${KYMO_JOBS:-$(nproc)}" clang $target $flags -c -o
}

# shellcheck disable=SC2086 # one word per source
compile k -flto -std=gnu11 -ffp-contract=off -Iinclude -Isrc -I"$zstd" \
	-isystem "$objects/include" -- $sources
# shellcheck disable=SC2086
compile s -flto -Os -std=gnu11 -ffp-contract=off -Iinclude -Isrc -- $small
# shellcheck disable=SC2086
compile z -flto -DZSTD_DISABLE_ASM -DZSTD_TRACE=0 -DZSTD_LEGACY_SUPPORT=0 -DNDEBUG \
	-DDEBUGLEVEL=0 -- $unpack
# Calls to what it defines are made while linking, so it is no part of link-time optimisation.
compile libc -ffreestanding -std=gnu11 -- src/analyze/wasm/libc.c

exports=""
# shellcheck disable=SC2013 # names without blanks
for name in $(sed -n 's/^[a-zK].*[ *]\(kymo_[a-z_]*\)(.*/\1/p' src/lanes/wasm/viewer.h); do
	[ "$name" = kymo_host_read ] || exports="$exports -Wl,--export=$name"
done
# Linked with less inlining: a third smaller, and over 10 M events no slower.
# shellcheck disable=SC2086 # one word per export
clang --target=wasm32 -nostdlib -flto -O3 -Wl,--lto-O2 -Wl,-mllvm,-inline-threshold=50 \
	-Wl,--no-entry -Wl,--strip-all -Wl,--max-memory=4294967296 \
	-Wl,-z,stack-size=262144 -Wl,--stack-first $exports -o "$output" "$objects"/*.o
rm -rf "$objects"
