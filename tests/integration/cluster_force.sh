#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A member is taken out, and then all of the set are lost: the cluster says so, and what helps; the one
# that was taken out is made primary by force, with what it has, after it was said what that costs.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
. "$KVD_SOURCE/tests/lib/cluster/kit.sh"

requires_cluster
has() { grep -qE -- "$1" "$tmp/out" || { cat "$tmp/out"; fail "no '$1' on standard output"; }; }

start_two
expect 0 kvcli put before value
expect 0 kvcli cluster remove "${names[$backup]}"; has "is left out as of epoch 2"
expect 0 kvcli put after value
expect 0 kvcli cluster remove "${names[$backup]}"; has "is not in the set"
wait_for state_is $backup out || fail "who was taken out does not know"

# While the primary serves there is no reason to.
knows_primary() { kvcli cluster status 2>/dev/null | grep -q "${names[$primary]} .*serves"; }
wait_for knows_primary || fail "who was taken out does not know where the primary is"
expect 2 kvcli cluster force; says "nobody is there to be asked"
has "There is no reason to do this"
on $primary
expect 2 kvcli cluster force --yes; says "is in the set"

kill_member $primary
on $backup
expect 1 kvcli cluster status; has "All that are in sync are lost: ${names[$primary]}"
has "cluster force"
expect 3 kvcli -t 2s get before
expect 0 kvcli cluster force --yes; has "All changes since it was left out are given up"
has "${names[$backup]} is primary as of epoch 3, alone"
expect 0 kvcli get before; prints value
expect 1 kvcli get after
expect 0 kvcli put after more
expect 1 kvcli cluster status; has "1 of 2 copies"
