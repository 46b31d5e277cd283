#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A cluster whose members have two devices: clients by either, told of both by any member. The port that
# links are not of is cut at the primary, or its device fails: changes go on, and nobody takes over. The one
# that they are of is cut: somebody serves on, and all are together again when it is mended. Clients by both
# follow, also where the primary is killed, and locks by both exclude each other, before and after.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
. "$KVD_SOURCE/tests/lib/cluster/kit.sh"
. "$KVD_SOURCE/tests/lib/sessions.sh"

requires_cluster
[ "${KVD_BOOTSTRAP-}" != tcp ] || skip "with bootstrap tcp kvd serves one device"
export SOFTVERBS_DEVICES=2
adds=$(scaled 20000 2000)
one=() two=()

# member N [FAULT]: sets addr[N] to both addresses, one[N] and two[N] to each; its ports are cut in $tmp/downN.
member() {
	mkdir -p "$tmp/down$1"
	[ -z "${2-}" ] || export SOFTVERBS_FAULT=$2
	SOFTVERBS_DOWN=$tmp/down$1 start_kvd --memory 64M --workers 2 --poll event --log-level debug \
		--cluster "$zookeepers/test" --cluster-key "$tmp/key" --listen 127.0.0.1:0,127.0.0.2:0
	unset SOFTVERBS_FAULT
	{ read -r "one[$1]"; read -r "two[$1]"; } <<<"$KVD_ADDR"
	addr[$1]=${one[$1]},${two[$1]} pids[$1]=$KVD_PID logs[$1]=$kvd_log
	KVD_ADDR=${one[$1]}
	names[$1]=$(stat cluster.member)
}
by() { "$KVD_BUILD/kvcli" -t 20s -s "$@"; }
# connections N DEVICE: how many came to it there.
connections() { grep -c "connection [0-9]* from 127\.0\.0\.$2:.* on worker" "${logs[$1]}"; }
epoch() { by "${one[$primary]}" stats --json | flatten | awk '$1 == "cluster.epoch" { print $2 }'; }

# adding ADDR FILE: adds to a counter, many in flight; a line for each answer.
adding() {
	for ((i = 0; i < adds; i++)); do echo "incr count"; done | by "$1" >"$2" 2>&1
}
answered() { [ -s "$1" ] && [ "$(wc -l <"$1")" -ge "$2" ]; }
# all_added FILE: that one ended, and each was answered.
all_added() {
	wait_exit "$2"
	reached "answers" "$(wc -l <"$1")" "$adds"
	! grep -v '^[0-9]*$' "$1" || fail "an add was given up"
	added=$((added + adds))
}
counted() { expect 0 by "$1" get count; prints "$added"; }
added=0

say "links are of the first device"
head -c 32 /dev/urandom | basenc --base64url | tr -d = >"$tmp/key"
start "$KVD_BUILD/kvd" --memory 64M --listen 127.0.0.1:0,127.0.0.2:0 --cluster 127.0.0.1:9/x \
	--cluster-key "$tmp/key" --cluster-listen 127.0.0.2:0 2>"$tmp/err"
wait_exit "$pid"
[ "$status" = 1 ] || fail "status $status"
says "127.0.0.2:0 is on another device than the first address of --listen"

start_zookeeper
for i in 1 2 3; do member $i; done
init_cluster 3
wait_for one_is_primary 1 2 3 || fail "nobody is primary"
wait_for is_whole || fail "the set is not whole"

say "any address leads to the primary, and to all of its"
told() {
	by "${two[$backup]}" cluster status --json | flatten | awk '$1 ~ /clients$/ { print $2 }' | sort >"$tmp/told"
	printf '%s\n' "${addr[@]}" | sort | cmp -s - "$tmp/told"
}
wait_for told || fail "members tell $(cat "$tmp/told"), not ${addr[*]}"
head -c 3000000 /dev/urandom >"$tmp/long" # READ by members, from whichever worker
for i in 1 2 3; do
	for at in "${one[i]}" "${two[i]}"; do
		expect 0 by "$at" put "by $at" "$at"
		expect 0 by "$at" put "long by $at" --file "$tmp/long"
	done
done
first=$(connections "$primary" 1) second=$(connections "$primary" 2)
expect 0 "$KVD_BUILD/kvbench" load -s "${one[$primary]}" -t 4 -q -p recordcount=1000 \
	-P "$KVD_SOURCE/bench/workloads/workloada"
reached "sessions by the first" $(($(connections "$primary" 1) - first)) 2
reached "sessions by the second" $(($(connections "$primary" 2) - second)) 2

say "the second port is cut"
was_epoch=$(epoch)
export SOFTVERBS_DOWN=$tmp/down$primary
start adding "${two[$primary]}" "$tmp/adds"
adder=$pid
wait_for answered "$tmp/adds" $((adds / 10)) || fail "nothing is added"
touch "$SOFTVERBS_DOWN/soft1"
all_added "$tmp/adds" $adder
rm "$SOFTVERBS_DOWN/soft1"
unset SOFTVERBS_DOWN
counted "${two[$primary]}"
[ "$(epoch)" = "$was_epoch" ] || fail "epoch $(epoch), which was $was_epoch: somebody took over, or was left out"

# both_add MEMBER: somebody adds by the primary's first device, somebody else by that member's second.
both_add() {
	start adding "${one[$primary]}" "$tmp/adds"
	adder=$pid
	start adding "${two[$1]}" "$tmp/adds2"
	adder2=$pid
	wait_for answered "$tmp/adds" $((adds / 10)) || fail "nothing is added"
	wait_for answered "$tmp/adds2" $((adds / 10)) || fail "nothing is added by the second device"
}

say "the first port is cut"
both_add "$primary"
was=$primary
touch "$tmp/down$was/soft0"
cut=$EPOCHREALTIME
# Who is cut off is succeeded, though they could leave the others out.
turned() { one_serves "$was" && [ "$(of_member epoch)" -gt "$was_epoch" ]; }
wait_for turned || fail "nobody serves without who is cut off"
say "member $primary serves, where $was did, $(awk "BEGIN { printf \"%d\", ($EPOCHREALTIME - $cut) * 1000 }") ms after the cut"
all_added "$tmp/adds" $adder
all_added "$tmp/adds2" $adder2
counted "${two[$was]}" # who is cut off serves by its other port, or says there who does
rm "$tmp/down$was/soft0"
grep -q "its port is down" "${logs[was]}" || fail "who is cut off doesn't know"
wait_for is_whole || fail "who was cut off does not come back"

say "all first ports are cut"
was_epoch=$(epoch) was=$primary
touch "$tmp"/down{1,2,3}/soft0
# Each says so last.
know() { for i in 1 2 3; do grep "its port is" "${logs[i]}" | tail -n 1 | grep -q down || return; done; }
wait_for know || fail "who is cut off doesn't know"
rm "$tmp"/down{1,2,3}/soft0
wait_for is_whole || fail "they do not come together again"
counted "${one[$primary]}"
[ "$primary" = "$was" ] && [ "$(epoch)" = "$was_epoch" ] ||
	fail "epoch $(epoch), which was $was_epoch: somebody took over, or was left out"

say "locks"
# answers SESSION HOW KEY PATTERN
answers() {
	question "$1" "$2" "$3"
	case $what in
	$4) ;;
	*) fail "session $1, $2 $3: '$what', where '$4' was to come" ;;
	esac
}
lost="error: *lost*" busy="error: *busy*"
KVD_ADDR=${one[$primary]} ask_ms=10000
questions 4 # sessions 0 and 2 by the first device, the others by the second
answers 0 lock name "*"
[ "$reads" -ge 1 ] || fail "it proves nothing: session 0 is not by the first device"
for i in 1 2 3; do answers $i try name "$busy"; done
answers 0 change name OK
answers 0 unlock name OK
answers 1 lock name "by 0"
[ "$reads" = 0 ] || fail "it proves nothing: session 1 is by the first device"
for i in 0 2 3; do answers $i try name "$busy"; done
answers 1 check name OK
answers 1 change name OK
answers 0 lock other "*"
was=$primary
stop_process "${pids[$was]}"
wait_for without_was || fail "nobody takes over from who is frozen"
answers 2 lock name "by 1"
answers 3 try name "$busy"
answers 3 lock other "*"
answers 1 check name "$lost"
answers 1 change name "$lost"
answers 0 check other "$lost"
answers 0 unlock other "$lost"
answers 1 unlock name "$lost"
answers 0 try other "$busy"
answers 1 try name "$busy"
answers 2 unlock name OK
answers 3 unlock other OK
answers 1 lock name "by 1"
answers 1 unlock name OK
is_stopped "${pids[$was]}" || fail "it proves nothing: the old primary ran"
resume_process "${pids[$was]}"
ends_asking
wait_for is_whole || fail "who was frozen does not come back"

say "the primary is killed"
backups=()
for i in 1 2 3; do [ $i = $primary ] || backups+=("$i"); done
both_add "${backups[0]}"
kill_member "$primary"
all_added "$tmp/adds" $adder
all_added "$tmp/adds2" $adder2
for i in "${backups[@]}"; do
	for at in "${one[i]}" "${two[i]}"; do counted "$at"; done
done
for i in 1 2 3; do
	for at in "${one[i]}" "${two[i]}"; do
		expect 0 by "${two[${backups[0]}]}" get "by $at"; prints "$at"
		by "${one[${backups[1]}]}" get "long by $at" | cmp - "$tmp/long" || fail "a long value is another one"
	done
done

say "the second device of the primary fails"
killed=$primary
member "$killed" event=8,event_at=$((adds / 2)),device=1
wait_for is_whole || fail "the set is not whole after a start"
expect 0 by "${one[$primary]}" cluster promote "${names[$killed]}"
is_led() { one_serves 0 && [ "$primary" = "$killed" ]; }
wait_for is_led || fail "who was started is not primary"
was_epoch=$(epoch)
start adding "${two[$killed]}" "$tmp/adds"
adder=$pid
lost() { grep -q 'soft1 (127.0.0.2:[0-9]*) is of no use any more' "${logs[$killed]}"; }
wait_for lost || fail "no device is lost"
all_added "$tmp/adds" $adder
[ "$(epoch)" = "$was_epoch" ] || fail "epoch $(epoch), which was $was_epoch: somebody took over, or was left out"
# Its workers still take part: each obeys what a hand-over wants.
expect 0 by "${one[$killed]}" cluster promote "${names[${backups[0]}]}"
counted "${one[$killed]}"
wait_for is_whole || fail "the set is not whole"
