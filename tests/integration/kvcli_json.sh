#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# What kvcli prints with --json is JSON, a line each, with the members that kvcli(1) lists
# and no others.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
. "$KVD_SOURCE/tests/lib/schema.sh"
command -v python3 >/dev/null || skip "python3 is not installed"
start_kvd

for i in 1 2 3; do kvcli put "key$i" "value $i" >/dev/null || fail "put"; done
expect 0 kvcli put expires x --ttl 1h
expect 0 kvcli put -- $'\xff' $'\xfe'
expect 0 kvcli put flagged x --flags 7
expect 1 kvcli get --json key1 expires none $'\xff' flagged
keeps get
expect 0 kvcli ttl --json expires
keeps ttl
expect 0 kvcli keys --json
[ "$(wc -l <"$tmp/out")" = 6 ] || fail "keys: $(cat "$tmp/out")"
keeps keys
expect 0 kvcli info --json
keeps info
[ "$(wc -l <"$tmp/out")" = 1 ] || fail "info is no line"
expect 0 kvcli stats --json
keeps stats
stop_kvd
start_kvd --data-dir "$tmp/data"
expect 0 kvcli stats --json
grep -q '"durability"' "$tmp/out" || fail "no figures of the disk"
keeps stats
status=0
kvcli doctor --json >"$tmp/out" 2>"$tmp/err" || status=$?
[ $status -le 1 ] && [ ! -s "$tmp/err" ] || fail "doctor: $status, $(cat "$tmp/err")"
keeps doctor
expect 0 kvcli devices --json
keeps devices
umask 077
"$KVD_BUILD/kvd" init --users "$tmp/users" >/dev/null 2>&1 || fail "init"
expect 0 kvcli user list --json --users "$tmp/users"
keeps 'user list'
prints $'{"name":"admin","role":"admin"}\n'
status=0
kvcli counters --all --json >"$tmp/out" 2>"$tmp/err" || status=$?
[ $status != 0 ] || keeps counters
