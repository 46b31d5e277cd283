#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The holder of a lock hangs: after its lease the next one has it, and nothing that the
# one who hung sends takes effect when it wakes up.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
start_kvd --memory 64M --lease 300
"$KVD_BUILD/tests/torture/locks" "$KVD_ADDR" stopped 300 || fail "a hanging client"
[ "$(stat locks.fenced)" -ge 5 ] || fail "fenced: $(stat locks.fenced)"
stop_kvd
