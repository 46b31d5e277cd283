#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The disk breaks in the middle of a commit: what was under way is answered "unknown",
# everything after it is refused, GETs go on with the old values; when the disk works
# again kvd takes changes again, and what was unknown is not there, not even after a
# kill -9: the database has what the table has.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
requires_durability
requires cc
! is_sanitized || skip "a sanitizer's runtime has to come first"
cc -shared -fPIC -o "$tmp/bad_disk.so" "$KVD_SOURCE/tests/lib/bad_disk.c" || fail "cc"
export BAD_DISK=$tmp/bad
data=$tmp/data

start_bad() { LD_PRELOAD=$tmp/bad_disk.so start_kvd --memory 64M --workers 2 --data-dir "$data"; }
unset LD_PRELOAD
start_bad
kvcli put key old && kvcli put gone x && kvcli put kept x && kvcli del gone >/dev/null || fail "put"

check_old() {
	expect 0 kvcli get key; prints "old"
	expect 1 kvcli get gone
	expect 1 kvcli get other
	expect 0 kvcli get kept; prints "x"
}
works() { kvcli put again "$1" 2>/dev/null; }

for ((round = 0; round < 4; round++)); do
	: >"$BAD_DISK"
	case $round in
	0) expect 3 kvcli put key new ;;
	1) expect 3 kvcli put gone new ;;
	2) expect 3 kvcli del kept ;;
	3) expect 3 kvcli put key --file <(head -c 100000 /dev/urandom) ;;
	esac
	says "may be found after"
	check_old
	expect 3 kvcli put other new; says "nothing was changed"
	check_old
	[ "$(stat durability.unknown)" = $((round + 1)) ] || fail "$(stat durability.unknown) unknown"
	rm "$BAD_DISK"
	wait_for works $round || fail "no change is taken though the disk works"
	check_old
done
kill_kvd
start_bad
check_old
expect 0 kvcli get again; prints 3
stop_kvd
