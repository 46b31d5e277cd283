#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# With kvd stopped by SIGSTOP, a client that is connected still reads every key, and GETs
# cost a kvd that runs nothing: no request, and next to no processor's time.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
count=$(scaled 5000 500)
start_kvd --memory 128M

for ((i = 0; i < count; i++)); do echo "put key$i value$i-$((i * 7919))"; done >"$tmp/puts"
kvcli <"$tmp/puts" >"$tmp/put"
[ "$(grep -c '^OK$' "$tmp/put")" = "$count" ] || fail "put $count keys"
head -c 3000000 /dev/urandom >"$tmp/large"
expect 0 kvcli put large --file "$tmp/large"

open_batch
ask "get key0"
[ "$answer" = value0-0 ] || fail "got $answer"
stop_process "$KVD_PID"
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
is_stopped "$KVD_PID" || fail "it proves nothing: kvd ran"
kill -CONT "$KVD_PID"
close_batch 1

# And running: no request came for all these GETs.
gets=$(stat operations.get)
kvcli <"$tmp/gets" >"$tmp/out" || fail "gets"
[ "$(wc -l <"$tmp/out")" = "$count" ] || fail "it proves nothing: not all GETs were made"
[ "$(stat operations.get)" = "$gets" ] || fail "GETs reached kvd"

# cost COMMANDS: sets $ns to kvd's time for them, by a client that is connected already.
cost() {
	local before
	before=$(cpu_ns "$KVD_PID")
	start cat "$1" >&7
	timeout "$patience_s" head -n "$(wc -l <"$1")" <&8 >"$tmp/out" || fail "no answers"
	wait_exit "$pid"
	ns=$(($(cpu_ns "$KVD_PID") - before))
}
open_batch
cost "$tmp/gets" # what the client and kvd have to say to each other at first
for i in 1 2 3 4 5 6 7 8 9 10; do cat "$tmp/gets"; done >"$tmp/many"
# The least of three: a kernel charges whoever runs with the packets of others.
gets_ns=
for i in 1 2 3; do
	cost "$tmp/many"
	[ -n "$gets_ns" ] && [ "$gets_ns" -le "$ns" ] || gets_ns=$ns
done
cost "$tmp/puts"
say "$((10 * count)) GETs cost kvd $((gets_ns / 1000)) us, $count PUTs $((ns / 1000)) us"
[ $((gets_ns * 4)) -lt $ns ] || fail "GETs cost kvd time"
close_batch 0
stop_kvd
