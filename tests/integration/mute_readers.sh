#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Readers that ask for pages and take none of them: the others are answered, at once, and
# who takes its replies late gets each of them.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
attack=$KVD_BUILD/tests/attack/attack
users=$tmp/users
(umask 077; kvd init --users "$users" >"$tmp/admin" 2>/dev/null) || fail "init"
for who in reader:read writer:write; do
	(umask 077; "$KVD_BUILD/kvcli" user add "${who%:*}" "${who#*:}" --users "$users" >"$tmp/${who%:*}") ||
		fail "user add $who"
done
start_kvd --memory 64M --users "$users" --workers 1 --handshakes 0
export KVD_CREDENTIALS_FILE=$tmp/writer
for i in $(seq 400); do echo "put key$i value"; done | kvcli >/dev/null || fail "put"

# mutes N REQUESTS: sets $mutes, of connections whose requests kvd has all received.
mutes() {
	rm -f "$tmp/go"
	: >"$tmp/mutes"
	start "$attack" "$KVD_ADDR" mutes "$1" "$2" keys "$tmp/reader" "$tmp/go" >"$tmp/mutes"
	mutes=$pid
	wait_for grep -q asked "$tmp/mutes" || fail "they don't ask"
	say "$1 readers: $(cat "$tmp/mutes")"
}
let_go() {
	touch "$tmp/go"
	wait_exit "$mutes"
}
puts() {
	local i
	for i in 1 2 3 4 5 6 7 8; do
		expect 0 kvcli put "mine$i" value
		expect 0 kvcli get "mine$i"; prints value
	done
}
# Within their credits, and well over what they may have.
mutes 2 129
puts
let_go
mutes 20 129
puts
expect 0 kvcli --credentials "$tmp/reader" keys
[ "$(grep -c ^mine "$tmp/out")" = 8 ] || fail "another reader's list"
let_go
mutes 2 600
puts
let_go
grep -Eq 'closed: (it asks for more, and takes none of its replies|more requests than its credits)' "$kvd_log" ||
	fail "they stay with more than they may have"
# So many that all buffers are theirs: those who take nothing make room. How many of their requests
# kvd has at once is the machine's doing: three tries.
room_was_made() { grep -q 'others wait for theirs' "$kvd_log"; }
for ((try = 1; ; try++)); do
	mutes 100 60
	puts
	expect 0 kvcli --credentials "$tmp/reader" keys
	patience_s=10 wait_for room_was_made && break
	if [ $try = 3 ]; then
		# A kvd that slow ends mute connections for their silence before it has no buffer left.
		is_sanitized && grep -q 'it took none of its replies for' "$kvd_log" && break
		fail "no room was made, or none was needed"
	fi
	let_go
done
let_go
quiet() { [ "$(stat connections)" = 1 ]; }
KVD_CREDENTIALS_FILE=$tmp/admin
wait_for quiet || fail "connections stay"
puts
stop_kvd
