#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# 2,000 connections, every other one of which never says its hello: the others are served,
# kvd's memory stays within the bound of kvd(8), and the silent ones are dropped.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
attack=$KVD_BUILD/tests/attack/attack
users=$tmp/users
bound_kib=64 # a connection, on the software device: doc/security.md
(umask 077; kvd init --users "$users" >"$tmp/admin" 2>/dev/null) || fail "init"
export KVD_CREDENTIALS_FILE=$tmp/admin
start_kvd --memory 64M --users "$users"
n=$(scaled $([ $soft = 1 ] && echo 2000 || echo 400))
n=$((n / 4 * 4))
rss() { awk '/^(RssAnon|RssShmem):/ { n += $2 } END { print n }' "/proc/$KVD_PID/status"; }
expect 0 kvcli put witness here
before=$(rss)
start "$attack" "$KVD_ADDR" crowd "$n" 4 "$tmp/admin" "$tmp/go" >"$tmp/crowd"
crowd=$pid
all_open() { [ "$(grep -c open "$tmp/crowd")" = 4 ] || gone $pid; }
wait_for all_open || fail "the crowd doesn't get in"
for i in 1 2 3; do
	expect 0 kvcli get witness; prints here
	expect 0 kvcli put "key$i" value
done
during=$(rss)
say "$n connections: $((during - before)) KiB more, $(((during - before) / n)) KiB each"
is_sanitized || [ $((during - before)) -le $((n * bound_kib)) ] || fail "kvd's memory is over its bound"
few() { [ "$(stat security.handshakes)" -le 1 ]; }
wait_for few || fail "silent connections stay: $(stat security.handshakes)"
touch "$tmp/go"
wait_exit $crowd
cat "$tmp/crowd"
[ "$status" = 0 ] || fail "some who said hello were not served"
gone_all() { [ "$(stat connections)" = 1 ]; }
wait_for gone_all || fail "connections stay"

# More unfinished handshakes than there may be: the eldest make room.
stop_kvd
start_kvd --memory 64M --users "$users" --connections 60 --handshakes 0
expect 0 kvcli put witness here
rm -f "$tmp/go"
start "$attack" "$KVD_ADDR" crowd 120 4 - "$tmp/go" >"$tmp/crowd"
silent=$pid
wait_for all_open || fail "no silent crowd"
served() { kvcli get witness >"$tmp/out" 2>/dev/null; }
wait_for served || fail "a crowd that says nothing keeps others out"
grep -q 'did not finish its handshake' "$kvd_log" || fail "no room was made"
touch "$tmp/go"
wait_exit $silent

# Users have more than a half of all, and strangers come again and again for the others:
# each user who comes finds room.
stop_kvd
start_kvd --memory 64M --users "$users" --connections 60 --handshakes 0
expect 0 kvcli put witness here
rm -f "$tmp/go"
start "$attack" "$KVD_ADDR" strangers 60 40 "$tmp/admin" "$tmp/go" >"$tmp/strangers"
strangers=$pid
they_came() { grep -q open "$tmp/strangers" || gone $strangers; }
wait_for they_came || fail "no strangers"
alive $strangers || fail "the strangers went"
let_in=0
for i in $(seq 20); do kvcli get witness >"$tmp/out" 2>"$tmp/err.$i" && let_in=$((let_in + 1)); done
[ $let_in = 20 ] || { cat "$tmp"/err.*; fail "strangers keep users out: $let_in of 20 are let in"; }
grep -q 'all connections are taken' "$kvd_log" || fail "there was room without making any"
touch "$tmp/go"
wait_exit $strangers
cat "$tmp/strangers"
[ "$status" = 0 ] || fail "users who were there were cut off"

# Too many of one address.
stop_kvd
start_kvd --memory 64M --users "$users" --handshakes 1
ok=0 refused=0 asking=()
for i in $(seq 20); do # at once: a slow build takes its second for each
	kvcli ping -n 1 >/dev/null 2>"$tmp/err.$i" &
	asking+=($!)
done
for i in $(seq 20); do
	if wait "${asking[i - 1]}"; then ok=$((ok + 1)); else
		grep -q 'handshakes' "$tmp/err.$i" || { cat "$tmp/err.$i"; fail "another error"; }
		refused=$((refused + 1))
	fi
done
say "$ok were let in, $refused refused"
[ $refused -gt 0 ] && [ $ok -ge 4 ] || fail "the limit of handshakes"
stop_kvd
