#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A planned hand-over: who is next has its connections with the others before it is named, so that
# changes don't wait for them; and every change that was answered is there.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
. "${KVD_SOURCE:-.}/tests/lib/cluster/kit.sh"
requires_cluster
start_zookeeper
for i in 1 2 3; do start_member $i; done
servers=${addr[1]},${addr[2]},${addr[3]}
init_cluster 3

promoted() { on "$primary"; kvcli cluster promote "${names[next]}" >"$tmp/out" 2>&1; }
serves_next() { one_serves 0 && [ "$primary" = "$next" ]; }
# Connections that it made when it was named, or later.
late() {
	awk -v me="${names[next]}" 'index($0, ": primary " me) { named = 1 }
		named && /connected with member/ { n++ } / serving, epoch/ { exit } END { print n + 0 }' "${logs[next]}"
}

# Each time it is a member that never was primary, which has connected with nobody.  A busy machine
# may take longer for a connection than leases last.
ready=0
for ((round = 1; round <= 8 && ready < 2; round++)); do
	wait_for is_whole || fail "the set does not become whole"
	next=$((primary % 3 + 1))
	kill_member $next 2>/dev/null
	restart $next
	wait_for is_whole || fail "the set does not become whole again"
	kvcli -s "$servers" put "key$round" "value$round" || fail "put"
	wait_for promoted || { cat "$tmp/out"; fail "promote"; }
	wait_for serves_next || fail "it does not take over"
	[ "$(late)" = 0 ] && ready=$((ready + 1))
done
say "$((round - 1)) hand-overs, in $ready all connections were there before"
[ $ready -ge 1 ] || fail "who is next connects after it was named only"
for ((i = 1; i < round; i++)); do
	[ "$(kvcli -s "$servers" get "key$i")" = "value$i" ] || fail "key$i"
done
