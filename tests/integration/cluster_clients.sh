#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Clients of a cluster: several addresses, of which any will do; a call goes on over a fail-over and a
# hand-over within its time, changes take effect once each, also those in flight.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
. "$KVD_SOURCE/tests/lib/cluster/kit.sh"

requires_cluster
adds=$(scaled 20000 3000)

# One of a list lives.
start_kvd --memory 64M
alone=$KVD_ADDR
expect 0 "$KVD_BUILD/kvcli" -s "127.0.0.1:9,$alone" put key alone
expect 0 "$KVD_BUILD/kvcli" -s "$alone,127.0.0.1:9" get key; prints alone
expect 3 "$KVD_BUILD/kvcli" -s "127.0.0.1:9,127.0.0.1:10" get key; says "127.0.0.1:9"
stop_kvd

start_zookeeper
start_member 1
start_member 2
start_member 3
init_cluster 3
wait_for one_is_primary 1 2 3 || fail "nobody is primary"

# Whoever is asked: the primary answers.
on $backup
expect 0 kvcli put key value
expect 0 kvcli get key; prints value
expect 0 "$KVD_BUILD/kvcli" -s "127.0.0.1:9,${addr[$backup]}" get key; prints value

# adding FILE: adds to a counter without an end, many in flight; a line for each answer.
adding() {
	for ((i = 0; i < adds; i++)); do echo "incr count"; done | kvcli -t 20s >"$1" 2>&1
}
answered() { [ -s "$tmp/adds" ] && [ "$(wc -l <"$tmp/adds")" -ge "$1" ]; }

# Handed over and back meanwhile.
on $primary
start adding "$tmp/adds"
adding_pid=$pid
wait_for answered $((adds / 10)) || fail "nothing is added"
expect 0 kvcli cluster promote "${names[$backup]}"
was=$primary primary=$backup backup=$was
wait_exit "$adding_pid"
reached "answers" "$(wc -l <"$tmp/adds")" "$adds"
! grep -v '^[0-9]*$' "$tmp/adds" || fail "an add was given up over a hand-over"
expect 0 kvcli get count; prints "$adds"

# The primary dies with changes in flight.
on $backup
rm "$tmp/adds"
start adding "$tmp/adds"
adding_pid=$pid
wait_for answered $((adds / 10)) || fail "nothing is added"
kill_member $primary
wait_exit "$adding_pid"
reached "answers" "$(wc -l <"$tmp/adds")" "$adds"
! grep -v '^[0-9]*$' "$tmp/adds" || fail "an add was given up over a fail-over"
expect 0 kvcli get count; prints "$((2 * adds))"

# The next one is frozen, as one that is cut off: who asks it asks elsewhere, too.
left=()
for i in 1 2 3; do [ $i = $primary ] || left+=("$i"); done
wait_for one_is_primary "${left[@]}" || fail "nobody is primary after the kill"
on $primary
expect 0 kvcli put key again
stop_process "${pids[$primary]}"
was=$EPOCHREALTIME
expect 0 "$KVD_BUILD/kvcli" -t 20s -s "${addr[$backup]}" incr count; prints "$((2 * adds + 1))
"
say "a change went on $(awk "BEGIN { printf \"%d\", ($EPOCHREALTIME - $was) * 1000 }") ms after the freeze"
expect 0 "$KVD_BUILD/kvcli" -t 20s -s "${addr[$primary]},${addr[$backup]}" get count
prints "$((2 * adds + 1))"
