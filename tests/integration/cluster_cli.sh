#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A cluster by kvcli: it is made, looked at, handed over; what is wrong is said with what helps.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
. "$KVD_SOURCE/tests/lib/cluster/kit.sh"
. "$KVD_SOURCE/tests/lib/schema.sh"

requires_cluster
keys=$(scaled 200 20)

has() { grep -qE -- "$1" "$tmp/out" || { cat "$tmp/out"; fail "no '$1' on standard output"; }; }
lacks() { ! grep -qE -- "$1" "$tmp/out" || { cat "$tmp/out"; fail "'$1' on standard output"; }; }
figure() { kvcli cluster status --json | flatten | awk -v path="$1" '$1 == path { print $2 }'; }
figure_is() { [ "$(figure "$1")" = "$2" ]; }

# A kvd that is of none.
start_kvd --memory 64M
expect 3 kvcli cluster status; says "of none"
expect 2 kvcli cluster init; says "without --cluster"
stop_kvd

start_zookeeper
start_member 1
reaches 1
expect 1 kvcli cluster status; has "Nobody has made the cluster yet"
expect 2 kvcli cluster init --copies 2; says "2 copies need as many members"
expect 2 kvcli cluster init --copies 0; says "from 1 to 8"
expect 2 kvcli cluster init --shards 2; says "one shard"
expect 2 kvcli cluster; says "usage"

start_member 2
reaches 2
init_cluster 2; has "is made, of 2 copies"
wait_for one_is_primary 1 2 || fail "nobody is primary"
on $primary
wait_for served || fail "the primary doesn't serve"
expect 2 kvcli cluster init; says "made already"
wait_for kvcli cluster status >/dev/null || fail "something is wrong from the start"
expect 0 kvcli cluster status; has "All is well"; has "${names[$primary]} .*primary +yes.* serves, lease"
has "${names[$backup]} .*backup +yes +0 "
on $backup
wait_for kvcli cluster status >/dev/null || fail "a backup does not know of all"
expect 0 kvcli cluster status; has "All is well"
expect 0 kvcli cluster status --json; keeps 'cluster status'
expect 0 kvcli stats --json; keeps stats
grep -q '"cluster"' "$tmp/out" || fail "no figures of the cluster"
doctor() { "$KVD_BUILD/kvcli" -s "$KVD_ADDR" doctor --cluster >"$tmp/out" 2>&1; }
doctor # judges the machine, too
has "ok +cluster +a primary serves, all copies are in sync"
has "ok +versions +all members that answer run [0-9]"
has "ok +clock +this machine's clock"
[ "$(figure in_sync)" = 2 ] && [ "$(figure primary)" = "${names[$primary]}" ] ||
	fail "the figures are others"

# Another one is primary, with all that there was.
on $primary
for ((i = 0; i < keys; i++)); do
	echo "put key$i value$i"
done | kvcli >"$tmp/out" || fail "put"
expect 2 kvcli cluster remove "${names[$primary]}"; says "promote another one first"
expect 0 kvcli cluster promote; has "${names[$backup]} is primary as of epoch 2"
was=$primary primary=$backup backup=$was
on $primary
wait_for served || fail "the new primary doesn't serve"
for ((i = 0; i < keys; i++)); do
	expect 0 kvcli get key$i; prints value$i
done
expect 2 kvcli cluster promote nobody; says "no member nobody"
expect 0 kvcli cluster promote "${addr[$backup]}"
wait_for state_is $backup primary || fail "it is not handed back"
was=$primary primary=$backup backup=$was
on $primary
wait_for served || fail "it serves no more"

# One is lost, then ZooKeeper.
kill_member $backup
wait_for figure_is in_sync 1 || fail "who is lost is in sync"
expect 1 kvcli cluster status --json; keeps 'cluster status'
expect 1 kvcli cluster status; has "1 of 2 copies"; has "the next loss is the loss of all"
lacks "All is well"
! doctor || fail "the doctor finds nothing"
has "FIX +cluster +.*1 of 2 copies"
kill -KILL "$zk_pid"
wait_exit "$zk_pid"
wait_for grep -q 'ZooKeeper at .*: away' "${logs[$primary]}" || fail "ZooKeeper is not missed"
expect 1 kvcli cluster status; has "ZooKeeper .* is not reached by ${names[$primary]}"
has "ZooKeeper away"
expect 0 kvcli put key1 more
kill -TERM "${pids[$primary]}"
wait_exit "${pids[$primary]}"
[ "$status" = 0 ] || fail "the last member ended with $status"
