#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A member's disk gets full, of the primary and of the backup in turn: the other one goes on, no change
# fails, and with room again the member is copied to and has all.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
. "$KVD_SOURCE/tests/lib/cluster/kit.sh"
. "$KVD_SOURCE/tests/lib/small_disk.sh"

requires_cluster
requires_durability
small_disk 96m
rounds=$(scaled 8 2)

start_disk() {
	names[$1]=${names[$1]-$KVD_TEST_ADDR:$(free_port)}
	start_member "$1" --cluster-listen "${names[$1]}" --data-dir "$2"
}

put() { "$KVD_BUILD/kvcli" -s "${addr[1]},${addr[2]}" -t 10s put "$1" "$2" >"$tmp/out" 2>"$tmp/err"; }
is_alone() { ask_member 2 && [ "$(of_member state)" = primary ] && [ "$(of_member in_sync)" = 1 ]; }
# Something to write, until the disk is met.
changes=0
leaves() {
	changes=$((changes + 1))
	put "key$changes" "value$changes" || { cat "$tmp/err" "${logs[@]}"; fail "a change failed"; }
	is_alone
}

start_zookeeper
start_disk 1 "$disk/data"
start_disk 2 "$tmp/data.2"
on 1
init_cluster 2
wait_for is_whole || { cat "${logs[@]}"; fail "nobody is primary of both"; }
for ((round = 1; round <= rounds; round++)); do
	# The primary's in the first round, then the backup's: nobody hands over in between.
	fill_but 2000 # of what the database keeps free for itself
	wait_for leaves || { cat "${logs[@]}"; fail "round $round: the member with a full disk is of the set"; }
	for ((i = 0; i < 5; i++)); do
		leaves || fail "round $round: a member with a full disk is taken in"
	done
	make_room
	wait_for is_whole || { cat "${logs[@]}"; fail "round $round: with room again it is not taken in"; }
done
grep -q 'its disk takes no change that other members have already' "${logs[1]}" ||
	fail "the primary's log doesn't say why"
grep -q "its disk does not take another member's change" "${logs[1]}" ||
	fail "the backup's log doesn't say why"
kill_member 2
others() { ask_member 1 && [ "$(of_member state)" = primary ]; }
wait_for others || { cat "${logs[@]}"; fail "nobody takes over"; }
on 1
for ((i = 1; i <= changes; i++)); do
	expect 0 kvcli get "key$i"; prints "value$i"
done
reached "changes" $changes $((rounds * 6))
kill_member 1 # whose disk is unmounted
