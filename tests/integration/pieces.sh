#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Values of every kind of length, in one piece and in several, from memory that is
# registered and that is not, come back as they went.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
api=$KVD_BUILD/tests/integration/api
start_kvd --memory 64M

for case in pieces buffers buffers_made many_long; do
	say "$case"
	expect 0 "$api" "$KVD_ADDR" $case
done
stop_kvd
