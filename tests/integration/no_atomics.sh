#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Devices without atomics, as those of iWARP, on either end: GET and PUT work, a lock is
# refused in a sentence, and the connection lives on.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
[ $soft = 1 ] || skip "only the software device can do without"

start_kvd --memory 64M
open_batch_without() { SOFTVERBS_NO_ATOMICS=1 open_batch; }
open_batch_without
ask "put key value"
[ "$answer" = OK ] || fail "put: $answer"
ask "get key"
[ "$answer" = value ] || fail "get: $answer"
close_batch 0
SOFTVERBS_NO_ATOMICS=1 expect 3 "$KVD_BUILD/kvcli" -s "$KVD_ADDR" lock key -- true
says "soft0 has no atomic operations"
expect 0 kvcli lock key -- true
stop_kvd

export SOFTVERBS_NO_ATOMICS=1
start_kvd --memory 64M
unset SOFTVERBS_NO_ATOMICS
grep -q 'no atomics: no locks' "$kvd_log" || fail "kvd doesn't say it"
expect 0 kvcli put key value
expect 0 kvcli get key; prints value
expect 3 kvcli lock key -- true; says "kvd at $KVD_ADDR has no locks"
expect 0 kvcli get key; prints value
stop_kvd
