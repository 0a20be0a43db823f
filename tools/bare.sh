#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# bare.sh - the host's side builds with a bare `cc -Iinclude -Isrc`: no build system, no
# configuration header, no generated file, no library. Prints TAP, one case per source. Whoever
# links the library from another build system (a crate's build script) relies on this.
set -eu
cd "$(dirname "$0")/.."

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
count=0
failed=0

result() { # STATUS NAME
	count=$((count + 1))
	if [ "$1" -eq 0 ]; then
		echo "ok $count - $2"
	else
		failed=$((failed + 1))
		echo "not ok $count - $2"
		head -n 12 "$out/log" | sed 's/^/# /'
	fi
}

compile() { # SOURCE OBJECT [OPTION...]
	source=$1
	object=$2
	shift 2
	cc -O2 -Wall -Werror=implicit -Iinclude -Isrc "$@" -c "$source" -o "$object" 2>"$out/log"
}

# Compressors that need a library are the rest of ship/. Where another process drains,
# recorder_plain.c stands in for agent/recorder.c.
sources=$(sed -n '/^[^#]/s,^,src/,p' src/host_sources.txt)
# shellcheck disable=SC2086 # one pattern a word
for source in $sources src/record/recorder_plain.c; do
	status=0
	compile "$source" "$out/$(basename "$source" .c).o" || status=1
	result "$status" "$source"
done

cat >"$out/main.c" <<'EOF'
#include <kymo/emit.h>
#include <kymo/recorder.h>

int main(void)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
	struct kymo_recorder *recorder;

	options.compression = KYMO_COMPRESSION_NONE;
	options.flags = FLAGS;
	if (kymo_recorder_open(&recorder, &options) != 0)
		return 1;
	kymo_poll_begin(1, 0, 0);
	kymo_poll_end(0);
	return kymo_recorder_close(recorder) != 0;
}
EOF

program() { # NAME OBJECT-TO-LEAVE-OUT FLAGS
	status=0
	objects=""
	for object in "$out"/*.o; do
		[ "$(basename "$object")" = "$2" ] || objects="$objects $object"
	done
	mkdir -p "$out/run"
	# shellcheck disable=SC2086 # one word per object
	{ cc -O2 -Wall -Iinclude -DFLAGS="$3" "$out/main.c" $objects -o "$out/program" -lpthread &&
		(cd "$out/run" && ../program); } 2>"$out/log" || status=1
	result "$status" "$1"
}

program "a program that leaves draining to another process records and closes" recorder.o \
	KYMO_RECORDER_NO_DRAIN
# The compressors are libraries: without them the recorder is told so.
compile src/agent/recorder.c "$out/recorder.o" -DKY_WITHOUT_ZSTD -DKY_WITHOUT_GZIP || true
program "a program with its own drain thread records and closes" recorder_plain.o \
	KYMO_RECORDER_STREAM
status=0
find "$out/run" -name '*.trc' -size +0 | grep -q . || status=1
result "$status" "its trace is on disk"
echo "1..$count"
[ "$failed" -eq 0 ]
