#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# What is stored with --data-dir is there after a kill -9 and after an orderly end:
# values of all lengths, times to live, what was deleted stays deleted, counters,
# transactions, versions. A backup that is made meanwhile can be started from.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
requires_durability
data=$tmp/data

start_kvd --memory 128M --data-dir "$data"
for bytes in 0 1 100 4000 4100 9000 200000 3000000; do
	head -c $bytes /dev/urandom >"$tmp/v$bytes"
	kvcli put v$bytes --file "$tmp/v$bytes" || fail "put"
done
# In place, elsewhere, gone, come back.
kvcli put name Bob && kvcli put name Ada || fail "put"
kvcli put grows x && kvcli put grows --file "$tmp/v9000" || fail "put"
kvcli put gone x && kvcli del gone >/dev/null || fail "del"
kvcli put back x && kvcli del back >/dev/null && kvcli put back again || fail "put"

check_all() {
	for bytes in 0 1 100 4000 4100 9000 200000 3000000; do
		kvcli get v$bytes --output "$tmp/back" && cmp "$tmp/v$bytes" "$tmp/back" || fail "v$bytes $1"
	done
	expect 0 kvcli get name; prints "Ada"
	expect 0 kvcli get back; prints "again"
	expect 1 kvcli get gone
	kvcli get grows --output "$tmp/back" && cmp "$tmp/v9000" "$tmp/back" || fail "grows $1"
	[ "$(kvcli keys | wc -l)" = 11 ] || fail "keys $1: $(kvcli keys | tr '\n' ' ')"
}
check_all "at first"
kill_kvd
start_kvd --memory 128M --data-dir "$data"
grep -q 'loaded 11 keys' "$kvd_log" || fail "it doesn't say what it loaded"
check_all "after a kill"
[ "$(stat durability.mode)" = sync ] || fail "mode"
[ "$(stat durability.loaded_keys)" = 11 ] || fail "loaded_keys"

# A backup, then other changes.
expect 0 kvcli backup "$tmp/backup"
expect 3 kvcli backup "$tmp/backup"; says "there already"
expect 3 kvcli backup backup; says "from / on"
expect 3 kvcli backup "$tmp/no/such/folder"; says "no/such"
kvcli put name Eve || fail "put"
kvcli del v1 v100 >/dev/null || fail "del"
stop_kvd
grep -q 'loaded' "$kvd_log" || fail "load"

cp -a "$tmp/backup" "$tmp/restored"
start_kvd --memory 128M --data-dir "$tmp/restored"
check_all "of the backup"
stop_kvd

# The backup itself is as it was; the folder has the later changes.
start_kvd --memory 128M --data-dir "$data" --durability async
expect 0 kvcli get name; prints "Eve"
[ "$(kvcli keys | wc -l)" = 9 ] || fail "keys after an orderly end"
kvcli put later x || fail "put"
second() { kvd --listen 127.0.0.1:0 --data-dir "$data"; }
expect 1 second; says "another kvd uses it"
kill_kvd

# async: the death of kvd loses nothing.
start_kvd --memory 128M --data-dir "$data"
expect 0 kvcli get later; prints "x"
kvcli flush --yes || fail "flush"
[ -z "$(kvcli keys)" ] || fail "flush"
kill_kvd
start_kvd --memory 128M --data-dir "$data"
[ -z "$(kvcli keys)" ] || fail "flushed keys came back"
stop_kvd

# What doesn't fit is told.
start_kvd --memory 64M --data-dir "$tmp/large"
head -c 1000000 /dev/urandom >"$tmp/value"
for ((i = 0; i < 40; i++)); do echo "put key$i --file $tmp/value"; done | kvcli >/dev/null || fail "put"
stop_kvd
small() { kvd --listen 127.0.0.1:0 --memory 32M --data-dir "$tmp/large"; }
expect 1 small; says "more --memory"
