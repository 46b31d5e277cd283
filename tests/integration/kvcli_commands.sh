#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Each command of kvcli by itself: what it prints, and its exit status.
. "$(dirname "$0")/../lib/kit.sh"
start_kvd

# answers STATUS OUTPUT WORD...
answers() {
	local status=$1 output=$2
	shift 2
	expect "$status" kvcli "$@" </dev/null
	prints "$output"
}

answers 0 '' put name 'Ada Lovelace'
answers 0 'Ada Lovelace' get name
answers 1 '' get none
says 'not found: "none"'
answers 0 $'yes\n' exists name
answers 1 $'no\n' exists none
answers 0 '' put empty ''
answers 0 '' get empty
answers 0 '' put negative -5
answers 0 -5 get negative
answers 0 '' put -- --key -
answers 0 - get -- --key

answers 0 $'name\n' keys --prefix na
answers 0 $'          12  name\n' keys --prefix name --long
answers 0 '' keys --prefix zz
expect 0 kvcli keys
[ "$(sort "$tmp/out" | tr '\n' ' ')" = '--key empty name negative ' ] || fail "keys: $(cat "$tmp/out")"
answers 0 '' put $'two\nlines' 1
answers 0 $'"two\\nlines"\n' keys --prefix two
expect 0 kvcli keys --prefix two --null
printf 'two\nlines\0' | cmp - "$tmp/out" || fail "keys --null"

answers 1 '' del name none
says 'not found: "none"'
answers 1 '' get name
answers 0 '' put name 1

answers 2 '' get ''
long=$(head -c 1024 /dev/zero | tr '\0' k)
answers 2 '' put "${long}k" v
answers 0 '' put "$long" v
answers 0 v get "$long"

expect 0 kvcli ping --count 3
grep -q '^3 round trips: min .* median .* max ' "$tmp/out" || fail "ping: $(cat "$tmp/out")"
expect 0 kvcli info
grep -q '^device  *[^ ]' "$tmp/out" || fail "info names no device: $(cat "$tmp/out")"
expect 0 kvcli stats
grep -q '^memory.used_bytes  ' "$tmp/out" || fail "stats: $(cat "$tmp/out")"

answers 2 '' flush
answers 0 $'yes\n' exists name
answers 0 '' flush --yes
answers 0 '' keys

# At a time: it is told, and never takes it away. Each takes the place of the one before.
answers 0 '' put name 1
answers 2 '' flush --at 4000000000
answers 0 $'every key goes at 2096-10-02T07:06:40Z\n' flush --yes --at 4000000000
answers 0 $'every key goes at 2099-12-31T23:59:59Z\n' flush --yes --at 2099-12-31T23:59:59Z
expect 0 kvcli flush --yes --delay 1h
grep -Eqx 'every key goes at 2[0-9]{3}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]Z' "$tmp/out" ||
	fail "flush --delay: $(cat "$tmp/out")"
expect 0 kvcli flush --yes --delay 1ms
is_absent() { ! kvcli exists name >/dev/null; }
wait_for is_absent || fail "the time came, and the key stays"
answers 0 '' put name 2
answers 0 $'every key goes at 2096-10-02T07:06:40Z\n' flush --yes --at 4000000000
answers 0 $'no flush is to come\n' flush --at never
answers 0 2 get name
answers 0 '' flush --yes

# Who closes the pipe is told nothing.
head -c 1000000 /dev/zero >"$tmp/in"
expect 0 kvcli put big --file "$tmp/in"
kvcli get big 2>"$tmp/err" | head -c 1 >"$tmp/out"
[ "${PIPESTATUS[0]}" = 0 ] || fail "a closed pipe is an error"
[ ! -s "$tmp/err" ] || fail "a closed pipe is told: $(cat "$tmp/err")"

status=0
kvcli get big >/dev/full 2>"$tmp/err" || status=$?
[ $status = 2 ] || fail "a full disk has status $status"
says "can't be written"
