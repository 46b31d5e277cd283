#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Clients that are killed at random while they read and change few keys, in place,
# elsewhere and by pulls: all that they saw is linearizable, and every byte is right.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
torture=$KVD_BUILD/tests/torture/torture
seconds=$(scaled 5)
start_kvd --memory 256M --workers 2

run_torture() {
	"$torture" -s "$KVD_ADDR" --dir "$tmp" --seconds "$seconds" "$@" || fail "torture $*"
}

run_torture --clients 4 --kill 200 --seed 1
run_torture --clients 2 --threads 3 --keys 2 --kill 500 --seed 2
run_torture --clients 4 --keys 3 --value-max 600 --no-mirror --seed 3
settled() { [ "$(stat connections)" = 1 ]; }
wait_for settled || fail "connections of dead clients stay"
stop_kvd
