#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The same workload on kvd, on Redis and on memcached, and pictures of it.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
start_kvd --memory 64M
stores=(message) sockets=()
compare() {
	"$KVD_BUILD/kvbench" compare "${stores[@]}" "${sockets[@]}" -s "$KVD_ADDR" -q \
		-P "$KVD_SOURCE/bench/workloads/workloada" -p recordcount=1000 -p dataintegrity=true \
		--duration 1 -t 2 -d 8 --json "$tmp/a.json"
}

# add_store NAME LIBRARY COMMAND ARG...: if it can be had.
add_store() {
	command -v "$3" >/dev/null || { say "no $3 here"; return; }
	[ "$("$KVD_BUILD/kvbench" --version | grep -c "$1")" = 1 ] || { say "built without $2"; return; }
	start "${@:3}" >"$tmp/$1.log" 2>&1
	wait_for test -S "$tmp/$1.sock" || fail "$1 doesn't start"
	stores+=("$1") sockets+=(--socket "$tmp/$1.sock")
}
add_store redis hiredis redis-server --port 0 --unixsocket "$tmp/redis.sock" --save '' --appendonly no
add_store memcached libmemcached memcached -u "$(id -un)" -s "$tmp/memcached.sock" -m 64

expect 0 compare
[ "$(flatten <"$tmp/a.json" | grep -c '^compare\.\.overall.failed false')" = $((${#stores[@]} + 1)) ] ||
	fail "a store is missing, or failed"
grep -q '^errors and wrong values' "$tmp/out" || fail "no table"
expect 2 "$KVD_BUILD/kvbench" compare nobody; says "none of"
expect 3 "$KVD_BUILD/kvbench" compare redis --socket /nowhere/at/all -s "$KVD_ADDR" -q \
	-P "$KVD_SOURCE/bench/workloads/workloadc" -p recordcount=10 -p operationcount=10
stop_kvd

command -v gnuplot >/dev/null || { say "no gnuplot here"; exit 0; }
expect 0 "$KVD_BUILD/kvbench" plot "$tmp/a.json" -o "$tmp/a-"
for picture in latency throughput; do
	grep -q '</svg>' "$tmp/a-$picture.svg" || fail "no picture $picture"
	grep -q 's)' "$tmp/a-$picture.svg" || fail "no units in $picture"
done
echo '{}' >"$tmp/none.json"
expect 2 "$KVD_BUILD/kvbench" plot "$tmp/none.json"; says "no report"
