#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A kvd whose lock protocol is broken on purpose fails the tests of locks within a
# minute, whichever rule it breaks; one that is only slow passes.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
requires make sed
[ -e "$KVD_BUILD/Makefile" ] && [ -d "$KVD_SOURCE/tests/mutations" ] ||
	skip "no build folder and source to make another kvd from"
mutations=$KVD_SOURCE/tests/mutations
real_build=$KVD_BUILD

# build_broken MUTATION...: a build folder $tmp/build with that kvd.
build_broken() {
	local m file
	rm -rf "$tmp/build" "$tmp/source"
	mkdir -p "$tmp/build" "$tmp/source"
	for m in "$@"; do
		file=$(sed -n '1s/^# //p' "$mutations/$m.sed")
		[ -e "$tmp/source/$(basename "$file")" ] || cp "$KVD_SOURCE/$file" "$tmp/source"
		cp "$tmp/source/$(basename "$file")" "$tmp/before"
		sed -i -f "$mutations/$m.sed" "$tmp/source/$(basename "$file")"
		! cmp -s "$tmp/before" "$tmp/source/$(basename "$file")" ||
			fail "$m changes nothing: $file was changed, change the mutation"
	done
	make -s -C "$real_build" broken-kvd BROKEN_SOURCES="$(echo "$tmp"/source/*.c)" \
		BROKEN_KVD="$tmp/build/kvd" >"$tmp/make.log" 2>&1 ||
		{ cat "$tmp/make.log"; fail "$*: does not build"; }
}

# run_case CASE SIZE SECONDS: against that kvd; its status, 124 where it took longer.
run_case() {
	local rc=0 limit=$3
	set -- "$1" "$2"
	case $1 in
	exclusion) set -- exclusion "$2" --workers 2 ;;
	stopped) set -- stopped 300 --lease 300 ;;
	esac
	KVD_BUILD=$tmp/build start_kvd --memory 64M "${@:3}"
	timeout -k 1 "$limit" "$real_build/tests/torture/locks" "$KVD_ADDR" "$1" "$2" \
		>"$tmp/case.log" 2>&1 || rc=$?
	kill_kvd
	# A machine that has no time for a client tells nothing of the protocol.
	! grep -q 'got nothing done' "$tmp/case.log" || rc=0
	return $rc
}

build_broken slow
run_case exclusion "$(scaled 100)" 300 || { cat "$tmp/case.log"; fail "a kvd that is only slow"; }
for file in "$mutations"/*.sed; do
	mutation=$(basename "$file" .sed)
	[ "$mutation" != slow ] || continue
	build_broken slow "$mutation"
	case=$(sed -n '2s/^# //p' "$file") before=$SECONDS rc=0
	# It takes a coincidence: as often as fits into a minute, and no longer.
	while [ $rc = 0 ] && [ $((SECONDS - before)) -lt 60 ]; do
		run_case "$case" 400 $((60 - SECONDS + before)) || rc=$?
	done
	[ $rc != 0 ] && [ $rc != 124 ] || fail "$mutation: nobody notices within a minute"
	say "$mutation: noticed after $((SECONDS - before)) s: $(head -1 "$tmp/case.log")"
done
