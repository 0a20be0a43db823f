#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# check_flight.sh FLIGHT KYMO - runs the example, lets it crash, and asks kymo what there is.
set -eu
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
mkdir "$directory/rings"
export KYMO_RING_DIR="$directory/rings"

fail() {
	echo "example_flight: $1" >&2
	shift
	printf '%s\n' "$@" >&2
	exit 1
}

said=$("$1" "$directory/dumps")
echo "$said" | grep -q '^rules made 1 of 3 dumps$' || fail "the rule made no dump" "$said"
info=$("$2" info "$directory"/dumps/flight/dump-*-deploy.trc*)
for pair in 'kymo.dump.label *before release 7' 'kymo.dump.reason *deploy'; do
	echo "$info" | grep -q "^$pair$" || fail "the dump does not say $pair" "$info"
done
if "$1" "$directory/dumps" crash >/dev/null 2>&1; then
	fail "it should have crashed"
fi
said=$("$2" recover --ring-dir "$directory/rings" -o "$directory")
echo "$said" | grep -q 'SIGSEGV.*address 0x10$' || fail "recover does not tell of the crash" "$said"
