#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A flush of a cluster: what is deleted is so at every member, also where the primary is killed in
# the middle. Deleting at a time that is to come is refused.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
. "$KVD_SOURCE/tests/lib/cluster/kit.sh"

requires_cluster
count=$(scaled 20000 6000)

start_zookeeper
for i in 1 2 3; do
	start_member $i
done
init_cluster 3
all=${addr[1]},${addr[2]},${addr[3]}
wait_for is_whole || fail "the cluster is not whole"
KVD_ADDR=$all

expect 2 kvcli flush --yes --delay 1h; says "a member of a cluster, which deletes keys now or never"
expect 2 kvcli flush --at never; says "a member of a cluster"

put_old 1000
expect 0 kvcli flush --yes
expect 0 kvcli put kept value
[ "$(kvcli keys)" = kept ] || fail "keys stay behind a flush"

# begin_flush: it stands still in its middle, while who asks for it does; sets flush and left.
# That one has a millisecond at a time until some keys are gone.
begun() {
	kill -CONT $flush
	sleep 0.001
	kill -STOP $flush
	left=$(stat keys)
	[ "$left" -le "$count" ]
}
begin_flush() {
	put_old "$count"
	on $primary
	[ "$(stat keys)" -gt "$count" ] || fail "not all keys are there"
	"$KVD_BUILD/kvcli" -s "$all" -t 60s flush --yes >"$tmp/flushed" 2>&1 &
	flush=$!
	kill -STOP $flush
	wait_for begun || fail "the flush does not begin"
}
end_flush() {
	kill -CONT $flush
	wait $flush || { cat "$tmp/flushed"; fail "the flush fails"; }
}

# The next primary takes over in the middle of one: keys are left there, and who asks stands still.
for ((try = 1; try <= 10; try++)); do
	begin_flush
	[ "$left" -lt $((count / 4)) ] || break
	end_flush
	expect 0 kvcli put kept value
done
[ $try -le 10 ] || fail "each flush was over before it could be looked at"
was=$primary
kill -CONT $flush
kill -KILL "${pids[was]}"
kill -STOP $flush
kill_member $was
wait_for without_was || fail "nobody took over"
unset "addr[$was]"
on $primary
reached "keys left at the next primary, as the last one was killed in the flush" "$(stat keys)" 1
end_flush
[ -z "$(kvcli keys)" ] || fail "keys are there that were deleted: $(kvcli keys | wc -l)"
expect 0 kvcli put after value
wait_for is_whole || fail "who is left is not in sync"

# So it is at the one that is left.
kill_member "$primary"
was=$primary
wait_for without_was || fail "the last one did not take over"
on $primary
[ "$(kvcli keys)" = after ] || fail "the last member has other keys"
