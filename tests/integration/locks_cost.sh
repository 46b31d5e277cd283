#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A lock that nobody else wants: one round trip together with its GET, and a locked
# update at most three times a compare-and-swap and a message; and where atomics take
# longer than the post, so that the unlock ends in the middle of something else.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
start_kvd --memory 64M
"$KVD_BUILD/tests/torture/lockcost" "$KVD_ADDR" "$(scaled 20000)" || fail "locks cost too much"
stop_kvd

[ $soft = 1 ] || exit 0
# Atomics that a thread of kvd's carries out take some 50 us.
export SOFTVERBS_FAULT=seed=6,noncoherent=1
start_kvd --memory 64M
"$KVD_BUILD/tests/torture/lockcost" "$KVD_ADDR" 100 || fail "locks of slow atomics"
unset SOFTVERBS_FAULT
stop_kvd
