#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# kvd is stopped and started again under a lock: it is lost, and its holder is told.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
start_kvd --memory 64M
mkfifo "$tmp/in" "$tmp/out"
# Opening a pipe waits for the other end, so that is done in the background.
start bash -c 'exec "$0" "$1" restart <"$2" >"$3"' "$KVD_BUILD/tests/torture/locks" "$KVD_ADDR" \
	"$tmp/in" "$tmp/out"
holder=$pid
exec 7>"$tmp/in" 8<"$tmp/out"
read -r -t "$patience_s" -u 8 line && [ "$line" = held ] || fail "the lock isn't got"
stop_kvd
start_kvd --memory 64M --listen "$KVD_ADDR"
echo go >&7
wait_exit "$holder"
[ "$status" = 0 ] || fail "locks over a restart"
stop_kvd
