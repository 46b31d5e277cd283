#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# kvbench raw --relay: an exchange by way of a peer and others. Each of its messages has the length
# that was asked for; all of the others are awaited; one that dies or stands still ends it.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
device=(${KVD_TEST_DEVICE:+--device "$KVD_TEST_DEVICE"} --address "$KVD_TEST_ADDR")
raw() { "$KVD_BUILD/kvbench" raw "${device[@]}" --duration 50ms --json "$tmp/report.json" "$@"; }
exchange() { raw --op EXCHANGE "$@"; }
lines() { flatten <"$tmp/report.json" | grep -c '^raw\.\.operation '; }
figure() { flatten <"$tmp/report.json" | awk -v path="$1" '$1 == path { print $2; n++; exit } END { exit !n }' ||
	fail "no $1 in the report"; }

# Four processes that spin on two processors wait for each other's time slices: for longer, then.
for poll in busy event; do
	for duration in 50ms 1s 20s; do
		expect 0 exchange --relay 2 --size 144 --record 264 --ack 48 --answer 64 --poll $poll --duration $duration
		[ "$(figure raw..count)" -lt 10 ] || break
	done
	check_log "$tmp/err"
	[ "$(lines)" = 1 ] && [ "$(figure raw..operation)" = EXCHANGE ] || fail "one line, an EXCHANGE, is expected"
	reached "exchanges, $poll" "$(figure raw..count)" 10
	[ "$(figure raw..bytes)" = 144 ] || fail "a message of other bytes"
	compute "$(figure raw..per_second) > 0" || fail "an exchange has a rate, too"
done
expect 0 raw --relay 1
[ "$(lines)" = 8 ] || fail "seven verbs and the exchange are 8 lines"
expect 0 raw
[ "$(lines)" = 7 ] || fail "an exchange without --relay"

# Each of the lengths is that of a message: a long one takes longer, each time it is looked at but
# where the machine has other work. Who waits sleeps: three that spin on two processors wait for
# each other's time slices.
is_longer() {
	expect 0 exchange --relay 1 --poll event
	short=$(figure raw..p50_us)
	expect 0 exchange --relay 1 --record 64 --ack 64 --answer 64 --poll event "--$1" 8M
	compute "$(figure raw..p50_us) > 3 * $short"
}
for leg in size record ack answer; do
	is_longer $leg || is_longer $leg || is_longer $leg ||
		fail "--$leg 8M: $(figure raw..p50_us) us, and $short us with messages of 64 bytes"
done

expect 2 exchange; says "needs --relay"
expect 2 raw --record 64; says "with --relay"
expect 2 raw --ack 64; says "with --relay"
expect 2 raw --answer 64; says "with --relay"
expect 2 raw --relay 3; says "--relay"
expect 2 raw --relay 1 --server 127.0.0.1:1; says "without --server"
expect 2 timeout 60 "$KVD_BUILD/kvbench" raw --relay 1 --listen 127.0.0.1; says "without --server"
expect 2 exchange --relay 1 --cpus 0,0; says "3 numbers"
expect 2 exchange --relay 1 --cpus 0,0,0,0; says "3 numbers"
expect 2 exchange --relay 1 --cpus 0,0,x; says "3 numbers"
expect 2 exchange --relay 1 --cpus 0,0,; says "3 numbers"

# -------------------------------------------------------------------- with trouble
allowed=$(sed -nE 's/^Cpus_allowed_list:\s*//p' /proc/self/status)
first=${allowed%%[-,]*} last=${allowed##*[-,]}

children() {
	read -ra child <"/proc/$pid/task/$pid/children" || : # it has no newline
	[ ${#child[@]} = 3 ]
}
# The two others come first, then the peer.  It has used so many ticks of a processor when the
# exchange goes on; on a machine with other work, or with a sanitizer, already while it starts.
begun_ticks=10
has_begun() { children && [ "$(cpu_ticks "${child[2]}")" -ge $begun_ticks ]; }

# begin POLL: a long exchange with two others; sets child.
begin() {
	start "$KVD_BUILD/kvbench" raw "${device[@]}" --op EXCHANGE --relay 2 --duration 10m --poll "$1" \
		--cpus "$first,$last,$last,$first" >"$tmp/out" 2>"$tmp/err"
	wait_for children || fail "kvbench has no three processes of its own"
	wait_for has_begun || fail "the exchange doesn't begin"
}

# runs_on PID CPU
runs_on() {
	grep -qE "^Cpus_allowed_list:\s*$2\$" "/proc/$1/status" || fail "process $1 doesn't run on processor $2"
}

# ends: with trouble, and all of its processes.
ends() {
	wait_exit "$pid"
	[ "$status" = 3 ] || fail "it ended with $status"
	for i in "${child[@]}"; do wait_for gone "$i" || fail "process $i is left"; done
	check_log "$tmp/err"
}

# loses POLL VICTIM HOW: an exchange to which that happens while it goes on; the client says why.
loses() {
	begin "$1"
	until $3 "${child[$2]}" && ends && ! grep -q 'EXCHANGE: connecting' "$tmp/err"; do
		begun_ticks=$((4 * begun_ticks)) # that was too early
		[ $begun_ticks -lt 3000 ] || fail "the exchange never begins"
		begin "$1"
	done
	says "EXCHANGE: the peer closed the connection"
}
kills() { kill -KILL "$1"; }
stops() {
	runs_on "$pid" "$first"
	runs_on "${child[0]}" "$last"
	runs_on "${child[1]}" "$first"
	runs_on "${child[2]}" "$last"
	stop_process "$1"
}

for poll in busy event; do
	for victim in 0 1; do
		loses $poll $victim kills
		says "which messages are forwarded to: the peer closed the connection"
	done
	loses $poll 2 kills
done
loses event 1 stops
says "which messages are forwarded to: no completion within 5 s"
