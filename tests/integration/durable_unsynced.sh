#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# --durability async: a sync of the disk fails, and takes with it what was written since the
# one before. These changes were answered, and kvd serves them: when the disk works again,
# they are written once more, in their order, before others are taken. A kill -9 then loses
# none of them.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
requires_durability
requires cc
! is_sanitized || skip "a sanitizer's runtime has to come first"
cc -shared -fPIC -o "$tmp/bad_disk.so" "$KVD_SOURCE/tests/lib/bad_disk.c" || fail "cc"
export BAD_DISK=$tmp/bad
data=$tmp/data

start_bad() {
	LD_PRELOAD=$tmp/bad_disk.so start_kvd --memory 64M --data-dir "$data" --durability async \
		--durability-lag 1000
}
is_synced() { compute "$(stat durability.lag_seconds) == 0"; }
is_failing() { [ "$(stat durability.refusing)" = true ]; }
works() { kvcli put again "$1" 2>/dev/null; }

start_bad
kvcli put key old && kvcli put gone x && kvcli put kept x || fail "put"
for ((round = 0; round < 3; round++)); do
	wait_for is_synced || fail "the disk is not synced"
	echo lose >"$BAD_DISK"
	printf 'put key %s\n' $round.1 $round.2 | cat - <(printf 'put new%s x\ndel gone\n' $round) |
		kvcli >/dev/null || fail "changes before a sync that fails"
	wait_for is_failing || fail "a sync that fails is not seen"
	expect 3 kvcli put other new; says "nothing was changed"
	! is_synced || fail "it says that all is synced"
	expect 0 kvcli get key; prints $round.2
	rm "$BAD_DISK"
	wait_for works $round || fail "no change is taken though the disk works"
	kill_kvd
	start_bad
	expect 0 kvcli get key; prints $round.2
	expect 0 kvcli get new$round; prints x
	expect 1 kvcli get gone
	expect 0 kvcli get kept; prints x
	expect 0 kvcli get again; prints $round
	kvcli put gone x || fail "put"
done
stop_kvd
