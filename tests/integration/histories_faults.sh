#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A device that tears READs, is slow, or fails requests, so that connections break and are made
# again, at clients that do operations of all kinds on the same few keys: the answers can be
# explained all the same.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
[ $soft = 1 ] || skip "only the software device injects faults"
faults_min=10
seconds=$(scaled 15 3)
seed=${KVD_HISTORIES_SEED:-1}
start_kvd --memory 64M --workers 2

# under FAULTS [UNTIL]: with UNTIL a lock may be lost without its holder's knowing
under() {
	under_faults "$1" "$KVD_BUILD/tests/torture/histories/histories" "$KVD_ADDR" 5 "$seconds" 2 \
		"$seed" "${@:2}" || fail "histories with $1"
	seed=$((seed + 1))
}

under seed=1,torn=500
under seed=2,torn=200,delay_us=50
under seed=3,rnr=100
under seed=4,error=3 "$tmp/never"
stop_kvd
