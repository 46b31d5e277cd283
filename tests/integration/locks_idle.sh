#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Who unlocks and then does nothing, not even look, keeps nobody waiting.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
start_kvd --memory 64M
"$KVD_BUILD/tests/torture/locks" "$KVD_ADDR" idle || fail "an idle client"
[ "$(stat locks.fenced)" = 0 ] || fail "it was fenced"
stop_kvd
