#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Clusters of two and of three whose primary is killed, or stopped, again and again: the dead one
# comes back empty, gets a copy while changes go on, and is of the set before the next round. A joiner
# is killed, or stopped, too. Writers know what was acknowledged; all of it is there, at each time, and at
# the end at the last member.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
. "$KVD_SOURCE/tests/lib/cluster/kit.sh"

requires_cluster
rounds=$(scaled 24 4)
keys=$(scaled 20000 1000)

# start_one N ARG...: as start_member, in the cluster of so many members; the writers are told where it is.
start_one() {
	start_member "$1" --memory 128M --cluster "$zookeepers/test$members" "${@:2}"
	printf '%s\n' "${addr[@]}" >"$tmp/addresses.new"
	mv "$tmp/addresses.new" "$tmp/addresses"
}

await_take_over() {
	wait_for one_serves "$victim" || { cat "${logs[@]}"; fail "$1: nobody takes over"; }
}

await_return() {
	local was=$EPOCHREALTIME
	wait_for is_whole || { cat "${logs[@]}"; fail "$1: the member doesn't come back into the set"; }
	say "$1: back in the set after $(awk "BEGIN { printf \"%d\", ($EPOCHREALTIME - $was) * 1000 }") ms"
	alive "$load_pid" || fail "$1: the writers ended: $(cat "$tmp/load.out")"
}

# By its name, or by another one.
restart() {
	if [ $((round % 2)) = 0 ]; then
		start_one "$1" --cluster-listen "${names[$1]}"
	else
		start_one "$1"
	fi
}

# says_more PATTERN COUNT: the primary's log has more such lines than that.
said() { grep -c -e "$1" "${logs[$primary]}"; }
says_more() { [ "$(said "$1")" -gt "$2" ]; }

# The primary dies, and then the joiner dies, or stands still, on its way in.
harm_joiner() {
	local begun="copying the shard to member" ended="is given up\|is of the set" was were
	kill_member "$victim"
	await_take_over "round $round, killed"
	was=$(said "$begun") were=$(said "$ended")
	restart "$victim"
	wait_for says_more "$begun" "$was" || fail "round $round: nothing is copied"
	if [ "$1" = killed ]; then
		kill_member "$victim"
		restart "$victim"
	else
		stop_process "${pids[$victim]}"
		wait_for says_more "$ended" "$were" ||
			fail "round $round: a joiner that stands still is waited for"
		resume_process "${pids[$victim]}"
	fi
}

one_round() {
	victim=$primary
	case $((round % 4)) in
	1)
		kill_member "$victim"
		await_take_over "round $round, killed"
		restart "$victim"
		;;
	2) harm_joiner killed ;;
	3)
		stop_process "${pids[$victim]}"
		await_take_over "round $round, stopped"
		resume_process "${pids[$victim]}"
		;;
	0) harm_joiner stopped ;;
	esac
	await_return "of $members, round $round"
}

# run_cluster N ROUNDS
run_cluster() {
	members=$1 addr=() pids=() logs=() names=()
	rm -f "$tmp/stop"
	for ((i = 1; i <= members; i++)); do
		start_one $i
	done
	init_cluster "$members"
	wait_for is_whole || { cat "${logs[@]}"; fail "nobody is primary of all"; }
	put_old "$keys"
	start python3 "$KVD_SOURCE/tests/integration/cluster_load.py" "$KVD_BUILD/kvcli" \
		"$tmp/addresses" "$tmp/stop" 4 50 >"$tmp/load.out" 2>&1
	load_pid=$pid
	for ((round = 1; round <= $2; round++)); do
		one_round
	done
	touch "$tmp/stop"
	wait_exit "$load_pid"
	cat "$tmp/load.out"
	[ "$status" = 0 ] || { cat "${logs[@]}"; fail "an acknowledged change is lost, or one came twice"; }
	sed -n 's/.*is of the set, \([0-9]*\) ms after its copy was begun$/\1/p' "${logs[@]}" >"$tmp/took"
	reached "copies were told of" "$(wc -l <"$tmp/took")" 1
	awk '$1 > 600000 { exit 1 }' "$tmp/took" || fail "a copy took longer than the test, as its member says: $(cat "$tmp/took")"
	reached "changes were acknowledged" "$(sed -n 's/^changes //p' "$tmp/load.out")" $(($2 * 10))
}

# One after the other goes; the last one has all.
end_cluster() {
	local left=$members
	while [ $left -gt 1 ]; do
		victim=$primary
		kill_member "$victim"
		unset "addr[$victim]"
		await_take_over "at the end"
		left=$((left - 1))
	done
	check_old "$keys"
	kill -TERM "${pids[$primary]}"
	wait_exit "${pids[$primary]}"
	[ "$status" = 0 ] || fail "the last member ended with $status"
}

start_zookeeper
run_cluster 2 "$rounds"
end_cluster
run_cluster 3 "$rounds"
end_cluster
