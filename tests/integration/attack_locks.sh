#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Attacks on the lock words, of a small and of the largest table: strangers who come and go,
# a writer whose name or nobody's is in all words. Locks, changes, flush and expiry go on.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
attack=$KVD_BUILD/tests/attack/attack
now_ms() { echo $((${EPOCHREALTIME//[!0-9]/} / 1000)); }

# hold_and_wait: sets $waited, how long a second client waits for a lock that the first one
# holds for 500 ms of that.
hold_and_wait() {
	local holder begin
	rm -f "$tmp/held"
	start kvcli lock victim -- sh -c ": >'$tmp/held'; sleep 0.5"
	holder=$pid
	wait_for [ -e "$tmp/held" ] || fail "no lock"
	begin=$(now_ms)
	expect 0 kvcli lock victim --timeout 60000 -- true
	waited=$(($(now_ms) - begin))
	wait_exit "$holder"
	[ "$status" = 0 ] || fail "the holder lost its lock"
}

# under ATTACK ARG...: begins it; over: ends it.
under() {
	rm -f "$tmp/over"
	start "$attack" "$KVD_ADDR" "$@" "$tmp/over" >"$tmp/attack"
	attacker=$pid
}
over() {
	touch "$tmp/over"
	wait_exit "$attacker"
	[ "$status" = 0 ] || fail "the attacker: $(cat "$tmp/attack")"
}

# try MEMORY
try() {
	start_kvd --memory "$1" --handshakes 0 --lease 60000
	expect 0 kvcli put victim intact

	# Strangers, as many a second as come.
	hold_and_wait
	quiet=$waited
	under passers
	for ((round = 0; round < $(scaled 5); round++)); do
		hold_and_wait
		say "$1: $quiet ms for a lock, $waited ms while strangers come and go"
		[ "$waited" -lt $((2 * quiet + 1000)) ] || fail "strangers stall locks: $waited ms"
	done
	over
	say "$(cat "$tmp/attack")"

	# A writer that can hold nothing, in all words: none is its own.
	under words - own
	wait_for grep -q words "$tmp/attack" || fail "no words were written"
	say "$(cat "$tmp/attack")"
	begin=$(now_ms)
	for i in $(seq 40); do echo "put key$i value$i"; done >"$tmp/puts"
	expect 0 timeout 60 "$KVD_BUILD/kvcli" -s "$KVD_ADDR" <"$tmp/puts"
	took=$(($(now_ms) - begin))
	say "$1: 40 PUTs in $took ms under its words"
	[ "$took" -lt 10000 ] || fail "a writer without rkey blocks changes"
	[ "$(stat keys)" = 41 ] || fail "not all was put"
	over

	# Nobody's name in all words: expiry, and an admin's flush.
	for i in $(seq 40); do echo "{\"key\":\"due$i\",\"value\":\"v\",\"ttl_ms\":3000}"; done >"$tmp/due.json"
	expect 0 kvcli import "$tmp/due.json"
	under words - nobody
	wait_for grep -q words "$tmp/attack" || fail "no words were written"
	[ "$(stat keys)" = 81 ] || say "keys expired before the words were written"
	expired() { [ "$(stat keys)" = 41 ]; }
	wait_for expired || fail "expiry reclaims nothing: $(stat keys) keys stay"
	over
	under words - nobody
	wait_for grep -q words "$tmp/attack" || fail "no words were written"
	begin=$(now_ms)
	expect 0 kvcli flush --yes
	say "$1: flushed in $(($(now_ms) - begin)) ms"
	[ "$(stat keys)" = 0 ] || fail "keys stay behind a flush"
	over
	stop_kvd
}
try 64M
[ "$KVD_TEST_SCALE" -lt 100 ] || [ $soft = 0 ] || try 4608M
