#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# One kvd at two ports, each of a device of its own: the sessions of a client are dealt out over them.
# One that is cut under load costs a call a second at most, no acknowledged change, and no wrong
# value; sessions go back when it is mended.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
[ $soft = 1 ] || skip "tests/vm/check has this for two RDMA devices"
ports=$KVD_BUILD/tests/torture/ports

export SOFTVERBS_DEVICES=2 SOFTVERBS_DOWN=$tmp/down
mkdir "$tmp/down"
start_kvd --memory 256M --workers 2 --log-level debug --listen 127.0.0.1:0,127.0.0.2:0
mapfile -t at <<<"$KVD_ADDR"
both=${at[0]},${at[1]}

# connections N: how many came to the Nth port; a peer's address is of its port's device.
connections() { grep -c "connection [0-9]* from 127\.0\.0\.$1:.* on worker" "$kvd_log"; }
load() {
	"$KVD_BUILD/kvbench" load -s "$1" -t 4 -p recordcount=1000 -p fieldcount=1 -P "$KVD_SOURCE/bench/workloads/workloada"
}

# Half of the sessions each; with one session, or one address, as ever.
expect 0 load "$both"
first=$(connections 1) second=$(connections 2)
[ $((first < second ? first : second)) -ge 2 ] || fail "$first and $second of four sessions"
expect 0 "$KVD_BUILD/kvcli" -s "$both" put key value
expect 0 "$KVD_BUILD/kvcli" -s "${at[1]},${at[0]}" get key; prints value
[ "$(connections 1)" = $((first + 1)) ] || fail "one session is not at the first address"
[ "$(connections 2)" = $((second + 1)) ] || fail "one session is not at the first address"

# Two that are no cluster: all sessions are with the first that answers.
log=$kvd_log pid_of_both=$KVD_PID
start_kvd --memory 64M --log-level debug --listen 127.0.0.1:0
other=$KVD_ADDR
expect 0 load "$other,${at[1]}"
[ "$(stat keys)" = 1000 ] || fail "$(stat keys) of 1000 keys are with the kvd that sessions began with"
stop_kvd
kvd_log=$log KVD_PID=$pid_of_both KVD_ADDR=${at[0]}
expect 0 "$KVD_BUILD/kvcli" -s "$other,$both" get key; prints value
[ "$(stat keys)" = 1001 ] || fail "sessions with another kvd changed this one"

# Cut and mended in turn, under load.
rounds=$(scaled 20 2)
# shellcheck disable=SC2016 # the program's shell has $1
expect 0 "$ports" "$both" 4 "$rounds" 1000 'touch "$SOFTVERBS_DOWN/soft$(($1 % 2))"' \
	'rm "$SOFTVERBS_DOWN/soft$(($1 % 2))"'
grep '^ports:' "$tmp/out"

# Sessions that lost their port go back once that is mended: one that is idle in between, one that
# only does short GETs, one that is never without something in flight.
KVD_ADDR=${at[1]},${at[0]} second=$(connections 2)
start "$KVD_BUILD/tests/torture/homes" "$KVD_ADDR" "$tmp/home" >"$tmp/homes.log" 2>&1
homes=$pid
are_there() { [ "$(connections 2)" = $((second + 2)) ]; }
wait_for are_there || { cat "$tmp/homes.log"; fail "sessions are not at the first address that was given"; }
open_batch --timeout 20 # after the program, which has nothing of its pipes so
ask "put home away"
first=$(connections 1) second=$(connections 2)
touch "$tmp/down/soft1"
ask "put home soon"
[ "$answer" = OK ] || fail "a change over a cut: $answer"
are_away() { [ "$(connections 1)" = $((first + 3)) ]; }
wait_for are_away || fail "they went on by the port that was cut"
rm "$tmp/down/soft1"
are_back() {
	ask "put home again"
	[ "$answer" = OK ] || fail "a change on the way back: $answer"
	[ "$(connections 2)" = $((second + 3)) ]
}
wait_for are_back || fail "$(($(connections 2) - second)) of 3 sessions went back to their port"
exec 7>&- 8<&-
wait_exit "$batch_pid"
touch "$tmp/home"
wait_exit "$homes"
cat "$tmp/homes.log"
[ "$status" = 0 ] || fail "GETs of sessions on their way"
KVD_ADDR=$both

# All kinds of operations on a few keys.
start "$KVD_BUILD/tests/torture/histories/histories" "$both" 5 86400 0 "${KVD_HISTORIES_SEED:-1}" \
	"$tmp/end" >"$tmp/histories.log" 2>&1
histories=$pid
sleep 0.5
for ((round = 1; round <= rounds; round++)); do
	touch "$tmp/down/soft$((round % 2))"
	sleep 0.$((RANDOM % 500 + 400)) # at random is what it is about
	rm "$tmp/down/soft$((round % 2))"
	sleep 0.$((RANDOM % 500 + 100))
	alive $histories || break
done
echo end >"$tmp/end"
wait_exit $histories
grep -v 'so far$' "$tmp/histories.log"
[ $status = 0 ] || fail "an episode can't be explained, or there were too few"
reached "cuts" $((round - 1)) "$rounds"
stop_kvd
