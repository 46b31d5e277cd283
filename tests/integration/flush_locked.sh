#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A flush whose time comes while keys are locked: what is not locked goes, and the locked ones
# stay as they are. Once they are free, what nobody stored under its lock goes, and what its
# holder stored stays.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
start_kvd --memory 64M --lease 600000
for key in locked renewed free; do expect 0 kvcli put $key old; done
hold() { echo ": >'$tmp/$1'; while [ -e '$tmp/$1' ] && [ ! -e '$tmp/let-go' ]; do sleep 0.05; done; printf new"; }
start kvcli lock locked -- sh -c "$(hold held)" >"$tmp/hold.out"
holder=$pid
start kvcli update renewed -- sh -c "$(hold held2)"
updater=$pid
wait_for [ -e "$tmp/held" ] && wait_for [ -e "$tmp/held2" ] || fail "no locks"
expect 0 kvcli flush --yes --delay 1ms
is_absent() { ! kvcli exists "$1" >/dev/null; }
wait_for is_absent free || fail "a key that nobody locked stays"
expect 0 kvcli get locked
prints old
expect 0 kvcli get renewed
prints old
expect 3 kvcli --timeout 100ms append locked more
[ "$(kvcli get locked)" = old ] || fail "a locked key was changed"
touch "$tmp/let-go"
wait_exit "$holder"
[ "$status" = 0 ] || fail "the holder failed: $status"
wait_exit "$updater"
[ "$status" = 0 ] || fail "the holder that stores failed: $status"
wait_for is_absent locked || fail "what was locked stays"
expect 0 kvcli get renewed
prints new
stop_kvd
