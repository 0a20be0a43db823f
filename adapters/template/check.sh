#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# check.sh EXAMPLE KYMO - runs the example; its trace has what the loop did while it was recorded.
set -eu
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
"$1" "$directory"
info=$("$2" info --json "$directory")
for row in PollStartEvent:200 PollEndEvent:200 WakeEventEvent:200 TaskSpawnEvent:2 \
	TaskTerminateEvent:2 RuntimeEvent:1; do
	want="\"name\":\"${row%:*}\",\"count\":${row#*:},"
	echo "$info" | grep -qF "$want" || {
		echo "adapters/template: kymo info does not say $want" >&2
		echo "$info" >&2
		exit 1
	}
done
for word in '"source.toy":"on"' '"name":"toy"' '"name":"loop.depth"' '"serve"'; do
	"$2" events --json "$directory" | grep -qF "$word" || {
		echo "adapters/template: kymo events does not have $word" >&2
		exit 1
	}
done
