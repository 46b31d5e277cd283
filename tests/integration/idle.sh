#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# kvd that has nothing to do uses next to no CPU, with clients connected too.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
start_kvd --memory 64M
open_batch
ask "put key value"
# The adaptive polling may spin on for a moment; then a second must be cheap.
cheap() {
	local before
	before=$(cpu_ticks "$KVD_PID")
	sleep 1 # what is measured is this second
	[ $(($(cpu_ticks "$KVD_PID") - before)) -le 5 ]
}
patience_s=10
wait_for cheap || fail "kvd spins though it has nothing to do"
ask "get key"
[ "$answer" = value ] || fail "get: $answer"
close_batch 0
stop_kvd
