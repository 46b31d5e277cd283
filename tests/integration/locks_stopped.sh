#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The holder of a lock hangs: after its lease the next one has it, or a change without a
# lock goes on, and nothing that the one who hung sends takes effect when it wakes up.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
start_kvd --memory 64M --lease 300
locks=$KVD_BUILD/tests/torture/locks
"$locks" "$KVD_ADDR" stopped 300 || fail "a hanging client"
"$locks" "$KVD_ADDR" stopped_plain 300 || fail "a hanging client, and changes without a lock"
[ "$(stat locks.fenced)" -ge 6 ] || fail "fenced: $(stat locks.fenced)"
stop_kvd
