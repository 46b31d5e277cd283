#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# --bootstrap tcp: queue pairs that TCP introduces.  All that basics.sh asks for works, users
# prove who they are, both ends notice the other's death, and neither garbage on the port
# nor connections that say nothing keep others out.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"

say "the basics"
KVD_BOOTSTRAP=tcp bash "$KVD_SOURCE/tests/integration/basics.sh" >"$tmp/basics" 2>&1 ||
	{ cat "$tmp/basics"; fail "basics.sh"; }

start_kvd --memory 64M --bootstrap tcp
grep -q 'introduced over TCP' "$kvd_log" || fail "kvd doesn't say how"
tcp() { kvcli --bootstrap tcp "$@"; }
expect 0 tcp put key value
expect 0 tcp get key
prints value

say "ends that don't agree say so, and are let go"
expect 3 kvcli --timeout 5 get key
says "connecting to $KVD_ADDR"
expect 3 kvcli --bootstrap smoke get key
says "neither tcp nor cm"
expect 3 kvcli --device ,gid=1 get key
says "are for bootstrap=tcp"

host=${KVD_ADDR%:*} port=${KVD_ADDR##*:}
host=${host#[}
host=${host%]}

# frame KIND VERSION MTU DATA_BYTES: a request as of a client, but for what is asked for.
frame() {
	printf 'KVT1'
	printf "\\x$(printf %02x "$2")\\x00\\x$(printf %02x "$1")\\x02"
	printf '\x11\x00\x00\x00\x22\x00\x00\x00\x00\x00'
	printf "\\x$(printf %02x "$3")\\x01\\x01\\x$(printf %02x "$4")\\x00\\x00"
	head -c 80 /dev/zero
}

# ends DESCRIPTOR: kvd closes it.
ends() {
	timeout "$patience_s" cat <&"$1" >"$tmp/said" 2>/dev/null
	[ $? != 124 ] || fail "kvd keeps a connection that sent nonsense"
}

say "garbage"
for ((i = 0; i < $(scaled 60); i++)); do
	exec 5<>"/dev/tcp/$host/$port" || fail "can't connect"
	head -c $((RANDOM % 300 + 104)) /dev/urandom >&5 2>/dev/null
	ends 5
	exec 5>&-
done
for what in "0 1 3 48" "2 1 3 48" "4 1 3 48" "9 1 3 48" "1 2 3 48" "1 1 0 48" "1 1 6 48" "1 1 3 65"; do
	exec 5<>"/dev/tcp/$host/$port"
	# shellcheck disable=SC2086 # four words
	frame $what >&5
	ends 5
	[ ! -s "$tmp/said" ] || fail "kvd answers a request of $what"
	exec 5>&-
done
# A frame that is whole, but no client's: it is refused in words that a client understands.
exec 5<>"/dev/tcp/$host/$port"
frame 1 1 3 48 >&5
ends 5
[ "$(wc -c <"$tmp/said")" = 104 ] || fail "no rejection: $(wc -c <"$tmp/said") bytes"
exec 5>&-
expect 0 tcp get key

descriptors() { set -- "/proc/$KVD_PID/fd"/*; echo $#; }
few_descriptors() { [ "$(descriptors)" -le $((before + 2)) ]; }
before=$(descriptors)
say "more that say nothing than may, half a request each"
fds=()
for ((i = 0; i < 300; i++)); do
	exec {fd}<>"/dev/tcp/$host/$port" || fail "connection $i"
	printf 'KVT1' >&"$fd"
	fds+=("$fd")
done
expect 0 tcp get key
prints value
ends "${fds[0]}" # the eldest made room
for fd in "${fds[@]}"; do exec {fd}>&-; done
expect 0 tcp get key
wait_for few_descriptors || fail "$(descriptors) descriptors where $before were before"

say "no descriptor is left for a client: it is sent away, and who waits does not keep kvd busy"
used() { awk '{ print $14 + $15 }' "/proc/$KVD_PID/stat"; }
soft=$(awk '/^Max open files/ { print $4 }' "/proc/$KVD_PID/limits")
highest=$(ls "/proc/$KVD_PID/fd" | sort -n | tail -n 1)
prlimit --pid "$KVD_PID" --nofile=$((highest + 2)): || fail "prlimit"
fds=()
for ((i = 0; i < highest + 10; i++)); do
	exec {fd}<>"/dev/tcp/$host/$port" || fail "connection $i"
	fds+=("$fd")
done
ends "${fds[-1]}"
ticks=$(used)
sleep 0.5 # of which it would use all
[ $(($(used) - ticks)) -lt 25 ] || fail "kvd has used $(($(used) - ticks)) hundredths of half a second"
prlimit --pid "$KVD_PID" --nofile="$soft": || fail "prlimit"
for fd in "${fds[@]}"; do exec {fd}>&-; done
expect 0 tcp get key
prints value
wait_for few_descriptors || fail "$(descriptors) descriptors where $before were before"

say "kvd is killed under a client"
address=$KVD_ADDR
open_batch --bootstrap tcp --timeout 3
ask "get key"
[ "$answer" = value ] || fail "get: $answer"
kill_kvd
since=$SECONDS
ask "put key gone"
case $answer in ERROR*) say "$answer" ;; *) fail "put to nobody: $answer" ;; esac
[ $((SECONDS - since)) -lt 15 ] || fail "that took $((SECONDS - since)) s"
close_batch 3

say "users"
(umask 077; kvd init --users "$tmp/users" >"$tmp/admin" 2>/dev/null) || fail "init"
start_kvd --memory 64M --bootstrap tcp --users "$tmp/users"
expect 3 tcp get key
says "wants to know who you are"
expect 0 tcp --credentials "$tmp/admin" put key value
(umask 077; kvd init --users "$tmp/others" >"$tmp/mallory" 2>/dev/null) || fail "init"
expect 3 tcp --credentials "$tmp/mallory" get key
stop_kvd
