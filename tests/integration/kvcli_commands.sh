#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Each command of kvcli by itself: what it prints, and its exit status.
. "$(dirname "$0")/../lib/kit.sh"
start_kvd

# expect STATUS OUTPUT WORD...
expect() {
	local status=$1 output=$2 got=0
	shift 2
	"$kvcli" -s "$server" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null || got=$?
	[ "$got" = "$status" ] || fail "kvcli $*: status $got, not $status: $(cat "$tmp/err")"
	printf '%b' "$output" | cmp -s - "$tmp/out" || fail "kvcli $*: printed $(cat "$tmp/out")"
}

expect 0 '' put name 'Ada Lovelace'
expect 0 'Ada Lovelace' get name
expect 1 '' get none
grep -q 'not found: "none"' "$tmp/err" || fail "get of no key says nothing"
expect 0 'yes\n' exists name
expect 1 'no\n' exists none
expect 0 '' put empty ''
expect 0 '' get empty
expect 0 '' put negative -5
expect 0 -5 get negative
expect 0 '' put -- --key -
expect 0 - get -- --key
expect 0 'name\n' keys --prefix na
expect 0 '' keys --prefix zz
[ "$("$kvcli" -s "$server" keys | sort | tr '\n' ' ')" = '--key empty name negative ' ] ||
	fail "keys: $("$kvcli" -s "$server" keys)"
[ "$("$kvcli" -s "$server" keys --long --prefix name)" = '          12  name' ] ||
	fail "keys --long"
expect 1 '' del name none
expect 1 '' get name
expect 0 '' put name 1

expect 2 '' get ''
expect 2 '' put "$(head -c 1025 /dev/zero | tr '\0' k)" v
expect 0 '' put "$(head -c 1024 /dev/zero | tr '\0' k)" v

"$kvcli" -s "$server" ping --count 3 | grep -q '^3 round trips: min .* median .* max ' ||
	fail "ping"
"$kvcli" -s "$server" info | grep -q '^device  *soft' || fail "info names no device"
"$kvcli" -s "$server" stats | grep -q '^memory.used_bytes  ' || fail "stats"
"$kvcli" -s "$server" stats --json | grep -q '"keys":' || fail "stats --json"

expect 2 '' flush
expect 0 'yes\n' exists name
expect 0 '' flush --yes
expect 0 '' keys

# Who closes the pipe is told nothing.
"$kvcli" -s "$server" put big "$(head -c 100000 /dev/zero | tr '\0' x)"
"$kvcli" -s "$server" get big 2>"$tmp/err" | head -c 1 >/dev/null
[ ! -s "$tmp/err" ] || fail "a closed pipe: $(cat "$tmp/err")"

status=0
"$kvcli" -s "$server" get big >/dev/full 2>"$tmp/err" || status=$?
[ $status = 2 ] || fail "a full disk has status $status"
