#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# What was deleted, overwritten or flushed can be READ by a client that looks for it
# in kvd's memory. With --wipe there is nothing: neither behind compaction nor behind eviction.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
attack=$KVD_BUILD/tests/attack/attack
users=$tmp/users
(umask 077; kvd init --users "$users" >"$tmp/admin" 2>/dev/null &&
	"$KVD_BUILD/kvcli" user add mallory write --users "$users" >"$tmp/mallory") || fail "users"
KVD_CREDENTIALS=$(cat "$tmp/admin") || fail "admin"
export KVD_CREDENTIALS
keys() { [ "$(stat keys)" = "$1" ]; }

# secrets FILE: all of the table, as who may READ it has it, and how many lines of it are secrets.
secrets() {
	"$attack" "$KVD_ADDR" snapshot "$tmp/mallory" "$tmp/snapshot" >/dev/null || fail "snapshot"
	tr '\0' '\n' <"$tmp/snapshot" | grep -ac "SECRET-$1"
}
secret() { printf "SECRET-$1-%.0s" $(seq "$2"); }

# A value for each way in which one ends.
changes() {
	{
		echo "put deleted $(secret deleted 40)"
		echo "put inplace $(secret overwritten 5)"
		echo "put inplace new"
		echo "put elsewhere $(secret overwritten 5)"
		echo "put elsewhere $(printf 'x%.0s' $(seq 3000))"
		echo "put flushed $(secret flushed 40)"
		echo "put txn $(secret txn 40)"
		echo "del deleted"
	} >"$tmp/changes"
	kvcli <"$tmp/changes" >"$tmp/out" || fail "changes: $(cat "$tmp/out")"
	kvcli txn 'put txn new' >/dev/null || fail "txn"
	keys 4 || fail "$(stat keys) keys"
	for kind in deleted overwritten txn; do
		echo "$kind: $(secrets $kind)"
	done >"$tmp/found"
	[ "$(secrets flushed)" -gt 0 ] || fail "a value that is there is not found: nothing would be"
	kvcli flush --yes >/dev/null || fail "flush"
	wait_for keys 0 || fail "flush"
	echo "flushed: $(secrets flushed)" >>"$tmp/found"
}

start_kvd --memory 16M --workers 1 --users "$users"
changes
cat "$tmp/found"
for kind in deleted flushed txn; do
	! grep -q "^$kind: 0$" "$tmp/found" || fail "without --wipe the attacker finds nothing $kind"
done
stop_kvd

start_kvd --memory 16M --workers 1 --users "$users" --wipe
changes
! grep -v ': 0$' "$tmp/found" || fail "with --wipe the attacker finds what is gone"

# Compaction: three of four keys go, the others move together, then they go, too.
awk 'BEGIN { for (i = 0; i < 24000; i++) {
	text = "SECRET-moved-" i "-"; value = ""; for (j = 0; j < 25; j++) value = value text
	print "put key" i " " value } }' >"$tmp/fill"
kvcli <"$tmp/fill" >/dev/null 2>&1
count=$(stat keys)
[ "$count" -gt 10000 ] || fail "only $count keys"
seq 0 $((count - 1)) | awk '$1 % 4 { print "del key" $1 }' | kvcli >/dev/null || fail "del"
head -c 200000 /dev/zero >"$tmp/large"
for ((i = 0; i < 20; i++)); do kvcli put large$i --file "$tmp/large" || fail "put"; done
[ "$(stat compaction.moved_keys)" -gt 100 ] || fail "kvd moved nothing"
kvcli flush --yes >/dev/null && wait_for keys 0 || fail "flush"
[ "$(secrets moved)" = 0 ] || fail "compaction leaves $(secrets moved) values behind"
stop_kvd

# Eviction: no value is found whose key is gone.
start_kvd --memory 16M --workers 1 --users "$users" --wipe --evict
awk 'BEGIN { for (i = 0; i < 600; i++) x = x "x"
	for (i = 0; i < 40000; i++) print "put key" i " SECRET-evicted-" i "-" x }' >"$tmp/fill"
kvcli <"$tmp/fill" >/dev/null || fail "put"
[ "$(stat eviction.evictions)" -gt 1000 ] || fail "nothing was evicted"
kvcli keys | sed 's/^key//' | sort >"$tmp/there"
"$attack" "$KVD_ADDR" snapshot "$tmp/mallory" "$tmp/snapshot" >/dev/null || fail "snapshot"
grep -ao 'SECRET-evicted-[0-9]*-' "$tmp/snapshot" | tr -dc '0-9\n' | sort >"$tmp/found"
[ "$(wc -l <"$tmp/found")" -gt 1000 ] || fail "values that are there are not found"
gone=$(comm -13 "$tmp/there" "$tmp/found" | wc -l)
[ "$gone" = 0 ] || fail "$gone values are found whose keys were evicted"
stop_kvd
