#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A cache of two members: it goes on when it is full, the backup stays in sync, and at the next
# primary no key is back that was evicted or deleted.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
. "$KVD_SOURCE/tests/lib/cluster/kit.sh"

requires_cluster
requires_filler
changes=$(scaled 60000 15000)

start_zookeeper
start_member 1 --evict
start_member 2 --evict
init_cluster 2
wait_for one_is_primary 1 2 || fail "nobody is primary"
on "$primary"
wait_for served || fail "the primary doesn't serve"
both=${addr[1]},${addr[2]}

fill put "$both" "$tmp" "$changes" 100000 500 >"$tmp/figures" || fail "a change failed"
read -r refused _ <"$tmp/figures"
[ "$refused" = 0 ] || fail "$refused changes found no memory"
is_whole_again() { one_is_primary 1 2 && on "$primary" && [ "$(stat cluster.in_sync)" = 2 ]; }
wait_for is_whole_again || fail "the backup is lost"
evicted=$(stat eviction.evictions)
say "$evicted keys evicted; $(cat "${logs[@]}" | grep -c 'lacks a change') times a backup was copied to anew"
reached "evicted keys" "$evicted" $((changes / 10))

fill check "$both" "$tmp" || fail "at the primary"
mv "$tmp/there" "$tmp/there.before"
reached "keys" "$(wc -l <"$tmp/there.before")" 1000
kill_member $primary
fill check "${addr[$backup]}" "$tmp" || fail "at the next primary"
cmp "$tmp/there.before" "$tmp/there" ||
	fail "$(comm -13 "$tmp/there.before" "$tmp/there" | wc -l) keys are back, $(comm -23 "$tmp/there.before" "$tmp/there" | wc -l) are lost"
