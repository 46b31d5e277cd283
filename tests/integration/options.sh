#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Wrong options end with status 2 and a sentence that names them; right ones from
# the command line win over the config file.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"

expect 2 kvd --nonsense; says "--nonsense"
expect 2 kvd --worker 3; says "--workers"
expect 2 kvd --workers; says "--workers needs a value"
expect 2 kvd --workers many; says "'many'"
expect 2 kvd --workers 65; says "'65'"
expect 2 kvd --memory 12q; says "'12q'"
expect 2 kvd --memory 1k; says "1k"
expect 2 kvd --poll fast; says "adaptive"
expect 2 kvd stray; says "stray"
expect 2 kvd --config "$tmp/none"; says "$tmp/none"
expect 0 kvd --help; grep -q -- --ready-file "$tmp/out" || fail "kvd --help"
expect 0 kvd --version; grep -Eq '^kvd [0-9]' "$tmp/out" || fail "kvd --version"
[ "$(kvd --help | wc -l)" -le 45 ] || fail "kvd --help doesn't fit a screen"
[ "$(kvd --help | wc -L)" -le 80 ] || fail "kvd --help is too wide"

KVD_ADDR=127.0.0.1:1
kvcli() { "$KVD_BUILD/kvcli" "$@"; }
expect 2 kvcli --nonsense; says "--nonsense"
expect 2 kvcli nonsense; says "nonsense"
expect 2 kvcli put; says "put"
expect 2 kvcli put key; says "put"
expect 2 kvcli get; says "get"
expect 2 kvcli exists a b
expect 2 kvcli put key --file "$tmp/none"; says "$tmp/none"
expect 2 kvcli put key value --file "$tmp/none"
expect 2 kvcli --timeout never get key; says "timeout"
expect 0 kvcli --help; grep -q put "$tmp/out" || fail "kvcli --help"
expect 0 kvcli --version; grep -Eq '^kvcli [0-9]' "$tmp/out" || fail "kvcli --version"
[ "$(kvcli --help | wc -l)" -le 30 ] || fail "kvcli --help doesn't fit a screen"
[ "$(kvcli --help | wc -L)" -le 80 ] || fail "kvcli --help is too wide"

cat >"$tmp/kvd.conf" <<'END'
# a comment
memory = 48M
workers = 1
END
start_kvd --config "$tmp/kvd.conf"
kvcli() { "$KVD_BUILD/kvcli" -s "$KVD_ADDR" "$@"; }
[ "$(stat memory.budget_bytes)" = $((48 << 20)) ] || fail "memory of the config file"
[ "$(stat server.workers)" = 1 ] || fail "workers of the config file"
stop_kvd
start_kvd --config "$tmp/kvd.conf" --memory 32M
[ "$(stat memory.budget_bytes)" = $((32 << 20)) ] || fail "the command line must win"
[ "$(stat server.workers)" = 1 ] || fail "workers of the config file"
stop_kvd
echo "memory = lots" >>"$tmp/kvd.conf"
expect 2 kvd --config "$tmp/kvd.conf"; says "$tmp/kvd.conf:4"
