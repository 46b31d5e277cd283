#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Nonsense of every kind is refused, each with its error, and leaves nothing behind: no
# memory of the table, none of kvd's.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
# So that the completion queue, which counts to kvd's memory, is soon all used.
start_kvd --memory 16M --connections 16

expect 0 "$KVD_BUILD/bench/enginebench" "$KVD_ADDR" bad "$(($(scaled 90000) + 10000))"
cat "$tmp/out"
of() { awk -v n="$1" '$1 == n { print $2 }' "$tmp/out"; }
compute "$(of table_bytes) == 0" || fail "the table has $(of table_bytes) bytes more"
compute "$(of keys) == 3" || fail "$(of keys) keys"
is_sanitized || compute "$(of rss_kib) <= 1024" || fail "kvd has $(of rss_kib) KiB more"
stop_kvd
