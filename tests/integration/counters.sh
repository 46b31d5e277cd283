#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Locked increments by eight clients, some of which are killed: exact, since each
# successor asks for the fate of the last change.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
start_kvd --memory 64M
"$KVD_BUILD/tests/torture/counters" "$KVD_ADDR" 8 $((10000 * KVD_TEST_SCALE)) 10 10 ||
	fail "the counters are wrong"
stop_kvd
