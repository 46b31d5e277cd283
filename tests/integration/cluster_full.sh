#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A cluster whose table is full: what has no room is refused, nothing else fails, and no backup is
# lost by it for long: what found no memory there is copied anew.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
. "$KVD_SOURCE/tests/lib/cluster/kit.sh"

requires_cluster
requires_filler
changes=$(scaled 12000 4000)

start_two
both=${addr[1]},${addr[2]}
fill put "$both" "$tmp" "$changes" 3000 3 >"$tmp/figures" || fail "a change failed otherwise than by want of memory"
read -r refused keys longest <"$tmp/figures"
say "$refused of $changes changes refused, $keys keys, the longest took $longest ms"
reached "refused changes" "$refused" 100
reached "keys" "$keys" 500
[ "$longest" -lt 4500 ] || fail "a change took $longest ms"

on $primary
in_sync() { [ "$(stat cluster.in_sync)" = 2 ]; }
wait_for in_sync || fail "a backup is lost"
[ "$(stat cluster.state)" = primary ] || fail "there was a fail-over"
say "$(grep -c 'lacks a change' "${logs[$backup]}") times a backup was copied to anew"
# It has what the primary has.
kill_member $primary
fill check "${addr[$backup]}" "$tmp" || fail "the backup has another change"
there=$(wc -l <"$tmp/there")
[ "$there" = "$keys" ] || fail "the backup lacks $((keys - there)) of $keys keys"
