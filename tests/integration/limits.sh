#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Keys and values at their limits work; over them there is an error that says so,
# and nothing else happens.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
start_kvd --memory 256M

key=$(printf 'k%.0s' $(seq 1024))
expect 0 kvcli put "$key" longest
expect 0 kvcli get "$key"; prints "longest"
for command in put get del exists; do
	value=
	[ $command = put ] && value=value
	expect 2 kvcli $command "${key}x" $value; says "1024"
	expect 2 kvcli $command "" $value; says "key"
done
[ "$(stat keys)" = 1 ] || fail "a refused key was stored"

head -c $((64 << 20)) /dev/urandom >"$tmp/largest"
expect 0 kvcli --timeout 60 put large --file "$tmp/largest"
expect 0 kvcli --timeout 60 get large --output "$tmp/back"
cmp "$tmp/largest" "$tmp/back" || fail "the largest value changed on its way"
truncate -s $((1024 * 1024 * 1024 + 1)) "$tmp/too_large"
expect 2 kvcli put large --file "$tmp/too_large"; says "too_large"
expect 0 kvcli --timeout 60 get large --output "$tmp/back"
cmp "$tmp/largest" "$tmp/back" || fail "the value behind a refused one changed"
stop_kvd
