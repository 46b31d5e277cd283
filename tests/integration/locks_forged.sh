#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Peers that write into lock words what is not theirs: no innocent client loses its
# connection, and nobody waits for long.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
start_kvd --memory 64M --handshakes 0 --lease 400
peer() { expect 0 timeout 60 "$KVD_BUILD/tests/integration/peer" "$KVD_ADDR" "$@"; }
expect 0 kvcli put victim intact

# Somebody who holds a lock for longer than the lease, and nobody waits for it.
start kvcli lock innocent -- sh -c "echo >'$tmp/held'; while [ -e '$tmp/held' ] && [ ! -e '$tmp/let-go' ]; do sleep 0.05; done" \
	2>"$tmp/innocent"
innocent=$pid
wait_for [ -e "$tmp/held" ] || fail "the lock isn't got"
open_batch
ask "get victim"
[ "$answer" = intact ] || fail "got $answer"

# forged CASE: locks and changes of the victim go on.
forged() {
	peer "$1" 1 "$RANDOM"
	expect 0 kvcli lock victim -- true
	peer "$1" 1 "$RANDOM"
	expect 0 kvcli put victim "$1"
	expect 0 kvcli get victim
	prints "$1"
}
for ((round = 0; round < $(scaled 10 3); round++)); do
	forged forge_garbage
	forged forge_other
	forged forge_copy
done
peer lock_mutants
peer wait_and_go 5
expect 0 kvcli get victim
prints forge_copy

ask "get victim"
[ "$answer" = forge_copy ] || fail "the other client: $answer"
close_batch 0
touch "$tmp/let-go"
wait_exit "$innocent"
[ "$status" = 0 ] || fail "an innocent client lost its lock: $(cat "$tmp/innocent")"
[ "$(stat locks.fenced)" = 0 ] || fail "an innocent client was fenced"
expect 0 kvcli lock innocent -- true

# A peer that holds a lock and says nothing is fenced.
start "$KVD_BUILD/tests/integration/peer" "$KVD_ADDR" squat
squatter=$pid
taken() { ! kvcli lock victim --timeout 0 -- true 2>/dev/null; }
wait_for taken || fail "the squatter doesn't get its lock"
expect 0 kvcli put victim free
wait_exit "$squatter"
[ "$status" = 0 ] || fail "the squatter"
[ "$(stat locks.fenced)" = 1 ] || fail "fenced: $(stat locks.fenced)"
stop_kvd
