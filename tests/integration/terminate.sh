#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# SIGTERM and SIGINT end kvd with status 0, idle, with clients, and again; the
# readiness file is one whole line.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"

start_kvd --memory 64M
[ "$(wc -l <"$ready_file")" = 1 ] || fail "the readiness file is not one line"
grep -Eq '^.+:[0-9]+$' "$ready_file" || fail "the readiness file holds $(cat "$ready_file")"
stop_kvd

start_kvd --memory 64M
open_batch
ask "put key value"
kill -INT "$KVD_PID"
wait_exit "$KVD_PID"
[ "$status" = 0 ] || fail "SIGINT: status $status"
check_log "$kvd_log"
exec 7>&- 8<&-
wait_exit "$batch_pid"

# A port can be used again at once.
address=$KVD_ADDR
for poll in adaptive busy event; do
	start_kvd --memory 64M --listen "$address" --poll $poll
	[ "$KVD_ADDR" = "$address" ] || fail "it listens at $KVD_ADDR"
	expect 0 kvcli put key $poll
	expect 0 kvcli get key; prints "$poll"
	stop_kvd
done
