#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Flags, signs and times to live stay with their values, by READ and by message, with a
# database and without; prepend; counters without a sign.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
api=$KVD_BUILD/tests/integration/api

all_cases() {
	for case in attributes get_touch signs unix_time flush_at prepend unsigned submitted_attributes; do
		say "$case"
		expect 0 "$api" "$KVD_ADDR" $case
		expect 0 kvcli flush --yes
	done
}

start_kvd --memory 128M
all_cases
stop_kvd

if kvd --help | grep -q -- --data-dir; then
	start_kvd --memory 128M --data-dir "$tmp/data"
	all_cases
	stop_kvd
fi
