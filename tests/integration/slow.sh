#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# --slow: a request that has to wait for a lock is told, with peer, key and time; quick
# ones are not.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
start_kvd --slow 300
kvcli put quick value || fail "put"
kvcli stats --json | flatten | grep -q '^locks.available true' || skip "no locks on this device"
mkfifo "$tmp/go" "$tmp/up"
begun=0
long_enough() { [ $(($(date +%s%N) - begun)) -gt 400000000 ]; }
# A change waits while another holds its key; kvd refuses it after two seconds.
wait_aside() {
	local before holder writer
	before=$(stat operations.set_aside)
	aside() { [ "$(stat operations.set_aside)" -gt "$before" ]; }
	start kvcli lock "name 1" -- sh -c "echo >'$tmp/up'; cat '$tmp/go'"
	holder=$pid
	read -r -t $patience_s <"$tmp/up" || fail "the lock is not held"
	start kvcli put "name 1" value
	writer=$pid
	wait_for aside || fail "the change does not wait"
	begun=$(date +%s%N)
	wait_for long_enough
	echo >"$tmp/go"
	wait_exit "$holder"
	wait_exit "$writer"
}
for try in 1 2 3 4 5; do # a slow build on a busy machine needs the two seconds to see it wait
	wait_aside
	[ "$status" = 3 ] || break
done
[ "$status" = 0 ] || fail "the change that waited: $status"
told() { grep -Eq 'warning: slow: put of [^ ]+ took [0-9.]+ ms \(key name\.1, 5 bytes\)' "$kvd_log"; }
wait_for told || fail "the slow change is not told"
! grep -q 'key quick' "$kvd_log" || fail "a quick one is told as slow"
stop_kvd
