#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Peers that ask for more than they may and peers that take no replies: each loses its
# connection, for the reason that the log gives, and others are served all the while.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
attack=$KVD_BUILD/tests/attack/attack
users=$tmp/users
(umask 077; kvd init --users "$users" >"$tmp/admin" 2>/dev/null) || fail "init"
export KVD_CREDENTIALS_FILE=$tmp/admin
start_kvd --memory 64M --users "$users"
expect 0 kvcli put witness here
start kvcli lock key -- sh -c ": >'$tmp/held'; while [ -e '$tmp/held' ] && [ ! -e '$tmp/let-go' ]; do sleep 0.05; done"
holder=$pid
wait_for [ -e "$tmp/held" ] || fail "no lock"
start "$attack" "$KVD_ADDR" mute "$tmp/admin" >"$tmp/mute"
mute=$pid
"$attack" "$KVD_ADDR" greedy "$tmp/admin" key >"$tmp/out" || fail "more requests than credits"
say "$(cat "$tmp/out")"
reason() { grep -q "closed: $1" "$kvd_log"; }
wait_for reason 'more requests than its credits' || fail "another reason"
while ! gone $mute; do
	expect 0 kvcli get witness; prints here
	expect 0 kvcli put other value
	sleep 0.2
done
wait_exit $mute
[ "$status" = 0 ] || fail "a peer that takes no replies stays"
say "$(cat "$tmp/mute")"
wait_for reason 'it took none of its replies for 10 s' || fail "another reason"
touch "$tmp/let-go"
wait_exit "$holder"
[ "$(stat protocol_errors)" = 1 ] || fail "$(stat protocol_errors) malformed messages are counted"
stop_kvd
