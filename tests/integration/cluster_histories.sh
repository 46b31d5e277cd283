#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Three members, and clients that do operations of all kinds on the same few keys, while the primary is
# killed, frozen with its memory readable, and handed over, again and again; who is gone comes back and
# is copied to. The answers can be explained by operations that take effect one at a time, once each.
# A fail-over each round. KVD_FAILOVERS, KVD_HISTORIES_OPS: so many rounds, so many operations.
# KVD_FAILOVER: of a kind only, 1 kill, 2 freeze, 4 hand-over, 0 hand-over and kill.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
. "$KVD_SOURCE/tests/lib/cluster/kit.sh"

requires_cluster
rounds=${KVD_FAILOVERS:-$(scaled 25 8)}
ops_least=${KVD_HISTORIES_OPS:-$((rounds * 100))}
kills=0 freezes=0 promotes=0

# The figures of a member, in $figures; false: it does not answer.
ask() {
	figures=$("$KVD_BUILD/kvcli" -s "${addr[$1]}" -t 2s stats --json 2>/dev/null | flatten) &&
		[ -n "$figures" ]
}
figure() { awk -v path="cluster.$1" '$1 == path { print $2 }' <<<"$figures"; }

# Sets $primary; $1 is not asked.
one_serves() {
	for primary in 1 2 3; do
		[ $primary != "$1" ] && ask $primary && [ "$(figure state)" = primary ] && return
	done
	return 1
}
is_whole() { one_serves 0 && [ "$(figure in_sync)" = 3 ]; }
was_not_primary() { one_serves "$was"; }

# Comes back as another one, empty, where clients know it.
restart() { start_member "$1" --listen "${addr[$1]}"; }

kill_primary() {
	kill_member "$was"
	wait_for was_not_primary || fail "round $round, killed: nobody takes over"
	restart "$was"
	kills=$((kills + 1))
}

# Clients go on READing it for a while after the next one serves.
freeze_primary() {
	stop_process "${pids[$was]}"
	wait_for was_not_primary || fail "round $round, frozen: nobody takes over"
	sleep 0.$((RANDOM % 500 + 100)) # at random is what it is about
	is_stopped "${pids[$was]}" || fail "it proves nothing: the old primary ran"
	resume_process "${pids[$was]}"
	freezes=$((freezes + 1))
}

hand_over() {
	on "$was"
	kvcli cluster promote >"$tmp/out" 2>"$tmp/err" || fail "promote: $(cat "$tmp/err")"
	promotes=$((promotes + 1))
}

one_round() {
	sleep 0.$((RANDOM % 300 + 100))
	was=$primary
	case ${KVD_FAILOVER:-$((round % 5))} in
	1 | 3) kill_primary ;;
	2) freeze_primary ;;
	4) hand_over ;;
	0)
		# Two things at once: the next one dies, as soon as there is one and all are back.
		hand_over
		wait_for is_whole || fail "round $round: the set is not whole after a hand-over"
		was=$primary
		kill_primary
		;;
	esac
	wait_for is_whole || { cat "${logs[@]}"; fail "round $round: the set does not become whole"; }
	alive $histories || { tell; fail "round $round: the clients ended"; }
}

tell() { grep -v 'so far$' "$tmp/histories.log"; }
ops_so_far() { sed -n 's/^histories: \([0-9]*\) operations so far$/\1/p' "$tmp/histories.log" | tail -n 1; }
has_ops() { alive $histories && [ "$(ops_so_far)" -ge "$1" ] 2>/dev/null; }
await_ops() { until has_ops "$1" || ! alive $histories; do sleep 0.2; done; }

start_zookeeper
for i in 1 2 3; do
	start_member $i
done
init_cluster 3
wait_for is_whole || { cat "${logs[@]}"; fail "nobody is primary of all"; }
start "$KVD_BUILD/tests/torture/histories/histories" "${addr[1]},${addr[2]},${addr[3]}" 5 86400 0 \
	"${KVD_HISTORIES_SEED:-1}" "$tmp/end" >"$tmp/histories.log" 2>&1
histories=$pid
for ((round = 1; round <= rounds; round++)); do
	one_round
	await_ops $((ops_least / rounds * round))
	[ $((round % 10)) != 0 ] || say "$round of $rounds rounds"
done
echo end >"$tmp/end"
patience_s=$((patience_s + 60))
wait_exit $histories
tell
[ $status = 0 ] || fail "an episode can't be explained, or there were too few"
say "$kills kills, $freezes freezes, $promotes hand-overs"
if [ -z "${KVD_FAILOVER-}" ]; then
	reached "kills" $kills $((rounds / 5 * 2))
	reached "freezes" $freezes $((rounds / 5))
	reached "hand-overs" $promotes $((rounds / 5))
fi
ops=$(sed -n 's/^histories: [0-9]* episodes of \([0-9]*\) operations.*/\1/p' "$tmp/histories.log")
reached "operations" "${ops:-0}" "$ops_least"
