#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The holder of a lock is killed: who waits has it within 100 ms.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
start_kvd --memory 64M
"$KVD_BUILD/tests/torture/locks" "$KVD_ADDR" killed "$(scaled 50)" || fail "a dead client keeps its lock"
stop_kvd
