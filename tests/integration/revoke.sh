#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A user who is removed while connected is cut off at once, what they learnt is worth
# nothing on any queue pair, and the others go on: their changes take effect once.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
attack=$KVD_BUILD/tests/attack/attack
users=$tmp/users
user() { "$KVD_BUILD/kvcli" user "$@" --users "$users"; }
(umask 077; kvd init --users "$users" >"$tmp/admin" 2>/dev/null) || fail "init"
mallories=(mallory1 mallory2 mallory3 mallory4 mallory5)
for who in writer eve "${mallories[@]}"; do
	(umask 077; user add $who write >"$tmp/$who") || fail "user add $who"
done
start_kvd --memory 64M --users "$users"
export KVD_CREDENTIALS_FILE=$tmp/writer
expect 0 kvcli put witness intact
security() { kvcli stats --json | flatten | awk -v path="security.$1" '$1 == path { print $2 }'; }

# Clients that count, under locks, all the while.
start "$KVD_BUILD/tests/torture/counters" "$KVD_ADDR" 4 "$(scaled 30000)" 5 0 1 "$tmp/end" >"$tmp/counters.out" 2>&1
counters=$pid
# revoke WHO: they are removed while they READ; a line of $tmp/took, in milliseconds, of their last READ.
revoke() {
	start "$attack" "$KVD_ADDR" revoked "$tmp/$1" "$tmp/writer" >"$tmp/mallory.out"
	mallory=$pid
	ready() { grep -q ready "$tmp/mallory.out" || gone $mallory; }
	wait_for ready || fail "$1 doesn't connect"
	expect 0 user remove "$1"
	removed_at=$(command stat -c %.9Y "$users") # the file without them was written, not in place yet
	wait_exit $mallory
	[ "$status" = 0 ] || { cat "$tmp/mallory.out"; fail "$1: $status"; }
	awk -v from="$removed_at" '/^read last at/ { printf "%.1f\n", ($4 - from) * 1000; n++; ended = $NF }
		END { exit !(n == 1 && ended > from) }' "$tmp/mallory.out" >>"$tmp/took" ||
		fail "it isn't told when $1 READ last, or they were cut off before their line was gone"
}
for who in "${mallories[@]}"; do revoke "$who"; done
say "the last READ so many ms after their line was gone: $(sort -n "$tmp/took" | tr '\n' ' ')"
# A machine with other work may be late now and then.
median=$(sort -n "$tmp/took" | sed -n 3p)
compute "$median <= 500" || fail "not cut off within half a second"
changes=${#mallories[@]}
[ "$(security rkey_changes)" = $changes ] || fail "rkeys: $(security rkey_changes)"
grep 'new rkeys' "$kvd_log"

# SIGHUP; a file that is wrong changes nothing; an added user disturbs nobody.
(umask 077; user add late read >"$tmp/late")
expect 0 kvcli --credentials "$tmp/late" get witness; prints intact
cp "$users" "$tmp/good"
printf 'nonsense\n' >>"$users"
kill -HUP "$KVD_PID"
complains() { grep -q 'users stay as they were' "$kvd_log"; }
wait_for complains || fail "nothing about a wrong users file"
expect 0 kvcli --credentials "$tmp/eve" get witness
cat "$tmp/good" >"$users"
expect 0 kvcli --credentials "$tmp/eve" get witness
[ "$(security rkey_changes)" = $changes ] || fail "rkeys changed for nothing"
# A new key ends the old one.
(umask 077; user passwd eve >"$tmp/eve2")
expect 3 kvcli --credentials "$tmp/eve" get witness; says "denied eve"
expect 0 kvcli --credentials "$tmp/eve2" get witness; prints intact
changed() { [ "$(security rkey_changes)" = $((changes + 1)) ]; }
wait_for changed || fail "no new rkeys after passwd"
alive $counters || { cat "$tmp/counters.out"; fail "it proves nothing: nobody counted to the end"; }
touch "$tmp/end"
wait_exit $counters
cat "$tmp/counters.out"
[ "$status" = 0 ] || fail "others' changes were lost, or made twice"
expect 0 kvcli get witness; prints intact
stop_kvd
