#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Members with disks. All of them die at once, again and again, also while one is copied to; they come
# back with what they had. Writers know what was acknowledged: all of it is there, and nothing that was
# refused. At the end ZooKeeper has lost all that it knew, and the cluster is made anew of the disks.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
. "$KVD_SOURCE/tests/lib/cluster/kit.sh"

requires_cluster
requires_durability
rounds=$(scaled 24 6) keys=$(scaled 5000 500)
losses=0 all_logs=()

# start_disk N ARG...: with its disk, where it was.
start_disk() {
	start_member "$1" --memory 128M --listen "${addr[$1]}" --cluster-listen "${names[$1]}" \
		--data-dir "$tmp/data.$1" "${@:2}"
	all_logs+=("${logs[$1]}")
}

kill_all() {
	local i
	for i in "${!addr[@]}"; do
		kill -KILL "${pids[$i]}"
	done
	for i in "${!addr[@]}"; do
		wait_exit "${pids[$i]}"
		check_log "${logs[$i]}"
	done
	losses=$((losses + 1))
}

start_all() {
	local i
	for i in $(shuf -e "${!addr[@]}"); do
		start_disk "$i"
	done
}

# Who has the rest goes on without waiting for the primary of before.
kill_all_and_leave_one() {
	local was=$primary
	kill_all
	for i in "${!addr[@]}"; do
		[ "$i" = "$was" ] || start_disk "$i"
	done
	wait_for one_serves "$was" || { cat "${logs[@]}"; fail "round $round: nobody goes on without $was"; }
	start_disk "$was"
}

# Its disk is emptied for the copy, and is another table.
lose_one() {
	local was=$primary
	kill_member "$was"
	wait_for one_serves "$was" || { cat "${logs[@]}"; fail "round $round: nobody takes over"; }
	start_disk "$was"
}

lose_all_in_a_copy() {
	lose_one
	sleep 0.0$((RANDOM % 90 + 10)) # at random is what it is about
	kill_all
	start_all
}

one_round() {
	sleep 0.$((RANDOM % 400 + 200)) # at random, too
	one_serves 0 || fail "round $round: nobody serves"
	case $((round % 6)) in
	1 | 4) kill_all; start_all ;;
	2) kill_all_and_leave_one ;;
	3) lose_all_in_a_copy ;;
	5) lose_one ;;
	0) kill_all; start_all; kill_all; start_all ;;
	esac
	wait_for is_whole || { cat "${logs[@]}"; fail "round $round: the set does not become whole"; }
	alive "$load_pid" || fail "round $round: the writers ended: $(cat "$tmp/load.out")"
}

# Because another one has keys.
refused() { ! kvcli cluster init --copies 3 >"$tmp/out" 2>"$tmp/err" && grep -q 'has no keys, and' "$tmp/err"; }

start_zookeeper
for i in 1 2 3; do
	addr[i]=$KVD_TEST_ADDR:$(free_port) names[i]=$KVD_TEST_ADDR:$(free_port)
done
for i in 1 2 3; do
	start_disk $i
done
init_cluster 3
wait_for is_whole || { cat "${logs[@]}"; fail "nobody is primary of all"; }
put_old "$keys"
printf '%s\n' "${addr[@]}" >"$tmp/addresses"
start python3 "$KVD_SOURCE/tests/integration/cluster_load.py" "$KVD_BUILD/kvcli" "$tmp/addresses" \
	"$tmp/stop" 4 50 >"$tmp/load.out" 2>&1
load_pid=$pid
for ((round = 1; round <= rounds; round++)); do
	one_round
done
touch "$tmp/stop"
patience_s=$((patience_s + 120))
wait_exit "$load_pid"
cat "$tmp/load.out"
[ "$status" = 0 ] || { cat "${logs[@]}"; fail "an acknowledged change is lost, or one came twice"; }
check_old "$keys"
reached "changes were acknowledged" "$(sed -n 's/^changes //p' "$tmp/load.out")" $((rounds * 10))
reached "times all members were lost" $losses $((rounds / 2))
said() { cat "${all_logs[@]}" | grep -c -e "$1"; }
reached "copies were begun" "$(said 'copying the shard to member')" $((rounds / 6))
reached "restarts had something open" "$(said 'changes of the disk are open')" 1

# Of all that ZooKeeper had nothing is left.
for i in 1 2 3; do
	kill -TERM "${pids[$i]}"
	wait_exit "${pids[$i]}"
	[ "$status" = 0 ] || fail "member $i ended with $status"
done
kill -KILL "$zk_pid"
wait_exit "$zk_pid"
rm -rf "$tmp/zk"
mkdir "$tmp/zk"
start_zookeeper
rm -rf "$tmp/data.3"
start_all
on 3
wait_for refused || fail "a member without keys makes the cluster of those that have some"
on 1
init_cluster 3
wait_for is_whole || { cat "${logs[@]}"; fail "the cluster is not made anew"; }
check_old "$keys"
