#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Clients on one key: the slowest gets the lock at least a quarter as often as the
# fastest, and changes without a lock have their turn among them.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
start_kvd --memory 64M
locks=$KVD_BUILD/tests/torture/locks
"$locks" "$KVD_ADDR" fair "$(scaled 100)" || fail "not fair"
"$locks" "$KVD_ADDR" turns "$(scaled 30)" || fail "not fair to changes without a lock"
stop_kvd
