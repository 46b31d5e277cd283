#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A lock that nobody else wants: one round trip together with its GET, and a locked
# update at most three times a compare-and-swap and a message.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
start_kvd --memory 64M
"$KVD_BUILD/tests/torture/lockcost" "$KVD_ADDR" "$(scaled 20000)" || fail "locks cost too much"
stop_kvd
