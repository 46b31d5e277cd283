#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Two kvds and a real ZooKeeper: what the primary answered its backup has. The primary is killed,
# the backup serves, and has each of the keys; ZooKeeper is killed, and it goes on.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
. "$KVD_SOURCE/tests/lib/cluster/kit.sh"

requires_cluster
keys=$(scaled 200 20)

start_zookeeper
start_member 1
start_member 2

# Nobody has made the cluster: nothing is served.
reaches 1
on 1
expect 3 kvcli put key value; says "nobody has made the cluster"
kill -TERM "${pids[2]}"
wait_exit "${pids[2]}"
[ "$status" = 0 ] || fail "a member ended with $status"

start_member 2 --cluster-copies 2
init_cluster
wait_for one_is_primary 1 2 || fail "nobody is primary"
on $primary
wait_for served || fail "the primary doesn't serve"
for ((i = 0; i < keys; i++)); do
	echo "put key$i value$i"
done | kvcli >"$tmp/out" || fail "put"
head -c 100000 /dev/zero | tr '\0' v >"$tmp/long"
expect 0 kvcli put long - <"$tmp/long"
expect 0 kvcli del key0
expect 0 kvcli get key1; prints value1
expect 0 kvcli get long
cmp "$tmp/out" "$tmp/long" || fail "a long value is another"

# The primary dies with a change each moment.
(while echo "put busy x"; do :; done | kvcli >/dev/null 2>&1) &
started_pids+=($!)
kill -KILL "${pids[$primary]}"
was=$EPOCHREALTIME
wait_for state_is $backup primary || fail "the backup doesn't take over"
on $backup
wait_for served || fail "the new primary doesn't serve"
say "changes went on $(awk "BEGIN { printf \"%d\", ($EPOCHREALTIME - $was) * 1000 }") ms after the kill"
expect 1 kvcli get key0
for ((i = 1; i < keys; i++)); do
	expect 0 kvcli get key$i; prints value$i
done
expect 0 kvcli get long
cmp "$tmp/out" "$tmp/long" || fail "a long value is another"

# Alone, and without ZooKeeper.
kill -KILL "$zk_pid"
wait_exit "$zk_pid"
expect 0 kvcli put key1 more
expect 0 kvcli get key1; prints more
kill -TERM "${pids[$backup]}"
wait_exit "${pids[$backup]}"
[ "$status" = 0 ] || fail "the last member ended with $status"
