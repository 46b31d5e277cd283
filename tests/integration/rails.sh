#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# One kvd on two devices: who comes by either reads and changes the same keys, by READs of the own
# device; a lock taken by one keeps out who comes by the other; no key of a device is a right at the
# other; a removed user is cut off at both.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
[ $soft = 1 ] || skip "only the software device can be two"
[ "${KVD_BOOTSTRAP-}" != tcp ] || skip "with bootstrap tcp kvd serves one device"
export SOFTVERBS_DEVICES=2
attack=$KVD_BUILD/tests/attack/attack
torture=$KVD_BUILD/tests/torture

# serve ARG...: on both; sets $first and $second, their addresses.
serve() {
	start_kvd --memory 64M --listen 127.0.0.1:0,127.0.0.2:0 "$@"
	{ read -r first; read -r second; } <<<"$KVD_ADDR"
	KVD_ADDR=$first
}
by() { "$KVD_BUILD/kvcli" -s "$@"; }
figure() { by "$first" stats --json | flatten | awk -v path="$1" '$1 == path { print $2 }'; }

say "one table"
serve
grep -q '2 devices (soft0, soft1)' "$kvd_log" || fail "kvd doesn't say which devices it serves"
expect 0 by "$first" put one 1
expect 0 by "$second" put two 2
expect 0 by "$first" get two; prints 2
expect 0 by "$second" get one; prints 1
expect 0 by "$second" del one
expect 1 by "$first" get one
expect 0 by "$second" keys; prints "two
"
expect 0 by "$second" txn "check two 2" "put three 3" "del two"
expect 0 by "$first" get three; prints 3
head -c 3000000 /dev/urandom >"$tmp/long"
for one in "$first" "$second"; do
	expect 0 by "$one" put long --file "$tmp/long"
	for other in "$first" "$second"; do
		by "$other" get long | cmp - "$tmp/long" || fail "a long value that was put by $one isn't what $other gets"
	done
done
[ "$(figure operations.pulls)" -ge 2 ] || fail "no long value was pulled"
# By READs of either's own device: kvd is asked for nothing.
gets=$(scaled 2000 200)
before=$(figure operations.get)
for one in "$first" "$second"; do
	for ((i = 0; i < gets; i++)); do echo "get three"; done | by "$one" >"$tmp/out" || fail "GETs by $one"
	[ "$(grep -cx 3 "$tmp/out")" = "$gets" ] || fail "GETs by $one: $(sort "$tmp/out" | uniq -c)"
done
[ "$(figure operations.get)" = "$before" ] || fail "of $((2 * gets)) GETs kvd answered $(($(figure operations.get) - before))"

say "rights"
"$attack" "$first" rails "$second" || fail "a right that nobody has"

say "locks"
for how in try "many $(scaled 300 60)" depth; do
	# shellcheck disable=SC2086 # words
	"$torture/locks" "$second" $how || fail "locks by the second device: $how"
done
# holder OTHER: one holds it, the other doesn't get it, and gets it then.
excludes() {
	by "$1" lock key -- "$KVD_BUILD/kvcli" -s "$2" lock --timeout 0 key -- true 2>"$tmp/err" &&
		fail "the lock was taken twice, by $1 and $2"
	says "somebody else holds the lock"
	expect 0 by "$2" lock --timeout 0 key -- true
}
excludes "$first" "$second"
excludes "$second" "$first"
excludes "$second" "$second"
# Clients by both that count under locks, and are killed; the next one asks for the last one's fate.
"$torture/counters" "$first+$second" 6 "$(scaled 6000 600)" 3 "$(scaled 20 4)" || fail "counts by both devices"
expect 0 by "$first" lock key -- "$KVD_BUILD/kvcli" -s "$first" stats --json
[ "$(figure security.wrong_rights)" = 0 ] || fail "a queue pair had rights that nobody gave it"
[ "$(figure protocol_errors)" = 0 ] || fail "protocol errors: $(figure protocol_errors)"
stop_kvd
# Atomics of either device don't know the other's, nor a CPU's.
export SOFTVERBS_FAULT=seed=6,noncoherent=1
serve
"$torture/counters" "$first+$second" 4 "$(scaled 2000 200)" 2 0 || fail "counts where atomics don't mix"
unset SOFTVERBS_FAULT
stop_kvd

say "namespaces"
serve --namespace other:memory=16M
for one in "$first" "$second"; do
	expect 0 by "$one/other" put "of $one" there
	expect 1 by "$one" get "of $one"
	expect 0 by "$one/other" lock "of $one" -- true
done
for one in "$first" "$second"; do expect 0 by "$second/other" get "of $one"; prints there; done
stop_kvd

say "rights of queue pairs" # 4: READs, 8: atomics
serve --log-level debug
for one in "$first" "$second"; do expect 0 by "$one" lock key -- true; done
stop_kvd
awk '/: its queue pair has the remote rights/ { rights[$4] = $NF }
	/ on worker [0-9]* of soft[01]/ { device[$4 ":"] = $NF }
	END { for (c in device) print device[c], rights[c] }' "$kvd_log" | sort >"$tmp/rights"
[ "$(cat "$tmp/rights")" = "$(printf 'soft0 0xc\nsoft1 0x4')" ] || fail "rights: $(cat "$tmp/rights")"

say "a removed user"
users=$tmp/users
user() { "$KVD_BUILD/kvcli" user "$@" --users "$users"; }
(umask 077; kvd init --users "$users" >"$tmp/admin" 2>/dev/null) || fail "init"
for who in mallory witness; do (umask 077; user add $who write >"$tmp/$who") || fail "user add $who"; done
serve --users "$users"
export KVD_CREDENTIALS_FILE=$tmp/witness
expect 0 by "$second" put witness intact
start "$attack" "$first" revoked "$tmp/mallory" "$tmp/witness" >"$tmp/one.out"
one=$pid
start "$attack" "$second" revoked "$tmp/mallory" "$tmp/witness" >"$tmp/two.out"
two=$pid
ready() { grep -q ready "$tmp/one.out" && grep -q ready "$tmp/two.out"; }
wait_for ready || fail "mallory doesn't connect: $(cat "$tmp/one.out" "$tmp/two.out")"
expect 0 user remove mallory
wait_exit "$one"
[ "$status" = 0 ] || { cat "$tmp/one.out"; fail "by the first device: $status"; }
wait_exit "$two"
[ "$status" = 0 ] || { cat "$tmp/two.out"; fail "by the second device: $status"; }
[ "$(figure security.rkey_changes)" = 1 ] || fail "new keys: $(figure security.rkey_changes)"
for one in "$first" "$second"; do expect 0 by "$one" get witness; prints intact; done
stop_kvd
