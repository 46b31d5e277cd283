#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Locks in a cluster: one holder, and they end with the primary that gave them. A frozen primary's card
# still swaps the words of its locks: that is no lock, and a lock of before is none any more.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
. "$KVD_SOURCE/tests/lib/cluster/kit.sh"
. "$KVD_SOURCE/tests/lib/sessions.sh"

requires_cluster
rounds=$(scaled 5 2)

# told SESSION HOW KEY PATTERN
told() {
	question "$1" "$2" "$3"
	case $what in
	$4) ;;
	*) fail "round $round: session $1, $2 $3: '$what', where '$4' was to come" ;;
	esac
}
lost="error: *lost*" busy="error: *busy*"

take_over() {
	wait_for state_is $backup primary || fail "round $round: the backup does not take over"
	was=$primary primary=$backup backup=$was
	on $primary
	wait_for served || fail "round $round: the new primary doesn't serve"
}

is_whole() { on $primary; [ "$(stat cluster.in_sync)" = 2 ]; }

start_two

# Who locks by way of a backup.
on $backup
expect 0 kvcli lock key -- true
on $primary

for ((round = 1; round <= rounds; round++)); do
	questions 3
	told 0 lock name "*"
	told 1 try name "$busy"
	told 0 change name OK
	told 0 check name OK
	told 1 get name "by 0"
	! kvcli -t 300ms put name other 2>/dev/null || fail "a locked key was changed"
	told 0 unlock name OK
	told 1 lock name "by 0"
	told 1 unlock name OK

	# Handed over: what was held is lost, and free at the next one, without a wait.
	told 0 lock name "by 0"
	expect 0 kvcli cluster promote
	take_over
	told 1 lock name "by 0"
	told 0 check name "$lost"
	told 0 change name "$lost"
	told 0 get name "by 0"
	told 0 change name "$lost"
	told 0 unlock name "$lost"
	told 0 try name "$busy"
	told 1 change name OK
	told 1 unlock name OK
	ends_asking

	# Frozen: its words can be swapped as before.
	wait_for is_whole || fail "round $round: the set is not whole"
	questions 3
	told 0 lock name "by 1"
	told 1 get other "*"
	told 2 get other "*"
	stop_process "${pids[$primary]}"
	take_over
	question 2 try other
	swaps=$reads
	[ "$swaps" -ge 2 ] || fail "it proves nothing: the frozen one's word was not swapped: $answer"
	case $what in
	error*) fail "round $round: no lock after the primary froze: $what" ;;
	esac
	told 1 try other "$busy"
	told 2 change other OK
	told 2 unlock other OK
	told 1 lock other "by 2"
	told 1 unlock other OK
	told 0 check name "$lost"
	told 0 change name "$lost"
	told 0 unlock name "$lost"
	told 1 lock name "by 1"
	told 1 unlock name OK
	is_stopped "${pids[$backup]}" || fail "it proves nothing: the old primary ran"
	resume_process "${pids[$backup]}"
	ends_asking
	wait_for is_whole || fail "round $round: who was frozen does not come back"
done
