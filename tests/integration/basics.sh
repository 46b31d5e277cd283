#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Every command of kvcli does what it says, one by one and in a batch.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
start_kvd --memory 64M

expect 1 kvcli get name; says "not found"
expect 1 kvcli exists name
expect 0 kvcli put name Ada
expect 0 kvcli get name; prints "Ada"
expect 0 kvcli exists name
expect 0 kvcli put name "a longer value than before"
expect 0 kvcli get name; prints "a longer value than before"
expect 0 kvcli put empty ""
expect 0 kvcli get empty; prints ""

# Bytes of any kind, from a file, standard input, to a file.
head -c 100000 /dev/urandom >"$tmp/binary"
printf '\0\n\r\377 x\0' >"$tmp/small"
expect 0 kvcli put binary --file "$tmp/binary"
expect 0 kvcli get binary --output "$tmp/back"
cmp "$tmp/binary" "$tmp/back" || fail "a file changed on its way"
kvcli put small - <"$tmp/small" || fail "put from standard input"
kvcli get small >"$tmp/back" || fail "get to standard output"
cmp "$tmp/small" "$tmp/back" || fail "standard input changed on its way"

kvcli keys | sort >"$tmp/keys"
printf '%s\n' binary empty name small | cmp - "$tmp/keys" || fail "keys"
[ "$(kvcli keys --prefix na)" = name ] || fail "keys with a prefix"

expect 0 kvcli del name
expect 1 kvcli del name
expect 1 kvcli get name
expect 0 kvcli ping
expect 0 kvcli stats
[ "$(stat keys)" = 3 ] || fail "three keys are left"
[ "$(stat memory.budget_bytes)" = $((64 << 20)) ] || fail "the budget is 64 MiB"
[ "$(stat memory.used_bytes)" -le $((64 << 20)) ] || fail "more is used than there is"
compute "$(stat server.cpu_seconds) > 0" || fail "server.cpu_seconds"
alone() { [ "$(stat connections)" = 1 ]; }
wait_for alone || fail "one connection: the one that asks"
[ "$(stat operations.put)" = 5 ] || fail "five PUTs were made"
expect 0 kvcli devices --verbose
grep -qF "P_Key 0      0xffff, full member" "$tmp/out" || fail "no P_Key: $(cat "$tmp/out")"
grep -qF "LID 0, SL 0, subnet timeout 0" "$tmp/out" || fail "no subnet manager: $(cat "$tmp/out")"
expect 0 kvcli devices
! grep -q P_Key "$tmp/out" || fail "P_Keys without --verbose"

# A batch answers in the order of its commands.
kvcli >"$tmp/out" <<'END'
put a 1
get a
get none
put b "two words"
del a
get a
get b
exists b
END
printf 'OK\n1\n(not found)\nOK\nOK\n(not found)\ntwo words\nyes\n' | diff - "$tmp/out" ||
	fail "the batch answered otherwise"

expect 0 kvcli flush --yes
[ "$(stat keys)" = 0 ] || fail "flush left keys"
[ -z "$(kvcli keys)" ] || fail "flush left keys to list"
expect 1 kvcli get b
stop_kvd
