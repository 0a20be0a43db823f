#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# build.sh VARIANT [NINJA-TARGET...] - configures and builds one variant: gcc in build/, any other
# in build-VARIANT/.
set -eu
cd "$(dirname "$0")/.."

variant=${1:?usage: tools/build.sh VARIANT [NINJA-TARGET...]}
shift
directory=build-$variant
options="--buildtype=debugoptimized"
arguments=
compiler=gcc
case "$variant" in
gcc) directory=build ;;
clang) compiler=clang ;;
asan)
	# A null pointer and the bounds of an object are the address sanitizer's: each check costs a
	# twelfth of the time to compile. To compile takes longer than to run (what runs longest is
	# optimized: `busy` of meson.build). A finding ends the program, so no check needs a way
	# back. Lines are all that reports of findings show.
	compiler=clang
	options="-Ddebug=true -Doptimization=0 -Db_sanitize=address,undefined -Db_lundef=false
		-Dc_link_args=-fuse-ld=lld"
	arguments="-fno-sanitize=null,object-size -fno-sanitize-recover=all -gline-tables-only"
	;;
tsan) options="-Ddebug=true -Doptimization=1 -Db_sanitize=thread" ;;
release) options="--buildtype=release -Db_ndebug=true -Dtests=false" ;;
fuzz)
	compiler=clang
	options="-Ddebug=true -Doptimization=1 -Db_sanitize=address,undefined -Db_lundef=false
		-Dfuzzers=true"
	;;
*)
	echo "build: unknown variant '$variant' (gcc clang asan tsan release fuzz)" >&2
	exit 2
	;;
esac
# Without the test libraries the program alone is built: that is all `make` and `make demo` need.
if [ "$variant" = gcc ] && ! pkg-config --exists cmocka; then
	options="$options -Dtests=false"
fi

log=$directory/kymo-setup.log
mkdir -p "$directory"
# Two suites may want the same variant at a time; neither meson nor ninja waits for another.
exec 9>"$directory/kymo-build.lock"
flock 9
if [ ! -f "$directory/build.ninja" ]; then
	echo "build: configuring $directory"
	# shellcheck disable=SC2086 # one word per option
	if ! CC=$compiler meson setup $options -Dwerror="${KYMO_WERROR:-true}" \
		${arguments:+"-Dc_args=$arguments"} "$directory" >"$log" 2>&1; then
		tail -n 30 "$log" >&2
		echo "build: meson could not configure $directory; the log is $log." >&2
		exit 1
	fi
elif pkg-config --exists cmocka && [ "$variant" = gcc ]; then
	meson configure "$directory" -Dtests=true >/dev/null
fi
echo "build: $directory"
ninja -C "$directory" -k 0 ${KYMO_JOBS:+-j "$KYMO_JOBS"} "$@" >"$log" 2>&1 || {
	grep -E -A 12 'error:|FAILED:|undefined reference' "$log" | head -n 60 >&2
	echo "build: $directory does not build; the log is $log." >&2
	exit 1
}
