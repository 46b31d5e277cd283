#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# kvd is away for a second and comes back: a client that waits long enough goes on by
# itself, in the call that was under way; one that doesn't says what is wrong in time.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"

start_kvd --memory 64M
open_batch --timeout 30
ask "put key value"
[ "$answer" = OK ] || fail "put: $answer"
address=$KVD_ADDR
kill_kvd
back() {
	exec 7>&- 8<&- # the client's
	sleep 1 # it is to be away while the client asks
	exec "$KVD_BUILD/kvd" --listen "$address" $(insecure) --memory 64M \
		${KVD_TEST_DEVICE:+--device "$KVD_TEST_DEVICE"} 2>"$tmp/back.log"
}
start back
server=$pid
ask "get key"
[[ $answer == *"not found"* ]] || fail "get over a restart: $answer"
ask "put key again"
[ "$answer" = OK ] || fail "put after a restart: $answer"
ask "get key"
[ "$answer" = again ] || fail "get after a restart: $answer"

# Away for good: bounded.
exec 7>&- 8<&-
wait_exit "$batch_pid"
open_batch --timeout 2
ask "get key"
[ "$answer" = again ] || fail "get: $answer"
kill -KILL "$server"
wait_exit "$server"
since=$SECONDS
# What was READ before the end was noticed is right, too.
answer=
until [[ $answer == ERROR* ]] || [ $((SECONDS - since)) -gt 15 ]; do ask "get key"; done
[[ $answer == ERROR* ]] || fail "GETs from nobody: $answer"
[ $((SECONDS - since)) -lt 15 ] || fail "that took $((SECONDS - since)) s"
say "$answer"
exec 7>&- 8<&-
wait_exit "$batch_pid"

# A change whose connection breaks late in its time does not begin another such time.
start_kvd --memory 64M
open_batch --timeout 4
ask "put key value"
[ "$answer" = OK ] || fail "put: $answer"
stop_process "$KVD_PID"
start bash -c "exec 7>&- 8<&-; sleep 3; kill -KILL $KVD_PID"
begin=$EPOCHREALTIME
ask "txn 'put key lost'"
took=$(awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }')
say "$answer"
say "a change under a time-out of 4 s ended after $took s"
[[ $answer == ERROR* ]] || fail "a change of nobody: $answer"
compute "$took < 6" || fail "it took $took s"
