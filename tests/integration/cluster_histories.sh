#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Three members, and clients that do operations of all kinds on the same few keys, while the primary is
# killed, frozen with its memory readable, and handed over, again and again; who is gone comes back and
# is copied to. ZooKeeper, of three, loses its leader, or stands still. The answers can be explained by
# operations that take effect one at a time, once each.
# A fail-over each round. KVD_FAILOVERS, KVD_HISTORIES_OPS: so many rounds, so many operations, of
# KVD_HISTORIES_CREWS, which have keys of their own.
# KVD_FAILOVER: of a kind only, as in kinds.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
. "$KVD_SOURCE/tests/lib/cluster/kit.sh"

requires_cluster
rounds=${KVD_FAILOVERS:-$(scaled 25 8)}
ops_least=${KVD_HISTORIES_OPS:-$((rounds * 100))}
crews=${KVD_HISTORIES_CREWS:-1} seed=${KVD_HISTORIES_SEED:-1}
kills=0 freezes=0 promotes=0

kill_primary() {
	kill_member "$was"
	wait_for without_was || fail "round $round, killed: nobody takes over"
	restart "$was"
	kills=$((kills + 1))
}

# Clients go on READing it for a while after the next one serves.
freeze_primary() {
	stop_process "${pids[$was]}"
	wait_for without_was || fail "round $round, frozen: nobody takes over"
	sleep 0.$((RANDOM % 500 + 100)) # at random is what it is about
	is_stopped "${pids[$was]}" || fail "it proves nothing: the old primary ran"
	resume_process "${pids[$was]}"
	freezes=$((freezes + 1))
}

promoted() { kvcli cluster promote >"$tmp/out" 2>"$tmp/err"; }
hand_over() {
	on "$was"
	wait_for promoted || fail "promote: $(cat "$tmp/err")"
	promotes=$((promotes + 1))
}

# The next one dies as soon as there is one and all are back.
hand_over_and_kill() {
	hand_over
	wait_for is_whole || fail "round $round: the set is not whole after a hand-over"
	was=$primary
	kill_primary
}

# So is who agrees, in the middle of it.
kill_leader_and_primary() {
	wait_for zookeeper_leader || fail "round $round: ZooKeeper has no leader"
	kill_server $leader
	kill_primary
	start_server $leader
}

# Nobody can agree on anything: it goes on.
stop_zookeeper() {
	local before
	for i in "${zk_pids[@]}"; do
		stop_process "$i"
	done
	before=$(ops_so_far)
	wait_for has_ops $((before + 10)) || fail "round $round: nothing goes on without ZooKeeper"
	for i in "${zk_pids[@]}"; do
		resume_process "$i"
	done
}

kinds=(both kill freeze leader promote kill away freeze)
one_round() {
	sleep 0.$((RANDOM % 300 + 100))
	was=$primary
	case ${KVD_FAILOVER:-${kinds[round % 8]}} in
	both) hand_over_and_kill ;;
	kill) kill_primary ;;
	freeze) freeze_primary ;;
	leader) kill_leader_and_primary ;;
	promote) hand_over ;;
	away) stop_zookeeper ;;
	esac
	wait_for is_whole || { cat "${logs[@]}"; fail "round $round: the set does not become whole"; }
	all_play || { tell; fail "round $round: the clients ended"; }
}

tell() { grep -h -v 'so far$' "$tmp"/histories.*.log; }
all_play() { for i in "${histories[@]}"; do alive "$i" || return; done; }
ops_of() { sed -n "s/^histories: $1.*/\\1/p" "$2" | tail -n 1 | grep . || echo 0; }
ops_so_far() {
	local log n=0
	for log in "$tmp"/histories.*.log; do
		n=$((n + $(ops_of '\([0-9]*\) operations so far' "$log")))
	done
	echo $n
}
has_ops() { [ "$(ops_so_far)" -ge "$1" ]; }
await_ops() { until has_ops "$1" || ! all_play; do sleep 0.2; done; }

start_ensemble
for i in 1 2 3; do
	start_member $i
done
init_cluster 3
wait_for is_whole || { cat "${logs[@]}"; fail "nobody is primary of all"; }
histories=()
for ((i = 0; i < crews; i++)); do
	start "$KVD_BUILD/tests/torture/histories/histories" "${addr[1]},${addr[2]},${addr[3]}" 5 86400 0 \
		$((seed + i)) "$tmp/end" >"$tmp/histories.$i.log" 2>&1
	histories+=("$pid")
done
for ((round = 1; round <= rounds; round++)); do
	one_round
	await_ops $((ops_least / rounds * round))
	[ $((round % 10)) != 0 ] || say "$round of $rounds rounds"
done
echo end >"$tmp/end"
patience_s=$((patience_s + 60))
ops=0
for ((i = 0; i < crews; i++)); do
	wait_exit "${histories[i]}"
	[ $status = 0 ] || { tell; fail "an episode can't be explained, or there were too few"; }
	ops=$((ops + $(ops_of '[0-9]* episodes of \([0-9]*\) operations' "$tmp/histories.$i.log")))
done
tell
say "$kills kills, $freezes freezes, $promotes hand-overs"
if [ -z "${KVD_FAILOVER-}" ]; then
	reached "kills" $kills $((rounds / 8 * 4))
	reached "freezes" $freezes $((rounds / 4))
	reached "hand-overs" $promotes $((rounds / 8 * 2))
fi
reached "operations" $ops "$ops_least"
