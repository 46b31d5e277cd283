#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# kvbench's bank: the total is the same in every audit, also when another bank is killed
# in the middle; and read-modify-writes under locks, of which none is lost or refused.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
start_kvd --memory 64M
bench() { "$KVD_BUILD/kvbench" "$@" -s "$KVD_ADDR"; }
seconds=$(scaled 3)

start "$KVD_BUILD/kvbench" bank -s "$KVD_ADDR" --accounts 50 --threads 2 --duration 60 --seed 7 \
	>/dev/null
killed=$pid
wait_for kvcli exists bank:49 >/dev/null 2>&1 || fail "the accounts are not opened"
expect 0 bench bank --accounts 50 --threads 2 --duration "$seconds" --json "$tmp/bank.json"
kill -KILL "$killed"
wait_exit "$killed"
expect 0 bench bank --accounts 50 --threads 1 --duration 0.2
grep -q 'total  *50000  in every audit' "$tmp/out" || fail "total: $(cat "$tmp/out")"
grep -q '"wrong_totals": 0' "$tmp/bank.json" || fail "json: $(cat "$tmp/bank.json")"

# An account that somebody else changed: the total differs, and that is told.
expect 0 kvcli put bank:0 1000000
expect 0 bench bank --accounts 50 --duration 0.2
grep -q 'total  *50000 ' "$tmp/out" && fail "a changed account is not noticed"

f=$KVD_SOURCE/bench/workloads/workloadf
expect 0 bench load -q -P "$f" -p recordcount=20 -p dataintegrity=true
expect 0 bench run -q -P "$f" -p recordcount=20 -p dataintegrity=true --threads 3 \
	--duration "$seconds" --rmw locked
grep -q 'READ-MODIFY-WRITE\], Return=OK, [1-9]' "$tmp/out" || fail "no read-modify-write"
grep -q 'Return=ERROR' "$tmp/out" && fail "some failed: $(cat "$tmp/out")"
expect 2 bench run -q -P "$f" -p recordcount=20 --duration 1 --rmw locked --depth 2
says 'one operation at a time'
expect 2 "$KVD_BUILD/kvbench" run -q -s noop: -P "$f" -p recordcount=20 --duration 1 --rmw locked
