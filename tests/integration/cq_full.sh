#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# All that kvd has posted to a crowd is flushed at once, while its only worker gets no processor:
# each request in flight makes a completion, and there is a place for each.  What the device has
# no completion queue for is refused at the start, with what to lower.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
[ $soft = 1 ] || skip "the figures are those of the software device"
attack=$KVD_BUILD/tests/attack/attack
users=$tmp/users
(umask 077; kvd init --users "$users" >"$tmp/admin" 2>/dev/null) || fail "init"
export KVD_CREDENTIALS_FILE=$tmp/admin

refused() { # refused MEMBER...: kvd does not start
	expect 1 timeout 10 "$KVD_BUILD/kvd" --listen "$KVD_TEST_ADDR:0" --users "$users" --memory 16M "$@"
	grep -Eq "connections [0-9]+, with 1 worker: the longest completion queue .* lower --connections to [0-9]+, or raise --workers to [0-9]+" \
		"$tmp/err" || { cat "$tmp/err"; fail "another reason"; }
}
refused --workers 1 --connections 100000
refused --workers 2 --connections 100 --namespace "a:memory=16M,users=$users,connections=100000"
grep -q 'namespace a: ' "$tmp/err" || fail "it does not say which namespace"

# 53 connections with 160 replies each that nobody takes; all of them end while the worker waits.
requires chrt taskset
conns=53
start_kvd --memory 16M --users "$users" --workers 1 --connections $((conns + 1)) --handshakes 0 \
	--user-connections $((conns + 1)) --poll busy --log-level debug
busiest() { # the thread of kvd that has used its processor the most: the worker
	local t
	for t in /proc/"$KVD_PID"/task/*; do
		awk -v t="${t##*/}" '{ print $14 + $15, t }' "$t/stat"
	done | sort -n | tail -n 1 | awk '{ print $2 }'
}
start "$attack" "$KVD_ADDR" mutes $conns 160 ping "$tmp/admin" "$tmp/go" >"$tmp/mutes"
wait_for grep -q asked "$tmp/mutes" || fail "they don't ask"
mutes=$pid
say "$(cat "$tmp/mutes") of $((conns * 160))"
worker=$(busiest)
cpu=$(taskset -pc "$worker" | sed 's/.*: //; s/[,-].*//')
taskset -pc "$cpu" "$worker" >/dev/null && chrt -i -p 0 "$worker" || skip "a thread can't be made to wait here"
start taskset -c "$cpu" sh -c 'while :; do :; done'
spinner=$pid
# Where all is slow some have made room; what is left is more than a queue of 128 for each has places for.
left=$((conns - $(grep -c 'took none of its replies' "$kvd_log")))
say "$((left * 160)) in flight"
[ $((left * 160)) -gt $(((conns + 1) * 128)) ] || fail "too few replies are in flight: it proves nothing"
touch "$tmp/go"
wait_exit "$mutes"
# The device and the main thread know.
dead() { [ "$(grep -cE 'DISCONNECTED|took none of its replies' "$kvd_log")" -ge $conns ]; }
wait_for dead || gone "$KVD_PID" || fail "they don't end"
kill -KILL "$spinner"
chrt -o -p 0 "$worker"
served() { kvcli put key value >/dev/null 2>&1 || gone "$KVD_PID"; }
wait_for served || fail "kvd is not there any more"
gone "$KVD_PID" && { wait_exit "$KVD_PID"; cat "$kvd_log"; fail "kvd ended with $status"; }
quiet() { [ "$(stat connections)" = 1 ]; }
wait_for quiet || fail "connections stay"
stop_kvd
