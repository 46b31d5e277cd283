#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Many clients of a primary that is killed: the next one knows which of their connections was whose,
# though it has as many of its own, and tells each at once what became of its changes.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
. "$KVD_SOURCE/tests/lib/cluster/kit.sh"

requires_cluster
clients=48
adds=$(scaled 4000 2000)

start_two

# adding I: adds to a counter of its own, at first once, then many in flight; a line for each answer.
# Its connection stays. It waits at a pipe until somebody opens its other end.
mkfifo "$tmp/go" "$tmp/end"
let_all_go() { exec 5<>"$tmp/go" 6<>"$tmp/end"; }
cleanup_fn let_all_go
adding() {
	{
		echo "incr count$1"
		: <"$tmp/go"
		for ((k = 1; k < adds; k++)); do echo "incr count$1"; done
		: <"$tmp/end"
	} | kvcli -t 5s >"$tmp/adds$1" 2>&1
}
count() { cat "$tmp"/adds[0-9]* | wc -l; }
# Each of them has so many answers.
have() {
	for ((i = 0; i < clients; i++)); do
		[ -s "$tmp/adds$i" ] && [ "$(wc -l <"$tmp/adds$i")" -ge "$1" ] || return 1
	done
}

adding_pids=()
for ((i = 0; i < clients; i++)); do
	start adding $i
	adding_pids+=("$pid")
done
some() { [ "$(count)" -ge $((clients * adds / 20)) ]; }
wait_for have 1 || fail "not all clients are answered"
exec 5<>"$tmp/go"
wait_for some || fail "nothing is added"
left=$((clients * adds - $(count)))
was=$EPOCHREALTIME
kill_member "$primary"
wait_for have "$adds" || fail "not all adds are answered: $(cat "$tmp"/adds[0-9]* | grep -v '^[0-9]*$' | sort | uniq -c)"
say "$left adds were left, done $(awk "BEGIN { printf \"%d\", ($EPOCHREALTIME - $was) * 1000 }") ms after the kill"
reached "adds behind the kill" "$left" "$clients"
exec 6<>"$tmp/end"
for i in "${adding_pids[@]}"; do
	wait_exit "$i"
done
on "$backup"
for ((i = 0; i < clients; i++)); do
	! grep -v '^[0-9]*$' "$tmp/adds$i" || fail "an add was given up over a fail-over"
	expect 0 kvcli get "count$i"; prints "$adds"
done
