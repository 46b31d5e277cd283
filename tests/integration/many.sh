#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Many operations in flight: batches, submits of every kind, an event loop; and the first
# sessions of a client, several at once.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
api=$KVD_BUILD/tests/integration/api
start_kvd --memory 64M

expect 0 "$api" "$KVD_ADDR" many
expect 0 "$api" "$KVD_ADDR" submits
expect 0 "$api" "$KVD_ADDR" many_exist
expect 0 "$api" "$KVD_ADDR" one_doorbell
expect 0 "$api" "$KVD_ADDR" events "$(scaled 5000)"
expect 0 "$api" "$KVD_ADDR" sessions
stop_kvd
