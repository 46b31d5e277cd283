#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A value of 1 GiB, the largest there is, there and back; and a counter of bytes
# that no append takes over it.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
api=$KVD_BUILD/tests/integration/api
[ "$KVD_TEST_SCALE" -ge 100 ] || skip "a full-size test only"
free_kib=$(awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo)
[ "$free_kib" -gt $((8 << 20)) ] || skip "needs 8 GiB of free memory"

start_kvd --memory 2500M
expect 0 "$api" "$KVD_ADDR" large $((1 << 30))
expect 0 kvcli flush --yes
expect 0 "$api" "$KVD_ADDR" append_limit
stop_kvd
