#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Eight clients on one key: the slowest gets at least a quarter of what the fastest gets.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
start_kvd --memory 64M
"$KVD_BUILD/tests/torture/locks" "$KVD_ADDR" fair "$(scaled 100)" || fail "not fair"
stop_kvd
