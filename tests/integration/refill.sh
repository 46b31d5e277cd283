#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Memory of deleted short values serves long ones again: kvd moves what is left between.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
start_kvd --memory 32M --workers 2

expect 0 "$KVD_BUILD/bench/enginebench" "$KVD_ADDR" refill
cat "$tmp/out"
reused=$(awk '$1 == "reused" { print $2 }' "$tmp/out")
compute "$reused >= 0.80" || fail "of the freed bytes only $reused were used again"
[ "$(stat compaction.moved_keys)" -gt 1000 ] || fail "kvd moved nothing"
[ "$(stat compaction.freed_bytes)" -gt 1000000 ] || fail "kvd gave nothing back"
stop_kvd
