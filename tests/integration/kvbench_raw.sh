#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Raw verbs with a peer of kvbench's own, between the operations of a run, and lists
# of blocks.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
device=(${KVD_TEST_DEVICE:+--device "$KVD_TEST_DEVICE"})
raw() { "$KVD_BUILD/kvbench" raw "${device[@]}" --duration 20ms --json "$tmp/report.json" "$@"; }
lines() { flatten <"$tmp/report.json" | grep -c '^raw\.\.operation '; }
figure() { flatten <"$tmp/report.json" | awk -v path="$1" '$1 == path { print $2; n++; exit } END { exit !n }' ||
	fail "no $1 in the report"; }

expect 0 raw --address "$KVD_TEST_ADDR" --size 64 --size 4K
[ "$(lines)" = 12 ] || fail "seven verbs, five of them of two sizes, are 12 lines"
check_log "$tmp/err"
expect 0 raw --address "$KVD_TEST_ADDR" --size 1 --depth 32 --batch 8 --signal 4 --inline 0
expect 0 raw --address "$KVD_TEST_ADDR" --op send --op READ --poll event --size 100K
[ "$(lines)" = 2 ] || fail "two verbs are two lines"
expect 0 raw --address "$KVD_TEST_ADDR" --op READ --size 4K --size 1M --memory plain
[ "$(lines)" = 2 ] && [ "$(figure config.memory)" = plain ] || fail "memory of the peer's own"
expect 2 raw --op none; says "none of READ"

# Each transport has its verbs, and says which it lacks.
of() { flatten <"$tmp/report.json" | grep -c "^raw\.\.transport $1\$"; }
expect 0 raw --address "$KVD_TEST_ADDR" --transport all --size 64 --size 1K
[ "$(of RC) $(of UC) $(of UD)" = "12 8 4" ] || fail "lines of the transports: $(of RC) $(of UC) $(of UD)"
! flatten <"$tmp/report.json" | grep -E '^raw\.\.(count|per_second) 0(\.0)?$' || fail "a figure of nothing"
expect 0 raw --address "$KVD_TEST_ADDR" --transport ud --poll event --inline 0 --op SEND
expect 0 raw --address "$KVD_TEST_ADDR" --transport uc --size 100K --op WRITE_WITH_IMM --op SEND
expect 2 raw --transport ud --op READ; says "UD has no READ; it has SEND and SEND_WITH_IMM"
expect 2 raw --transport uc --op CAS; says "UC has no CAS; it has WRITE"
expect 2 raw --transport uc --relay 1; says "--relay is for --transport rc"
expect 3 raw --address "$KVD_TEST_ADDR" --transport ud --size 8K; says "more than a datagram on this path"
expect 2 raw --depth 4 --batch 8; says "--depth"

# Another process answers, many times.
start "$KVD_BUILD/kvbench" raw "${device[@]}" --listen "$KVD_TEST_ADDR" >"$tmp/where" 2>"$tmp/peer.log"
wait_for test -s "$tmp/where" || fail "the peer doesn't listen"
expect 0 raw -s "$(cat "$tmp/where")" --op FADD --op SEND_WITH_IMM
expect 0 raw -s "$(cat "$tmp/where")" --op WRITE_WITH_IMM
# What listens there is no kvd, and a kvd is no peer.
expect 3 "$KVD_BUILD/kvbench" run -s "$(cat "$tmp/where")" -q -P "$KVD_SOURCE/bench/workloads/workloadc" \
	-p recordcount=10 -p operationcount=10 "${device[@]}"
check_log "$tmp/peer.log"
start_kvd --memory 64M
expect 3 raw -s "$KVD_ADDR"

# Each GET and PUT beside its verb.
bench() { "$KVD_BUILD/kvbench" "$1" -s "$KVD_ADDR" -q -P "$KVD_SOURCE/bench/workloads/workloada" \
	-p recordcount=500 -p operationcount=2000 "${device[@]}" "${@:2}"; }
expect 0 bench load
expect 0 bench run --warmup 2000 --with-raw --json "$tmp/report.json"
for pair in READ.ratio.p50 MESSAGE.ratio.p50 READ.raw.p50_us READ.GET.p50_us MESSAGE.PUT.p50_us; do
	compute "$(figure with_raw.$pair) > 0" || fail "$pair"
done
[ "$(figure verbs.send)" -le 1200 ] || fail "raw messages stand among those of the operations"
expect 2 bench run --with-raw -d 2; says "one at a time"
expect 2 bench run --with-raw --target 10; says "one at a time"
stop_kvd

expect 0 "$KVD_BUILD/kvbench" sg "${device[@]}" --address "$KVD_TEST_ADDR" -k 40 --max 64 --duration 10ms \
	--json "$tmp/report.json"
[ "$(flatten <"$tmp/report.json" | grep -c '^sg\.\.list_us ')" = 6 ] || fail "sg: six lines"
