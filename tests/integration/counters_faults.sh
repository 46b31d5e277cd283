#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Locked increments on devices with trouble: acknowledgements that are lost, requests
# that fail, torn READs, atomics that the CPU's don't see: exact all the same.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
[ $soft = 1 ] || skip "only the software device injects faults"
counters=$KVD_BUILD/tests/torture/counters

# exact_under SERVER CLIENTS: faults of kvd's device, and of theirs.
exact_under() {
	rm -f "$tmp/kvd.faults"
	SOFTVERBS_FAULT=$1 SOFTVERBS_FAULT_LOG=$tmp/kvd.faults start_kvd --memory 64M
	say "kvd: ${1:-no faults}; clients: $2"
	under_faults "$2" "$counters" "$KVD_ADDR" 8 "$(scaled 20000 4000)" 5 5 || fail "the counters are wrong"
	check_faults "$2" "$tmp/faults"
	stop_kvd
	check_faults "$1" "$tmp/kvd.faults"
}
exact_under '' seed=1,ack_lost=20
exact_under '' seed=2,error=10
exact_under '' seed=3,torn=50,flip=20,rnr=20
exact_under '' seed=4,ack_lost=5,error=3,delay_us=20
exact_under seed=5,error=5 seed=5,ack_lost=5

# Atomics that are atomic among each other only: what excludes others holds still.
noncoherent=seed=6,noncoherent=1
exact_under $noncoherent $noncoherent
SOFTVERBS_FAULT=$noncoherent start_kvd --memory 64M --workers 2
export SOFTVERBS_FAULT=$noncoherent
"$KVD_BUILD/tests/torture/locks" "$KVD_ADDR" exclusion $((KVD_TEST_SCALE * 3 / 10 + 10)) || fail "two in one lock"
"$KVD_BUILD/tests/torture/bank" "$KVD_ADDR" 8 $((2 * KVD_TEST_SCALE / 100 + 1)) 200 5 ||
	fail "the bank lost or made money"
unset SOFTVERBS_FAULT
stop_kvd
