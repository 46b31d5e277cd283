#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A read-only transaction over keys of which one comes and goes.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
start_kvd --memory 64M
"$KVD_BUILD/tests/torture/absent" "$KVD_ADDR" "$(scaled 50)" || fail "not serialisable"
stop_kvd
