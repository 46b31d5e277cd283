#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Each decoder on its corpus, and on mutants of it. At full size 10^7 malformed messages
# go through kvd's: KVD_FUZZ_MUTANTS.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"

# try HARNESS MUTANTS
try() {
	"$KVD_BUILD/tests/fuzz/$1" -n "$2" "$KVD_SOURCE/tests/fuzz/corpus/$1" >"$tmp/out" 2>"$tmp/err" ||
		{ tail -n 40 "$tmp/err"; fail "tests/fuzz/$1 (what it was at: tests/fuzz/$1.last)"; }
	say "$1: $(cat "$tmp/out")"
	check_log "$tmp/err"
}
[ -x "$KVD_BUILD/tests/fuzz/request" ] || skip "the harnesses are not built"
try kvcli "$(scaled 10000)"
for harness in bootstrap config handshake property users; do
	try $harness "$(scaled 20000)"
done
# 10^7 malformed or cut requests to kvfront: make check-front.
[ ! -x "$KVD_BUILD/tests/fuzz/front" ] || try front "${KVD_FRONT_MUTANTS:-$(scaled 100000)}"
try get "$(scaled 2000)"
try server "$(scaled 10000)"
try request "${KVD_FUZZ_MUTANTS:-$(scaled 100000)}"
