#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Transfers among accounts in transactions, by clients some of which are killed: the
# total is the same in every read-only transaction.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
start_kvd --memory 64M
"$KVD_BUILD/tests/torture/bank" "$KVD_ADDR" 8 $((4 * KVD_TEST_SCALE / 100 + 4)) \
	$((10 * KVD_TEST_SCALE)) 5 || fail "the bank lost or made money"
stop_kvd
