#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Peers that speak garbage, another version of the protocol, or reach for what is
# not theirs: kvd refuses them and serves on.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
start_kvd --memory 64M --handshakes 0
peer=$KVD_BUILD/tests/integration/peer
expect 0 kvcli put witness intact
used=$(stat memory.used_bytes)

try() {
	say "$*"
	expect 0 timeout 300 "$peer" "$KVD_ADDR" "$@"
	expect 0 kvcli get witness
	prints "intact"
}

try magic
try version
try short
try noise "$(scaled 20 5)"
try silent "$(scaled 20 5)"
try garbage "$(scaled 100 20)" 1
try too_long 3
try rights
try mutants "$(scaled 40 10)" 1
try mutants "$(scaled 40 10)" 2

settled() { [ "$(stat connections)" = 1 ]; }
wait_for settled || fail "$(stat connections) connections stay"
for key in $(kvcli keys --prefix peer); do kvcli del "$key"; done
[ "$(stat keys)" = 1 ] || fail "keys: $(kvcli keys)"
[ $(($(stat memory.used_bytes) - used)) -lt 1000000 ] || fail "memory was lost"
expect 0 kvcli put witness still
stop_kvd
