#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# check_events.sh EVENTS KYMO - runs the example and reads its events as each command shows them.
set -eu
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
"$1" "$directory"

# wants WHAT TEXT - the text of the last command has this in it.
wants() {
	printf '%s\n' "$got" | grep -qF -- "$2" || {
		printf 'example_events: %s does not say %s:\n%s\n' "$1" "$2" "$got" >&2
		exit 1
	}
}

got=$("$2" events --json --type OrderPlaced "$directory" | sed -n 16p)
wants 'kymo events' '"id":15,"price":3.75,"balance":-15,"is_gift":false,"note":"by hand",'
wants 'kymo events' '"items":[1001,1002,1003],"tags":["new","say \"hi\""],'
wants 'kymo events' '"weights":[["box",1.5],["lid",0.25]],"country":"de","zip":10115'
got=$("$2" events --json --type OrderPlaced "$directory" | sed -n 2p)
wants 'kymo events' '"note":null,"items":[1001],'
wants 'kymo events' '"zip":null'
got=$("$2" query "SELECT count(*), sum(value) FROM custom_values WHERE field = 'id'" "$directory")
wants 'kymo query' '4950'
got=$("$2" query "SELECT unit FROM custom_values WHERE field = 'price' LIMIT 1" "$directory")
wants 'kymo query' 'EUR'
got=$("$2" query "SELECT sum(each.value) FROM custom_values, json_each(custom_values.value) AS each
	WHERE field = 'items'" "$directory")
wants 'kymo query' '150250'
got=$("$2" query "SELECT json_extract(value, '\$[1][1]') FROM custom_values
	WHERE field = 'weights' LIMIT 1" "$directory")
wants 'kymo query' '0.25'
got=$("$2" view OrderPlaced "$directory")
wants 'kymo view' 'by hand'
