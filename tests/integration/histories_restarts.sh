#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# kvd with --durability sync is killed and started again while clients do operations of all
# kinds on the same few keys: the answers, over all the restarts, can be explained by
# operations that take effect one at a time.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
requires_durability
rounds=$(scaled 20 5)
options=(--memory 64M --workers 2 --data-dir "$tmp/data" --durability sync --log-level warn)

start_kvd "${options[@]}"
address=$KVD_ADDR
start "$KVD_BUILD/tests/torture/histories/histories" "$address" 5 86400 0 \
	"${KVD_HISTORIES_SEED:-1}" "$tmp/end" >"$tmp/histories.log" 2>&1
histories=$pid
under_way() { [ "$(stat connections)" -ge 6 ]; } # and the question itself
wait_for under_way || fail "the clients don't begin"
for ((round = 1; round <= rounds; round++)); do
	sleep 0.$((RANDOM % 800 + 100)) # at random is what it is about
	alive $histories || break
	kill_kvd
	start_kvd --listen "$address" "${options[@]}"
done
sleep 0.3
echo end >"$tmp/end"
wait_exit $histories
grep -v 'so far$' "$tmp/histories.log"
[ $status = 0 ] || fail "an episode can't be explained, or there were too few"
reached "restarts" $((round - 1)) "$rounds"
stop_kvd
