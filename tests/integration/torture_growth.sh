#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The index grows and kvd is stopped for moments: readers find every key that is
# there, right and at once, and what all clients saw is linearizable.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
torture=$KVD_BUILD/tests/torture/torture
seconds=$(scaled 6 3)
start_kvd --memory 256M --workers 2
before=$(stat index.buckets)
"$torture" -s "$KVD_ADDR" --dir "$tmp" --seconds "$seconds" --clients 4 --readers 2 --fill \
	--stop "$KVD_PID" --stop-every 700 --kill 1000 || fail "torture"
reached "times the index grew by a bucket" $(($(stat index.buckets) - before)) 100
stop_kvd
