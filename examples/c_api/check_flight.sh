#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# check_flight.sh FLIGHT KYMO - runs the example and asks kymo what its dumps say.
set -eu
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
KYMO_RING_DIR=$directory/rings
export KYMO_RING_DIR
"$1" "$directory"
status=0
"$1" "$directory" crash || status=$?
[ "$status" -eq 134 ] || {
	echo "example_flight: after abort() its status was $status" >&2
	exit 1
}

check() { # PATTERN-OF-FILE TEXT...
	file=$(find "$directory/flight" -name "$1")
	[ -f "$file" ] || {
		echo "example_flight: no dump $1" >&2
		exit 1
	}
	said=$("$2" info "$file"; "$2" events "$file")
	shift 2
	for text; do
		echo "$said" | grep -qF "$text" || {
			echo "example_flight: $file does not say $text" >&2
			exit 1
		}
	done
}

check 'dump-*-trigger-stuck_poll.trc*' "$2" TriggerEvent StuckThreadEvent http::serve
check 'dump-*-errors.trc*' "$2" 'ten requests failed' shop.region http.errors http::serve
"$2" recover flight --ring-dir="$KYMO_RING_DIR" -o "$directory/recovered" \
	>"$directory/said" 2>&1 || true # what it made is looked at below
file=$(find "$directory/recovered" -name '*.trc*')
[ -f "$file" ] || {
	cat "$directory/said" >&2
	echo "example_flight: nothing recovered" >&2
	exit 1
}
"$2" events "$file" | grep -q 'CrashEvent .*signal=6' || {
	echo "example_flight: the recovered trace does not tell of the abort" >&2
	exit 1
}
