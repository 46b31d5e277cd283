#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# From grant to release nobody else's change takes effect: puts, deletes and transactions,
# keys that come and go.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
start_kvd --memory 64M --workers 2
"$KVD_BUILD/tests/torture/locks" "$KVD_ADDR" exclusion $((KVD_TEST_SCALE * 7 / 10 + 10)) || fail "two in one lock"
stop_kvd
