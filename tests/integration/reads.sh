#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# How many READs, and bytes, a GET costs: warm, absent, with the index READ ahead,
# and where four processes read what the others insert.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
api=$KVD_BUILD/tests/integration/api
start_kvd --memory 2G
count=$(scaled 200000) # fewer than 10^5 keys have more overflow nodes
[ "$count" -ge 100000 ] || count=100000

expect 0 "$api" "$KVD_ADDR" reads "$count"
cat "$tmp/err"
expect 0 kvcli flush --yes
pids=()
for i in 1 2 3 4; do
	start "$api" "$KVD_ADDR" latest "$count" "$tmp/shared" 2>"$tmp/latest.$i"
	pids+=("$pid")
done
for pid in "${pids[@]}"; do
	wait_exit "$pid"
	[ "$status" = 0 ] || { cat "$tmp"/latest.*; fail "a reader of the latest"; }
done
cat "$tmp"/latest.*
stop_kvd
