#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A kvd whose lock protocol is broken on purpose fails the tests of locks within a
# minute, whichever rule it breaks, and by what clients must never see, not by being slow;
# one that is only slow passes.
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
		mkdir -p "$tmp/source/$(dirname "$file")"
		[ -e "$tmp/source/$file" ] || cp "$KVD_SOURCE/$file" "$tmp/source/$file"
		cp "$tmp/source/$file" "$tmp/before"
		sed -i -f "$mutations/$m.sed" "$tmp/source/$file"
		! cmp -s "$tmp/before" "$tmp/source/$file" ||
			fail "$m changes nothing: $file was changed, change the mutation"
	done
	make -s -C "$real_build" broken-kvd BROKEN_SOURCES="$(find "$tmp/source" -name '*.c' -printf '%p ')" \
		BROKEN_KVD="$tmp/build/kvd" >"$tmp/make.log" 2>&1 ||
		{ cat "$tmp/make.log"; fail "$*: does not build"; }
}

# take_cpu_s: sets cpu_s, the processors' time of what has ended, in seconds.
take_cpu_s() {
	times >"$tmp/times"
	cpu_s=$(awk 'NR == 2 { split($0, t, "[ms ]+"); print int(t[1] * 60 + t[2] + t[3] * 60 + t[4]) }' "$tmp/times")
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
	return $rc
}

build_broken slow
# A machine that has no time for a client tells nothing of the protocol.
run_case exclusion "$(scaled 100)" 300 || grep -q 'it proves nothing' "$tmp/case.log" ||
	{ cat "$tmp/case.log"; fail "a kvd that is only slow"; }
for file in "$mutations"/*.sed; do
	mutation=$(basename "$file" .sed)
	[ "$mutation" != slow ] || continue
	build_broken slow "$mutation"
	case=$(sed -n '2s/^# //p' "$file") evidence=$(sed -n '3s/^# Seen: //p' "$file")
	[ -n "$evidence" ] || fail "$mutation: what is seen of it?"
	before=$SECONDS seen=no rc=0
	take_cpu_s
	cpu_end=$((cpu_s + 60))
	# It takes a coincidence: as often as fits into a minute, and no longer; of the
	# processors' time, where others have most of it.
	while [ $((SECONDS - before)) -lt 60 ] || { [ "$cpu_s" -lt $cpu_end ] && [ $((SECONDS - before)) -lt 300 ]; }; do
		run_case "$case" 400 60 || rc=$?
		take_cpu_s
		if grep -q -E "FAILED: $evidence" "$tmp/case.log"; then
			seen=yes
			break
		fi
		[ $rc = 0 ] || say "$mutation: not by $(grep -h -m 1 FAILED "$tmp/case.log")"
	done
	[ $seen = yes ] || fail "$mutation: nobody notices within a minute"
	say "$mutation: noticed after $((SECONDS - before)) s: $(grep -h -m 1 FAILED "$tmp/case.log")"
done
