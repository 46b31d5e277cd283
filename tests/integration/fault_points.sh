#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A client is killed at each of its requests, one after the other, before it is executed
# and after: in a change, a pulled value, a lock, an update under a lock, a transaction.
# What it did is all or nothing, and others get its locks.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
[ $soft = 1 ] || skip "only the software device kills at a numbered request"
start_kvd --memory 64M
points_max=100
# For two commands and what a dead client held, well below the lease of ten seconds.
at_once_s=2
is_sanitized && at_once_s=6
step=$((KVD_TEST_SCALE >= 50 ? 1 : 3)) # of a small test, not every one
head -c 100000 /dev/zero | tr '\0' o >"$tmp/old"
head -c 100000 /dev/zero | tr '\0' n >"$tmp/new"

value() { kvcli get "$1" 2>/dev/null || echo absent; }

# one_of WHAT VALUE...
one_of() {
	local got=$1 want
	shift
	for want; do
		[ "$got" != "$want" ] || return 0
	done
	fail "$name, $kind=$n: ${got:0:80} is none of: $*"
}

# walk NAME PREPARE CHECK COMMAND...: until the command has fewer requests than that.
walk() {
	local name=$1 prepare=$2 check=$3 kind n ended before
	shift 3
	for kind in kill_at kill_after; do
		for ((n = 1; n <= points_max; n += step)); do
			$prepare
			ended=0
			SOFTVERBS_FAULT=$kind=$n "$KVD_BUILD/kvcli" -s "$KVD_ADDR" "$@" >/dev/null 2>&1 ||
				ended=$?
			# Whatever it held is given to others at once.
			before=$SECONDS
			expect 0 kvcli lock a --timeout 5s -- true
			expect 0 kvcli lock b --timeout 5s -- true
			[ $((SECONDS - before)) -le $at_once_s ] || fail "$name, $kind=$n: its lock was free after $((SECONDS - before)) s"
			$check
			[ $ended != 0 ] || break
			[ $ended = 137 ] || fail "$name, $kind=$n: status $ended"
		done
		[ $n -gt 1 ] || fail "$name: $kind=1 kills nobody"
		[ $n -le $points_max ] || fail "$name: no end of requests"
		say "$name: $kind=1 to $((n - step))"
	done
}

old() { printf 'put a 1\nput b 1\n' | kvcli >/dev/null || fail "put"; }
large_old() { kvcli put a --file "$tmp/old" && kvcli put b 1 || fail "put"; }

changed() {
	one_of "$(value a)" 1 2
	[ $ended != 0 ] || one_of "$(value a)" 2
}
walk put old changed put a 2
walk update old changed update a -- sh -c 'cat >/dev/null; printf 2'

deleted() {
	one_of "$(value a)" 1 absent
	[ $ended != 0 ] || one_of "$(value a)" absent
}
walk del old deleted del a

unchanged() { one_of "$(value a)" 1; }
walk lock old unchanged lock a -- true

both() {
	one_of "$(value a) $(value b)" '1 1' '2 absent'
	[ $ended != 0 ] || one_of "$(value a)" 2
}
walk txn old both txn 'check a 1' 'check b 1' 'put a 2' 'del b'

whole() {
	kvcli get a >"$tmp/got" || fail "$name, $kind=$n: the value is gone"
	cmp -s "$tmp/got" "$tmp/old" || cmp -s "$tmp/got" "$tmp/new" ||
		fail "$name, $kind=$n: neither the old value nor the new one"
}
walk pull large_old whole put a --file "$tmp/new"
stop_kvd
