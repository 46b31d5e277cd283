#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The same workload on kvd, on Redis and on memcached, and pictures of it.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
start_kvd --memory 64M
stores=(message) sockets=()
compare() {
	"$KVD_BUILD/kvbench" compare "${stores[@]}" "${sockets[@]}" -s "$KVD_ADDR" -q \
		-P workloada -p recordcount=1000 -p dataintegrity=true -t 2 -d 8 "$@"
}
cd "$tmp" || fail "no folder" # workloads are found from anywhere

# add_store NAME LIBRARY COMMAND ARG...: if it can be had.
missing=()
add_store() {
	[ "$("$KVD_BUILD/kvbench" --version | grep -c "$1")" = 1 ] || skip "built without $2"
	command -v "$3" >/dev/null || { missing+=("$3"); return; }
	start "${@:3}" >"$tmp/$1.log" 2>&1
	wait_for test -S "$tmp/$1.sock" || fail "$1 doesn't start"
	stores+=("$1") sockets+=(--socket "$tmp/$1.sock")
}
add_store redis hiredis redis-server --port 0 --unixsocket "$tmp/redis.sock" --save '' --appendonly no
add_store memcached libmemcached memcached -u "$(id -un)" -s "$tmp/memcached.sock" -m 64

expect 0 compare --duration 1 --json a.json --csv run.csv --hdr log
[ "$(flatten <"$tmp/a.json" | grep -c '^compare\.\.overall.failed false')" = $((${#stores[@]} + 1)) ] ||
	fail "a store is missing, or failed"
grep -q '^errors and wrong values' "$tmp/out" || fail "no table"
if grep -q '^PUTs beside one-sided GETs lose' "$tmp/out"; then
	grep -q '^Why PUTs lose: ' "$tmp/out" || fail "nothing is said of why PUTs lose"
fi
for store in kvd "${stores[@]}"; do
	grep -q '^total,READ,' "run-$store.csv" || fail "--csv of $store"
	grep -q '^Tag=READ,' "log-$store" || fail "--hdr of $store"
done
expect 0 "$KVD_BUILD/kvbench" compare message -s "$KVD_ADDR" -q -P workloadc -p recordcount=10 \
	-p operationcount=100 --history history.jsonl
for store in kvd message; do
	[ "$(grep -c '"op":"get"' "history-$store.jsonl")" = 100 ] || fail "--history of $store"
done
expect 2 "$KVD_BUILD/kvbench" load -q -P workloadx; says "cannot open the property file workloadx"
# Shorter than a second of its timeline.
expect 0 compare --duration 400ms --json b.json
expect 2 "$KVD_BUILD/kvbench" compare nobody; says "none of"
expect 3 "$KVD_BUILD/kvbench" compare redis --socket /nowhere/at/all -s "$KVD_ADDR" -q \
	-P "$KVD_SOURCE/bench/workloads/workloadc" -p recordcount=10 -p operationcount=10
stop_kvd

command -v gnuplot >/dev/null || missing+=(gnuplot)
[ ${#missing[@]} = 0 ] || say "not here: ${missing[*]}"
command -v gnuplot >/dev/null || skip "not here: ${missing[*]}"
expect 0 "$KVD_BUILD/kvbench" plot "$tmp/a.json" -o "$tmp/a-"
[ ! -s "$tmp/err" ] || { cat "$tmp/err"; fail "gnuplot's noise"; }
for kind in READ UPDATE; do
	[ "$(grep -c ">$kind<" "$tmp/a-latency.svg")" = 1 ] || fail "no panel of its own for $kind"
done
# named COUNT FILE: a store's name so many times, beside its lines, always in its colour.
named() {
	[ "$(grep -B 1 '>kvd, by message<' "$2" | grep -o 'fill="[^"]*"' | uniq -c | awk '{ print $1 }')" = "$1" ] ||
		fail "kvd by message is not named in its colour $1 times in $2"
}
named 2 "$tmp/a-latency.svg"
named 1 "$tmp/a-throughput.svg"
expect 0 "$KVD_BUILD/kvbench" plot "$tmp/b.json" -o "$tmp/b-"
[ ! -s "$tmp/err" ] || { cat "$tmp/err"; fail "gnuplot's noise"; }
named 1 "$tmp/b-throughput.svg"
for picture in latency throughput; do
	grep -q '</svg>' "$tmp/a-$picture.svg" || fail "no picture $picture"
	grep -q 's)' "$tmp/a-$picture.svg" || fail "no units in $picture"
done
echo '{}' >"$tmp/none.json"
expect 2 "$KVD_BUILD/kvbench" plot "$tmp/none.json"; says "no report"
[ ${#missing[@]} = 0 ] || skip "not here: ${missing[*]}"
