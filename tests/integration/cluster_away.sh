#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# All of ZooKeeper is away, for a minute at full size: no operation fails, no value is wrong, nobody's
# part changes, and it is told. Then it is back, and the primary is another one by command.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
. "$KVD_SOURCE/tests/lib/cluster/kit.sh"

requires_cluster
seconds=$(scaled 60 6)

start_zookeeper
for i in 1 2 3; do
	start_member $i
done
init_cluster 3
wait_for is_whole || fail "the set does not become whole"
was=$primary servers=${addr[1]},${addr[2]},${addr[3]}

bench() {
	"$KVD_BUILD/kvbench" "$1" -q -s "$servers" -P "$KVD_SOURCE/bench/workloads/workloada" \
		-p recordcount=1000 -p fieldcount=1 -p fieldlength=100 -p dataintegrity=true "${@:2}"
}
figure() { flatten <"$tmp/report.json" | awk -v path="$1" '$1 == path { print $2; n++; exit } END { exit !n }' ||
	fail "no $1 in the report"; }
expect 0 bench load

kill -KILL "$zk_pid"
wait_exit "$zk_pid"
expect 0 bench run --target 2000 --duration "$seconds" --json "$tmp/report.json"
for what in READ UPDATE; do
	say "$(figure "operations.$what.ok") $what, the longest $(figure "operations.$what.max_us") us"
	[ "$(figure "operations.$what.errors")" = 0 ] || fail "$what failed"
	compute "$(figure "operations.$what.ok") > 100 * $seconds" || fail "it proves nothing: so few"
done
[ "$(figure integrity.wrong)" = 0 ] || fail "wrong values"

for i in 1 2 3; do
	ask_member $i || fail "member $i does not answer"
	[ "$(of_member reached)" = false ] || fail "it proves nothing: member $i reaches ZooKeeper"
	[ "$(of_member epoch)" = 1 ] || fail "member $i is of epoch $(of_member epoch)"
	grep -q 'ZooKeeper at .*: away' "${logs[$i]}" || fail "member $i did not tell: $(tail -n 3 "${logs[$i]}")"
done
wait_for is_whole || fail "the set is not whole any more"
[ "$primary" = "$was" ] || fail "another one is primary"

start_zookeeper
# By name: what was done, though the answer came too late, is not done to yet another one.
next=$((was % 3 + 1))
promoted() { on "$was"; kvcli cluster promote "${names[next]}" >"$tmp/out" 2>&1; }
wait_for promoted || fail "ZooKeeper is back, and nobody else becomes primary: $(cat "$tmp/out")"
became_primary() { grep -q "epoch [0-9]*, reign [0-9]*: primary ${names[next]}," "${logs[$next]}"; }
wait_for became_primary || fail "the primary is the same: $(grep epoch "${logs[$next]}")"
wait_for is_whole || fail "the set does not become whole again"
# On a busy machine it may be taken for gone meanwhile: that is yet another epoch.
[ "$primary" = $next ] || [ "$(of_member epoch)" -gt 2 ] || fail "member $primary is primary, and not $next"
expect 0 bench run -p operationcount=1000 --json "$tmp/report.json"
[ "$(figure integrity.wrong)" = 0 ] || fail "wrong values of the next primary"
