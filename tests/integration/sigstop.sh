#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# With kvd stopped by SIGSTOP, a client that is connected still reads every key,
# and a GET costs kvd nothing.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
count=$(scaled 5000)
start_kvd --memory 128M

for ((i = 0; i < count; i++)); do echo "put key$i value$i-$((i * 7919))"; done | kvcli >"$tmp/put"
[ "$(grep -c '^OK$' "$tmp/put")" = "$count" ] || fail "put $count keys"
head -c 3000000 /dev/urandom >"$tmp/large"
expect 0 kvcli put large --file "$tmp/large"

open_batch
ask "get key0"
[ "$answer" = value0-0 ] || fail "got $answer"
kill -STOP "$KVD_PID"
cleanup_fn kill -CONT "$KVD_PID"
cpu_before=$(cpu_ticks "$KVD_PID")
for ((i = 0; i < count; i++)); do echo "get key$i"; done >"$tmp/gets"
start cat "$tmp/gets" >&7
for ((i = 0; i < count; i++)); do
	IFS= read -r -t "$patience_s" -u 8 answer || fail "no answer to get key$i"
	[ "$answer" = "value$i-$((i * 7919))" ] || fail "key$i: $answer"
done
wait_exit "$pid"
ask "get large --output $tmp/back"
[ "$answer" = OK ] || fail "large: $answer"
cmp "$tmp/large" "$tmp/back" || fail "large differs"
ask "get none"
[ "$answer" = "(not found)" ] || fail "an absent key: $answer"
[ "$(cpu_ticks "$KVD_PID")" = "$cpu_before" ] || fail "a stopped kvd used CPU time"
kill -CONT "$KVD_PID"
close_batch 1

# And running: no request came for all these GETs.
gets=$(stat operations.get)
kvcli <"$tmp/gets" >"$tmp/out" || fail "gets"
[ "$(stat operations.get)" = "$gets" ] || fail "GETs reached kvd"
stop_kvd
