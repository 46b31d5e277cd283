#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A user who may only read asks by message for a long value, again and again, and gives
# nothing back; another appends to it and touches it: others' PUTs through the same worker are as fast as without, kvd stays
# healthy, the key can be deleted, and no memory of the table goes.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
attack=$KVD_BUILD/tests/attack/attack
users=$tmp/users
(umask 077; kvd init --users "$users" >"$tmp/admin" 2>/dev/null) || fail "init"
(umask 077; "$KVD_BUILD/kvcli" user add reader read --users "$users" >"$tmp/reader") || fail "user add"
export KVD_CREDENTIALS_FILE=$tmp/admin
http=$(kvd --version | grep -q 'metrics: yes' && echo 1 || echo 0)

# What another user's PUTs take, until pace_end: $puts of them, $p99, $max in microseconds.
pace() {
	rm -f "$tmp/paced"
	start "$attack" "$KVD_ADDR" pace "$tmp/admin" other "$tmp/paced" >"$tmp/pace"
	pacer=$pid
}
pace_end() { # WHAT
	touch "$tmp/paced"
	wait_exit "$pacer"
	[ "$status" = 0 ] || fail "$1: PUTs of another user: $(cat "$tmp/pace")"
	say "$1: $(cat "$tmp/pace")"
	[ "$(awk '{ print $4 }' "$tmp/pace")" = 0 ] || fail "$1: PUTs of another user failed"
	puts=$(awk '{ print $2 }' "$tmp/pace") p99=$(awk '{ print $8 }' "$tmp/pace") max=$(awk '{ print $10 }' "$tmp/pace")
}
healthy() {
	[ -n "$port" ] || return 0
	exec 9<>"/dev/tcp/127.0.0.1/$port" || return 1
	printf 'GET /healthz HTTP/1.1\r\nHost: kvd\r\nConnection: close\r\n\r\n' >&9
	timeout $patience_s cat <&9 | grep -q '^HTTP/1.1 200'
}
# hoard N PROCESSES: waits until all have their answers.
hoard() {
	rm -f "$tmp/let-go"
	start "$attack" "$KVD_ADDR" hoard "$1" "$2" "$tmp/reader" long "$tmp/let-go" >"$tmp/hoard"
	hoarder=$pid
	while [ "$(grep -c '^hoards' "$tmp/hoard")" -lt "$2" ]; do
		gone $hoarder && fail "the reader ended: $(cat "$tmp/hoard")"
		healthy || fail "kvd says that it is not well"
		sleep 0.05
	done
	say "$(tr '\n' ';' <"$tmp/hoard")"
}
let_go() {
	touch "$tmp/let-go"
	wait_exit "$hoarder"
	[ "$status" = 0 ] || fail "the reader got nothing: $(cat "$tmp/hoard")"
}

# Time.
mb=$(scaled 192)
start_kvd --memory $((mb * 3))M --workers 1 --users "$users" $([ $http = 0 ] || echo --metrics 127.0.0.1:0)
port=$(sed -nE 's|.*metrics at http://[^ ]*:([0-9]+)/metrics.*|\1|p' "$kvd_log" | tail -n 1)
head -c ${mb}M /dev/zero | kvcli put long - || fail "put of a long value"
pace; sleep 1; pace_end "nobody else"
base=$p99
pace
hoard 120 3
pace_end "120 GETs by message of $mb MB"
# Of fewer than 100, at a small size, it is the greatest, which others' time slices are in.
compute "$p99 <= 5 * $base || $p99 <= ($puts < 100 ? 200000 : 20000)" || fail "a reader of a long value makes PUTs of others slow: p99 $p99 us"
compute "$max <= 1000000" || fail "a reader of a long value keeps a worker for $max us"
pace
timeout $((2 * patience_s)) "$attack" "$KVD_ADDR" swell 12 3 "$tmp/admin" long >"$tmp/swell" ||
	fail "appends to a long value: $(cat "$tmp/swell")"
say "$(tr '\n' ';' <"$tmp/swell")"
pace_end "12 appends to a value of $mb MB, and 12 touches"
compute "$max <= 1000000" || fail "appends to a long value keep a worker for $max us"
done=$(awk '{ n += $2 } END { print n }' "$tmp/swell")
[ "$(kvcli get long | wc -c)" = $((mb * 1048576 + done)) ] || fail "$done appends, and $(kvcli get long | wc -c) bytes"
SECONDS=0
expect 0 kvcli del long
[ $SECONDS -le 5 ] || fail "the key could not be deleted for $SECONDS s"
expect 1 kvcli get long
let_go
stop_kvd
port=

# Memory.
used() { stat memory.used_bytes; }
start_kvd --memory 128M --users "$users"
head -c 30M /dev/zero | kvcli put long - || fail "put of a long value"
before=$(used)
hoard 12 3
[ "$(used)" = "$before" ] || fail "readers take memory: $(used) bytes are used, $before were"
for i in 1 2; do
	head -c 30M /dev/zero | kvcli put long$i - || fail "idle readers of a long value fill the table"
done
expect 0 kvcli del long
head -c 30M /dev/zero | kvcli put long - || fail "what readers pin leaves no room"
[ "$(stat memory.pinned_bytes)" -le $((8 << 20)) ] || fail "readers pin $(stat memory.pinned_bytes) bytes"
let_go

# Time ends it, too.
expect 0 kvcli del long long1 long2
head -c 4M /dev/zero | kvcli put long - || fail "put of a long value"
hoard 3 3
expect 0 kvcli del long
[ "$(stat memory.pinned_bytes)" -ge $((4 << 20)) ] || fail "nothing is pinned"
released() { [ "$(stat memory.pinned_bytes)" = 0 ]; }
wait_for released || fail "idle readers pin $(stat memory.pinned_bytes) bytes for ever"
let_go
stop_kvd

# A cache.
start_kvd --memory 64M --evict --users "$users"
head -c 20M /dev/zero | kvcli put long - || fail "put of a long value"
head -c 20M /dev/zero | kvcli put witness - || fail "put of another"
hoard 12 3
[ "$(stat eviction.evictions)" = 0 ] || fail "readers empty a cache"
let_go
stop_kvd
