#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Keys with a time to live are there until it is over and absent from then on, to
# readers at once; kvd reclaims their memory without being asked.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
api=$KVD_BUILD/tests/integration/api
start_kvd --memory 128M

for case in expiry touch; do
	say "$case"
	expect 0 "$api" "$KVD_ADDR" $case
	expect 0 kvcli flush --yes
done
nothing_expires() { [ "$(stat expiry.keys)" = 0 ]; }
wait_for nothing_expires || fail "$(stat expiry.keys) keys have an expiry after a flush"

reclaimed=$(stat expiry.reclaimed)
count=$(scaled 50000)
expect 0 "$api" "$KVD_ADDR" expire_many "$count"
only_one() { [ "$(stat keys)" = 1 ]; }
wait_for only_one || fail "$(stat keys) keys are left, $(stat expiry.keys) with an expiry"
nothing_expires || fail "stats count $(stat expiry.keys) keys with an expiry"
say "reclaimed $(($(stat expiry.reclaimed) - reclaimed)) of $count"
[ $(($(stat expiry.reclaimed) - reclaimed)) -ge $((count / 2)) ] || fail "reclaimed too few"
expect 0 kvcli get stays
prints "here"

# Nothing is due any more: kvd rests.
before=$(cpu_ticks "$KVD_PID")
sleep 1
[ $(($(cpu_ticks "$KVD_PID") - before)) -le 10 ] || fail "kvd goes on working"
stop_kvd
