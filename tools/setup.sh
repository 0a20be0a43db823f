#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# setup.sh build|test - what a fresh Debian 12 machine lacks: installed as root, named otherwise.
set -eu

build="gcc libc6-dev binutils pkg-config python3 meson ninja-build libzstd-dev zlib1g-dev
	libsqlite3-dev libmicrohttpd-dev libcurl4-gnutls-dev nettle-dev"
test="libcmocka-dev zstd gzip clang clang-format clang-tidy lld llvm libclang-rt-14-dev
	valgrind shellcheck cppcheck util-linux libjemalloc2 faketime openssl chromium"

case "${1:-}" in
build) packages=$build ;;
test) packages="$build $test" ;;
*)
	echo "usage: tools/setup.sh build|test" >&2
	exit 2
	;;
esac

for tool in cargo node; do
	if ! command -v "$tool" >/dev/null 2>&1; then
		echo "setup: $tool is missing; install Rust (https://rustup.rs) and Node 18 or" \
			"newer (apt-get install nodejs), then run make again." >&2
		exit 1
	fi
done

if ! command -v dpkg-query >/dev/null 2>&1; then
	for tool in cc pkg-config python3 meson ninja; do
		command -v "$tool" >/dev/null 2>&1 || {
			echo "setup: $tool is missing, and this system has no dpkg;" \
				"install what Debian calls:" "$packages" >&2
			exit 1
		}
	done
	exit 0
fi

missing=""
for package in $packages; do
	status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
	case "$status" in
	*"ok installed") ;;
	*) missing="$missing $package" ;;
	esac
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" -ne 0 ]; then
	echo "setup: packages are missing; run: sudo apt-get update &&" \
		"sudo apt-get install --no-install-recommends -y$missing" >&2
	exit 1
fi
echo "setup: installing$missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # one word per package
if ! { apt-get update && apt-get install --no-install-recommends -y $missing; } >"$log" 2>&1; then
	tail -n 20 "$log" >&2
	echo "setup: apt-get could not install:$missing (its last lines stand above)." >&2
	exit 1
fi
