#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A lock that nobody else wants: one round trip together with its GET, an unlock that is
# not waited for, and a locked update at most three times a compare-and-swap and a message;
# and where atomics take longer than the post, so that the unlock ends in the middle of
# something else.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"

# A program with a sanitizer, beside other tests, says nothing of times (status 3).
lockcost() {
	local rc=0
	"$KVD_BUILD/tests/torture/lockcost" "$@" || rc=$?
	[ $rc = 0 ] || { [ $rc = 3 ] && is_sanitized; }
}

start_kvd --memory 64M
lockcost "$KVD_ADDR" "$(scaled 20000 2000)" || fail "locks cost too much"
stop_kvd

[ $soft = 1 ] || exit 0
# Requests that take a millisecond each: an unlock that is waited for takes one, too.
start_kvd --memory 64M
SOFTVERBS_FAULT=delay_us=1000 lockcost "$KVD_ADDR" 50 >"$tmp/out" ||
	{ cat "$tmp/out"; fail "locks of slow requests"; }
grep '^unlock: ' "$tmp/out" || fail "it proves nothing: no request was slow"
stop_kvd

# Atomics that a thread of kvd's carries out take some 50 us.
export SOFTVERBS_FAULT=seed=6,noncoherent=1
start_kvd --memory 64M
lockcost "$KVD_ADDR" 1000 || fail "locks of slow atomics"
unset SOFTVERBS_FAULT
stop_kvd
