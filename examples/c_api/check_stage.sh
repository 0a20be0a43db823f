#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# check_stage.sh STAGE - what it is offered arrives whole, and a place that is full is asked again.
set -eu
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
printf 'TRC\0' >"$directory/from"
"$1" "$directory/from" "$directory" >/dev/null
cmp "$directory/from" "$directory/web-0123abcd-42-777-000000.trc"
mkdir "$directory/web-0123abcd-42-777-000000.trc.part"
"$1" "$directory/from" "$directory" | grep -q "^1 .* cannot be written"
