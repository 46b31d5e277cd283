#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# kvd killed in the middle: its client says so soon, with status 3; the next kvd
# on that port is found again.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"

start_kvd --memory 64M
open_batch --timeout 3
ask "put key value"
[ "$answer" = OK ] || fail "put: $answer"
ask "get key"
[ "$answer" = value ] || fail "get: $answer"
kill_kvd
before=$SECONDS
ask "put key other"
[[ $answer == ERROR* ]] || fail "a PUT to a dead kvd: $answer"
say "$answer"
ask "get another"
[[ $answer == ERROR* ]] || fail "a GET from a dead kvd: $answer"
say "$answer"
[ $((SECONDS - before)) -lt 20 ] || fail "that took $((SECONDS - before)) s"
close_batch 3

# In full flight.
start_kvd --memory 256M
i=0
# With long answers, for kvcli writes them out by the block.
many() {
	echo "put long $(printf 'v%.0s' $(seq 1000))"
	while echo "put key$((i++ % 1000)) value" && echo "get long"; do :; done 2>/dev/null
}
start kvcli --timeout 3 --stop-on-error < <(many) >"$tmp/answers" 2>"$tmp/err"
client=$pid
flowing() { [ "$(wc -c <"$tmp/answers")" -gt 20000 ]; }
wait_for flowing || fail "no PUT was answered"
kill_kvd
wait_exit $client
[ "$status" = 3 ] || fail "the client ended with $status"
grep -q '^ERROR' "$tmp/answers" || fail "no error was told"
check_log "$tmp/err"

# The same with SIGTERM: what was accepted is finished, and the status is 0.
start_kvd --memory 256M
start kvcli --timeout 3 --stop-on-error < <(many) >"$tmp/answers" 2>"$tmp/err"
client=$pid
wait_for flowing || fail "no PUT was answered"
stop_kvd
wait_exit $client
[ "$status" = 3 ] || fail "the client ended with $status"
