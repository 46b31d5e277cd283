#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# kvcli put and get of one large value: on a terminal a bar meanwhile, and elsewhere nothing.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
requires python3
[ $soft = 1 ] || skip "only the software device can be slow on purpose"
bytes=$((24 << 20))
head -c $bytes /dev/urandom >"$tmp/value"
on_terminal() { python3 "$KVD_SOURCE/tests/integration/kvcli_bar.py" "$@" || fail "on a terminal"; }

# Each READ of kvd's takes so long: a value of 24 MiB is pulled in parts.
start_kvd_slowly() { SOFTVERBS_FAULT=delay_us=50000 start_kvd "$@"; }
start_kvd_slowly --memory 256M
on_terminal 0 '\rput  24(\.0)? MiB  0\.[0-9] s\x1b\[K.*\r\x1b\[K' \
	"$KVD_BUILD/kvcli" -s "$KVD_ADDR" put big --file "$tmp/value"
[ -z "$(kvcli put big --file "$tmp/value" 2>&1)" ] || fail "put says something in a pipe"
kvcli get big 2>"$tmp/err" | cmp - "$tmp/value" || fail "another value"
[ ! -s "$tmp/err" ] || { cat "$tmp/err"; fail "get says something in a pipe"; }
# A short value, and a key that is not there.
kvcli put short value || fail "put"
on_terminal 0 '^value\r\n$' "$KVD_BUILD/kvcli" -s "$KVD_ADDR" get short
# A value ends its line on a terminal, unless it does so itself; elsewhere it is as it is.
kvcli put empty '' && kvcli put line $'a line\n' || fail "put"
on_terminal 0 '^\r\n$' "$KVD_BUILD/kvcli" -s "$KVD_ADDR" get empty
on_terminal 0 '^a line\r\n$' "$KVD_BUILD/kvcli" -s "$KVD_ADDR" get line
[ "$(kvcli get short | od -An -c)" = "$(printf value | od -An -c)" ] || fail "a value in a pipe has more"
on_terminal 1 'not found' "$KVD_BUILD/kvcli" -s "$KVD_ADDR" get nobody
# A refused PUT is told as ever.
on_terminal 1 'not done: "big" has version' "$KVD_BUILD/kvcli" -s "$KVD_ADDR" put big --if-absent --file "$tmp/value"
stop_kvd

start_kvd --memory 256M
kvcli put big --file "$tmp/value" || fail "put"
export SOFTVERBS_FAULT=delay_us=20000
on_terminal 0 '\rget \[#+\.*\] +[0-9]+ %  .* MiB of 24(\.0)? MiB\x1b\[K' \
	"$KVD_BUILD/kvcli" -s "$KVD_ADDR" get big --output "$tmp/out"
unset SOFTVERBS_FAULT
cmp "$tmp/out" "$tmp/value" || fail "another value"
stop_kvd
