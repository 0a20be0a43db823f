#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# check.sh EVENT_LOOP KYMO - runs the example and asks kymo what it saw.
set -eu
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
"$1" "$directory"
events=$("$2" info --json "$directory")
for row in PollStartEvent:3000 PollEndEvent:3000 WakeEventEvent:3000 TaskSpawnEvent:3; do
	want="\"name\":\"${row%:*}\",\"count\":${row#*:},"
	echo "$events" | grep -qF "$want" || {
		echo "example_c_api: kymo info does not say $want" >&2
		echo "$events" >&2
		exit 1
	}
done
"$2" report "$directory" | grep -q report::render || {
	echo "example_c_api: kymo report does not name report::render" >&2
	exit 1
}
