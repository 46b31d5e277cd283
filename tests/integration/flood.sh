#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Malformed messages, and such as come when they must not, to a kvd that others use: each
# ends its connection and is counted, and the others go on. KVD_FLOOD: how many (the whole
# campaign: 100000).
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
attack=$KVD_BUILD/tests/attack/attack
users=$tmp/users
(umask 077; kvd init --users "$users" >"$tmp/admin" 2>/dev/null) || fail "init"
export KVD_CREDENTIALS_FILE=$tmp/admin
start_kvd --memory 64M --users "$users" --handshakes 0
n=${KVD_FLOOD:-$(scaled 3000)}
workload=$KVD_SOURCE/bench/workloads/workloada
kvbench() { "$KVD_BUILD/kvbench" "$1" -s "$KVD_ADDR" -P "$workload" -p recordcount=1000 -t 2 "${@:2}"; }
kvbench load >/dev/null 2>"$tmp/err" || { cat "$tmp/err"; fail "load"; }
rate() { sed -n 's/^\[OVERALL\], Throughput(ops\/sec), //p' "$1"; }
ops=$(scaled 300000)
measure() { kvbench run -p operationcount="$ops" >"$1" 2>"$tmp/err" || { cat "$tmp/err"; fail "run"; }; }
measure "$tmp/alone"
# As from another machine: the processors are not its.
start nice -n 19 "$attack" "$KVD_ADDR" flood "$n" 1 2 "$tmp/admin" >"$tmp/flood"
flood=$pid
started() { [ "$(stat protocol_errors)" -gt 5 ] || gone $flood; }
wait_for started || fail "no flood"
measure "$tmp/during"
alive $flood && say "the flood outlasted the measurement"
wait_for gone $flood; patience_s=3600 wait_exit $flood
cat "$tmp/flood"
[ "$status" = 0 ] || fail "the flood: $status"
measure "$tmp/after"
awk -v a="$(rate "$tmp/alone")" -v d="$(rate "$tmp/during")" -v b="$(rate "$tmp/after")" 'BEGIN {
	alone = (a + b) / 2
	printf "# others: %.0f/s and %.0f/s alone, %.0f/s under the flood: %.0f %%\n", a, b, d, 100 * d / alone }'
say "$(stat protocol_errors) messages were counted as malformed"
[ "$(stat protocol_errors)" -ge $((n * 8 / 10)) ] || fail "not counted"
stop_kvd
