#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Locks: tries and time-outs, misuse, many keys at once in any order, any depth.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
start_kvd --memory 64M --workers 2
locks=$KVD_BUILD/tests/torture/locks
"$locks" "$KVD_ADDR" try || fail "tries and time-outs"
"$locks" "$KVD_ADDR" many "$(scaled 500 100)" || fail "locks of many keys"
"$locks" "$KVD_ADDR" depth || fail "locks at any depth"
[ "$(stat connections)" = 1 ] || fail "connections stay"
stop_kvd
