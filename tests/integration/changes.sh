#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Changes that depend on what is there: conditions, counters, append. What they
# refuse is left as it was, and costs no memory.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
api=$KVD_BUILD/tests/integration/api
start_kvd --memory 64M

for case in conditions counters append; do
	say "$case"
	expect 0 "$api" "$KVD_ADDR" $case
	expect 0 kvcli flush --yes
done
[ "$(stat operations.incr)" -gt 20 ] || fail "the counters' messages are not counted"
[ "$(stat operations.append)" -gt 20 ] || fail "the appends' messages are not counted"

expect 0 "$api" "$KVD_ADDR" bad_input 100
used=$(stat memory.used_bytes)
expect 0 "$api" "$KVD_ADDR" bad_input "$(scaled 20000)"
grown=$(($(stat memory.used_bytes) - used))
say "memory grew by $grown bytes"
[ $grown -le 65536 ] || fail "refused changes cost memory"
stop_kvd
