#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A user who is removed while connected is cut off at once, what they learnt is worth
# nothing on any queue pair, and the others go on: their changes take effect once.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
attack=$KVD_BUILD/tests/attack/attack
users=$tmp/users
user() { "$KVD_BUILD/kvcli" user "$@" --users "$users"; }
(umask 077; kvd init --users "$users" >"$tmp/admin" 2>/dev/null) || fail "init"
for who in writer mallory eve; do
	(umask 077; user add $who write >"$tmp/$who") || fail "user add $who"
done
start_kvd --memory 64M --users "$users"
export KVD_CREDENTIALS_FILE=$tmp/writer
expect 0 kvcli put witness intact
security() { kvcli stats --json | flatten | awk -v path="security.$1" '$1 == path { print $2 }'; }

# Clients that count, under locks, all the while.
start "$KVD_BUILD/tests/torture/counters" "$KVD_ADDR" 4 "$(scaled 30000)" 5 0 >"$tmp/counters.out" 2>&1
counters=$pid
start "$attack" "$KVD_ADDR" revoked "$tmp/mallory" "$tmp/writer" >"$tmp/mallory.out"
mallory=$pid
ready() { grep -q ready "$tmp/mallory.out" || gone $mallory; }
wait_for ready || fail "mallory doesn't connect"
removed_at=$(date +%s.%N)
expect 0 user remove mallory
wait_exit $mallory
cat "$tmp/mallory.out"
[ "$status" = 0 ] || fail "mallory: $status"
awk -v from="$removed_at" '/cut off/ { ms = ($4 - from) * 1000; printf "# cut off %.1f ms after the command began\n", ms }
	END { exit !(ms > 0 && ms < 5000) }' "$tmp/mallory.out" || fail "not cut off at once"
[ "$(security rkey_changes)" = 1 ] || fail "rkeys: $(security rkey_changes)"
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
[ "$(security rkey_changes)" = 1 ] || fail "rkeys changed for nothing"
# A new key ends the old one.
(umask 077; user passwd eve >"$tmp/eve2")
expect 3 kvcli --credentials "$tmp/eve" get witness; says "denied eve"
expect 0 kvcli --credentials "$tmp/eve2" get witness; prints intact
changed() { [ "$(security rkey_changes)" = 2 ]; }
wait_for changed || fail "no new rkeys after passwd"
wait_exit $counters
cat "$tmp/counters.out"
[ "$status" = 0 ] || fail "others' changes were lost, or made twice"
expect 0 kvcli get witness; prints intact
stop_kvd
