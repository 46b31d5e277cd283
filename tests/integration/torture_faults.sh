#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A device that tears READs, is slow, fails requests or flips bits, at the clients:
# what they get is right all the same.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
[ $soft = 1 ] || skip "only the software device injects faults"
torture=$KVD_BUILD/tests/torture/torture
seconds=$(scaled 2)
faults_min=10
start_kvd --memory 256M --workers 2

# under FAULTS ARG...: sets $retries
under() {
	under_faults "$1" "$torture" -s "$KVD_ADDR" --dir "$tmp" --seconds "$seconds" --clients 3 \
		"${@:2}" >"$tmp/line" || { cat "$tmp/line"; fail "torture with $1"; }
	cat "$tmp/line"
	check_faults "$1" "$tmp/faults"
	retries=$(sed 's/.* \([0-9]*\) retries.*/\1/' "$tmp/line")
}

under seed=1,torn=500 --threads 2
[ "$retries" -gt 0 ] || fail "no READ was torn"
under seed=2,torn=200,delay_us=50 --kill 300
under seed=3,rnr=100
under seed=4,error=3
# The index has no checksum: a key may seem absent, but no byte may be wrong.
under seed=5,flip=50 --value-max 3000
[ "$retries" -gt 0 ] || fail "no flipped bit was noticed"
stop_kvd
