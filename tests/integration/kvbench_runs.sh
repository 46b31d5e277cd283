#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# kvbench loads, runs workloads with every value checked, and reports in forms that others read.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
start_kvd --memory 128M
workloads=$KVD_SOURCE/bench/workloads
records=$(scaled 5000) operations=$(scaled 20000)
bench() { "$KVD_BUILD/kvbench" "$1" -s "$KVD_ADDR" -q -p recordcount="$records" "${@:2}"; }
# figure PATH: of the last report.
figure() { flatten <"$tmp/report.json" | awk -v path="$1" '$1 == path { print $2; n++; exit } END { exit !n }' ||
	fail "no $1 in the report"; }

expect 0 bench load -P "$workloads/workloada" -p dataintegrity=true -t 2 -d 8
loaded=$(kvcli keys | head -n 1) # others come with workload D
for workload in a b c d f; do
	expect 0 bench run -P "$workloads/workload$workload" -p dataintegrity=true -t 4 -d 16 \
		-p operationcount="$operations" --warmup 100 --json "$tmp/report.json" \
		--csv "$tmp/report.csv" --hdr "$tmp/report.hdr"
	[ "$(figure overall.operations)" = "$operations" ] || fail "$workload: operations"
	[ "$(figure integrity.wrong)" = 0 ] || fail "$workload: wrong values"
	[ "$(figure integrity.missing)" = 0 ] || fail "$workload: missing values"
	compute "$(figure integrity.ok) > 0" || fail "$workload: nothing was checked"
	grep -q '^\[READ\], 99thPercentileLatency(us), ' "$tmp/out" || fail "$workload: no text"
	[ -s "$tmp/report.csv" ] && [ -s "$tmp/report.hdr" ] || fail "$workload: no csv, no hdr"
done
expect 2 bench run -P "$workloads/workloade" -p operationcount=10
says "keeps no order"

# A value that is not what it must be fails the run.
expect 0 kvcli put "$loaded" "something else"
expect 1 bench run -P "$workloads/workloadc" -p dataintegrity=true -p operationcount="$records" \
	-p requestdistribution=sequential
says "were not what"

# A GET answered by the server costs no READ, and is counted there.
expect 0 bench run -P "$workloads/workloadc" -p operationcount=1000 --get message \
	--json "$tmp/report.json"
[ "$(figure verbs.read)" = 0 ] || fail "READs by message"
[ "$(figure server.gets_served)" = 1000 ] || fail "kvd served other than 1000 GETs"
[ "$(figure verbs.fallbacks)" = 0 ] || fail "what was asked for is no fallback"

# What kvbench costs itself, of the processor's time: a fraction of a microsecond.
if ! is_sanitized; then
	count=1000000
	children_s() {
		times >"$tmp/times"
		awk 'NR == 2 { split($0, t, "[ms ]+"); print t[1] * 60 + t[2] + t[3] * 60 + t[4] }' "$tmp/times"
	}
	children_s >"$tmp/before"
	expect 0 "$KVD_BUILD/kvbench" run -q -s noop: -P "$workloads/workloada" -p recordcount=1000 -p operationcount=$count
	children_s >"$tmp/after"
	before=$(cat "$tmp/before") after=$(cat "$tmp/after")
	say "kvbench itself: $(awk "BEGIN { print ($after - $before) * 1e9 / $count }") ns an operation"
	compute "($after - $before) * 1e9 / $count <= 1000" || fail "kvbench costs too much itself"
	compute "$after > $before" || fail "it proves nothing: no time passed"
fi

# At a set rate.
expect 0 bench run -P "$workloads/workloada" -p operationcount=200 --target 1000 \
	--json "$tmp/report.json"
compute "$(figure overall.seconds) > 0.15" || fail "faster than the target"
stop_kvd
