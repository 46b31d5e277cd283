#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Asynchronous events: each is told in words by the thread that takes them, and acted
# upon.  The port's error and return reach the clients, whose sentences have it; a queue
# pair's error is the end of that connection alone; a device, completion queue or receive
# queue that failed ends kvd with status 3.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
[ $soft = 1 ] || skip "only the software device raises events when it is told to"

# with_event TYPE: a kvd whose device raises it once, when it has answered a few.
with_event() {
	export SOFTVERBS_FAULT=event=$1,event_at=12
	start_kvd --memory 64M --workers 1
	unset SOFTVERBS_FAULT
}

told() { grep -qF "($1)" "$kvd_log"; }

closed() { grep -q 'closed: ' "$kvd_log"; }

# Puts until kvd has told of it.
provoke() {
	for ((i = 0; i < 30; i++)); do echo "put key$i value"; done | kvcli >"$tmp/puts" 2>&1
	wait_for told "$1" || fail "no word of it: $1"
}

say "what kvd outlives"
while IFS='|' read -r type name words; do
	with_event "$type"
	provoke "$name"
	grep -qF "$words" "$kvd_log" || fail "$name: the log says otherwise"
	expect 0 kvcli get key0
	prints value
	stop_kvd
done <<'END'
9|port active|the port is up
10|port error|the port is down
11|LID change|subnet manager gave the port another LID
12|P_Key change|the partitions
13|SM change|another subnet manager
15|SRQ limit reached|a receive queue ran low
17|client reregistration|the subnet manager was started again
18|GID table change|an address of the interface came or went
END

say "a queue pair's: the end of one connection"
while IFS='|' read -r type name words; do
	with_event "$type"
	open_batch --timeout 20
	errors=0
	for ((i = 0; i < 30; i++)); do
		ask "put key$i value"
		[ "$answer" = OK ] || { say "$answer"; errors=$((errors + 1)); }
	done
	# The one whose answer went with the connection.
	[ $errors -le 1 ] || fail "$name: $errors errors"
	wait_for told "$name" || fail "no word of it: $name"
	grep -qF "$words" "$kvd_log" || fail "$name: the log says otherwise"
	wait_for closed
	[ "$(grep -c 'closed: ' "$kvd_log")" = 1 ] || fail "$name: not one connection was closed"
	close_batch $((3 * errors))
	stop_kvd
done <<'END'
1|local work queue catastrophic error|the device found an error of the queue pair
2|invalid request local work queue error|the client sent a malformed request
3|local access violation work queue error|the client used an address, key or right that it has not
END

say "what is kvd's end"
while IFS='|' read -r type name words; do
	with_event "$type"
	open_batch --timeout 2
	answer=OK
	end=$((SECONDS + patience_s))
	while [ "$answer" = OK ] && [ $SECONDS -lt $end ]; do ask "put key value"; done
	case $answer in ERROR*) say "$answer" ;; *) fail "$name: put answers $answer" ;; esac
	wait_exit "$KVD_PID"
	check_log "$kvd_log"
	[ "$status" = 3 ] || fail "$name: kvd ended with $status"
	told "$name" || fail "no word of it: $name"
	grep -qF "$words" "$kvd_log" || fail "$name: the log says otherwise"
	grep -q 'soft0 is of no use any more: kvd ends with status 3' "$kvd_log" || fail "$name: no last word"
	close_batch 3
done <<'END'
0|CQ error|a completion queue failed
8|local catastrophic error|the device failed
14|SRQ catastrophic error|a receive queue failed
END

say "what clients are told"
with_event 10
open_batch --timeout 2
for ((i = 0; i < 30; i++)); do ask "put key$i value"; done
wait_for told "port error" || fail "no port error"
for ((i = 0; i < 2; i++)); do ask "put key$i value"; done # the worker has told the client by then
kill_kvd
ask "get key0"
while [ "$answer" = value ]; do ask "get key0"; done
case $answer in
*'kvd had told '*' s before that its port went down'*) say "$answer" ;;
*) fail "the client says: $answer" ;;
esac
close_batch 3
