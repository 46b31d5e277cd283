#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A killed holder's lock goes to who waits within 100 ms, though others have kvd's only worker
# list keys without a pause: its completion queue is hardly ever empty (tests/unit/server/drain_test.c: never).
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
attack=$KVD_BUILD/tests/attack/attack
locks=$KVD_BUILD/tests/torture/locks
users=$tmp/users
(umask 077; kvd init --users "$users" >"$tmp/admin" 2>/dev/null) || fail "init"
export KVD_CREDENTIALS_FILE=$tmp/admin
start_kvd --memory 64M --users "$users" --workers 1 --handshakes 0
for i in $(seq 20000); do echo "put key$i value"; done | kvcli >/dev/null || fail "put"
start "$attack" "$KVD_ADDR" listers 40 "$tmp/admin" "$tmp/go" >"$tmp/listers"
listers=$pid
wait_for grep -q listing "$tmp/listers" || fail "nobody lists"
kills=$(scaled 60)
[ "$kills" -ge 20 ] || kills=20
"$locks" "$KVD_ADDR" killed "$kills" || fail "a dead client keeps its lock"
touch "$tmp/go"
wait_exit "$listers"
[ "$status" = 0 ] || fail "the listers: $status"
pages=$(sed -n 's/ pages//p' "$tmp/listers")
say "$pages pages"
[ "$pages" -gt 500 ] || fail "the worker was not busy"
stop_kvd
