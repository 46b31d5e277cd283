#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# What a key costs at some value sizes: at most payload x 1.03 + 56, and at most what Redis and
# memcached need, if they are there.  bench/sizes draws a hundred.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"

"$KVD_SOURCE/bench/sizes" --build "$KVD_BUILD" --sizes 4 --bytes 20000000 --seed 5 >"$tmp/table" ||
	fail "$(cat "$tmp/table")"
cat "$tmp/table"
[ "$(grep -c ' ok$' "$tmp/table")" -ge 3 ] || fail "fewer sizes than drawn"
