#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# bare.sh - the host's side builds with a bare `cc -Iinclude -Isrc`: no build system, no
# configuration header, no generated file, no library. Prints TAP, one case per source. Whoever
# links the library from another build system (a crate's build script) relies on this.
set -eu
cd "$(dirname "$0")/.."

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
# Stages that need a library are ship/'s; the host's side has the store alone.
set -- src/base/*.c src/wire/*.c src/record/*.c src/record/*/*.c src/drain/*.c src/ship/store*.c
count=0
failed=0
cases=""
for source in "$@"; do
	[ -f "$source" ] && cases="$cases $source"
done
for source in $cases; do
	count=$((count + 1))
	object=$out/$(echo "$source" | tr / _).o
	if cc -O2 -Wall -Werror=implicit -Iinclude -Isrc -c "$source" -o "$object" \
		2>"$out/log"; then
		echo "ok $count - $source"
	else
		failed=$((failed + 1))
		echo "not ok $count - $source"
		head -n 12 "$out/log" | sed 's/^/# /'
	fi
done

count=$((count + 1))
cat >"$out/main.c" <<'EOF'
#include <kymo/emit.h>
#include <kymo/recorder.h>

int main(void)
{
	struct kymo_recorder *recorder;
	int rc = kymo_recorder_open(&recorder, 0);

	kymo_poll_begin(1, 0, 0);
	kymo_poll_end(0);
	return rc != 0 || kymo_recorder_close(recorder) != 0;
}
EOF
if [ "$failed" -eq 0 ] &&
	cc -O2 -Wall -Iinclude "$out/main.c" "$out"/*.o -o "$out/program" -lpthread 2>"$out/log" &&
	(cd "$out" && ./program) 2>>"$out/log"; then
	echo "ok $count - a program linked with them records and closes"
else
	echo "not ok $count - a program linked with them records and closes"
	head -n 12 "$out/log" | sed 's/^/# /'
	failed=$((failed + 1))
fi
echo "1..$count"
[ "$failed" -eq 0 ]
