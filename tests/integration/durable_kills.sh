#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# kvd with --durability sync is killed at random moments, also while it loads, and
# started again, while clients read and change keys: all that they saw, over all the
# restarts, is linearizable.  So no change that was acknowledged is lost, none is
# invented, and no value that any client has read goes away.  Transactions at the same
# time are all or nothing.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
requires_durability
rounds=${KVD_TEST_ROUNDS:-$(scaled 20 5)}
data=${KVD_TEST_DATA:-$tmp}/data
options=(--memory 64M --workers 2 --data-dir "$data" --durability sync --log-level warn)

start_kvd "${options[@]}"
address=$KVD_ADDR
# Both end when they are told to, long after the last round.
start "$KVD_BUILD/tests/torture/torture" -s "$address" --dir "$tmp" --seconds 86400 --clients 4 \
	--threads 2 --readers 1 --keys 24 --value-max 20000 --seed "${KVD_TEST_SEED:-1}" --until "$tmp/end" \
	>"$tmp/torture.log" 2>&1
torture=$pid
start "$KVD_BUILD/tests/torture/bank" "$address" 2 86400 20 0 "${KVD_TEST_SEED:-1}" "$tmp/end" \
	>"$tmp/bank.log" 2>&1
bank=$pid

under_way() { [ "$(stat connections)" -ge 12 ]; } # and the question itself
wait_for under_way || fail "the clients don't begin"
well() { alive $torture && alive $bank; }
started=0 early=0
for ((round = 1; round <= rounds; round++)); do
	sleep 0.$((RANDOM % 400 + 100)) # at random is what it is about
	well || break
	kill_kvd
	if [ $((round % 4)) = 2 ]; then # while it loads
		early=$((early + 1))
		launch_kvd --listen "$address" "${options[@]}"
		sleep 0.0$((RANDOM % 80 + 10))
		kill_kvd
	fi
	start_kvd --listen "$address" "${options[@]}"
	started=$((started + 1))
done
sleep 0.3
echo end >"$tmp/end"
wait_exit $bank; bank_status=$status
wait_exit $torture; torture_status=$status
cat "$tmp/torture.log" "$tmp/bank.log"
say "$started rounds, $early more kills while it started"
[ $torture_status = 0 ] || fail "the history"
[ $bank_status = 0 ] || fail "the bank"
[ $started = $rounds ] || fail "a client ended early"
reached "kills of a kvd that starts" $early 1
stop_kvd
