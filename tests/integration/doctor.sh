#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# kvcli doctor and kvd --check look at the machine without a server: a line each, ok, or
# what to type; what is wrong makes the status 1.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"

for program in "$KVD_BUILD/kvcli doctor" "$KVD_BUILD/kvd --check --memory 64M"; do
	status=0
	$program >"$tmp/out" 2>"$tmp/err" || status=$?
	say "$program: $status"
	[ $status -le 1 ] || fail "status $status: $(cat "$tmp/err")"
	grep -Eqv '^(ok|note|FIX) ' "$tmp/out" && fail "a line of another kind: $(cat "$tmp/out")"
	for what in 'atomics' 'locked memory' 'huge pages' 'MTU'; do
		grep -q "$what" "$tmp/out" || fail "nothing about $what: $(cat "$tmp/out")"
	done
	[ $status = "$(grep -c '^FIX' "$tmp/out" | sed 's/[1-9][0-9]*/1/')" ] ||
		fail "status $status of: $(cat "$tmp/out")"
done

# The limit of locked memory, for who may not lock all: named with its remedy.
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	unlocked=(setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock prlimit --memlock=65536)
	"${unlocked[@]}" "$KVD_BUILD/kvd" --check --memory 64M >"$tmp/out" && fail "a limit of 64 KiB is well"
	grep '^FIX .*locked memory .*64 KiB.*ulimit -l unlimited' "$tmp/out" || fail "$(cat "$tmp/out")"
fi

# Devices' counters with what they mean; on a machine without, it says so.
expect "$([ -e /sys/class/infiniband ] && [ "$(ls /sys/class/infiniband)" ] && echo 0 || echo 1)" \
	"$KVD_BUILD/kvcli" counters --all
if [ -e /sys/class/infiniband/rxe_a ]; then
	grep -q 'retry_exceeded_err .*! a peer never acknowledged' "$tmp/out" || fail "$(cat "$tmp/out")"
fi
