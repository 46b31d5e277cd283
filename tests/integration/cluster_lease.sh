#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# In a cluster a GET is one READ. The primary is frozen, its memory stays readable, the backup takes
# over, and keys are changed there: whoever still READs the old one is told nothing of before.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
. "$KVD_SOURCE/tests/lib/cluster/kit.sh"
. "$KVD_SOURCE/tests/lib/sessions.sh"

requires_cluster
records=$(scaled 5000 500) seconds=$(scaled 5 2) # so long are many leases
# Behind the members: one that is silent for 100 ms is deposed.
bench() { nice "$KVD_BUILD/kvbench" "$1" -s "$KVD_ADDR" -q -p recordcount="$records" "${@:2}"; }
figure() { flatten <"$tmp/report.json" | awk -v path="$1" '$1 == path { print $2; n++; exit } END { exit !n }' ||
	fail "no $1 in the report"; }

# asked SESSION HOW KEY: it was READ, but did not count; and what it is told is none of before.
asked() {
	local before=${fell[$1]}
	question "$@"
	[ "$what" != old ] && [ "$what" != "(not found)" ] || fail "stale: $* is told $what"
	[ "$fallbacks" -gt "$before" ] || fail "it proves nothing: $* did not READ the frozen one's memory"
}

start_two

# counts KEY VALUE: session 0 READs it, and needs not ask.
counts() { local before=$fallbacks; question 0 get "$1"; [ "$what" = "$2" ] && [ "$fallbacks" = "$before" ]; }
fallbacks=0
questions 1
question 0 get key # to know where it is
wait_for counts key value || fail "a GET doesn't count: $answer"

# What GETs cost.
expect 0 bench load -P "$KVD_SOURCE/bench/workloads/workloadc" -p dataintegrity=true -t 2
expect 0 bench run -P "$KVD_SOURCE/bench/workloads/workloadc" --duration "$seconds" \
	-p dataintegrity=true --json "$tmp/report.json"
[ "$(figure integrity.wrong)" = 0 ] || fail "wrong values"
gets=$(figure overall.operations)
say "$gets GETs: $(figure verbs.read) READs, $(figure verbs.fallbacks) asked for by message"
most="1.02 * $gets"
# Each of two threads looks at the lease every 20 ms: that is more than a fiftieth of a sanitizer's few GETs.
! is_sanitized || most="$gets + $((seconds * 2 * 60))"
compute "$(figure verbs.read) <= $most" || fail "a GET costs more than 1.02 READs"
compute "$(figure verbs.read) > $gets" || fail "it proves nothing: nobody looked at the lease"
compute "$(figure verbs.fallbacks) <= 0.001 * $gets" || fail "GETs are asked for by message"

# Who was idle meanwhile asks once.
was=$fallbacks
counts key value || [ "$what" = value ] || fail "key: $what"
say "who was idle asked $((fallbacks - was)) times"
wait_for counts key value || fail "a GET doesn't count any more: $answer"
ends_asking

# Who serves shows words, which rise; who does not shows nothing.
header() { on "$1"; "$lease" "$KVD_ADDR" header 1500 1 || fail "no header of member $1"; }
shows_nothing() { [ "$(header "$1")" = "0 0 0" ]; }
rises() { read -r reign a _ < <(header $primary) && [ "$reign" -gt 0 ] && [ "$a" -gt "$1" ]; }
read -r reign a granted < <(header $primary)
[ "$a" -ge "$granted" ] && [ "$granted" -gt 0 ] || fail "the primary shows $reign $a $granted"
wait_for rises "$a" || fail "A does not rise"
shows_nothing $backup || fail "a backup shows $(header $backup)"
on $primary

# One who waits for an answer for longer than the primary is frozen: it asks by message meanwhile.
patient_says() { echo "0 get key"; echo "0 get key"; wait_for test -e "$tmp/changed"; echo "0 get key"; }
patient() { patient_says | "$lease" "$KVD_ADDR" ask 12000 1 >"$tmp/patient.out" 2>&1; }
patient_line() { sed -n "$1p" "$tmp/patient.out"; }
patient_is_ready() { [ -n "$(patient_line 2)" ]; }
patient_is_told() {
	wait_exit "$patient_pid"
	say "who asked the frozen one is told: $(patient_line 3)"
	case $(patient_line 3) in
	"old "* | "(not found) "* | '') fail "stale: the old primary answers with what was before" ;;
	esac
	[ "$(patient_line 2 | awk '{ print $NF }')" -lt "$(patient_line 3 | awk '{ print $NF }')" ] ||
		fail "it proves nothing: the frozen one was not asked"
}

# freeze: what is READ there is not believed after the other one serves.
freeze() {
	local i
	expect 0 kvcli put key old
	kvcli del later >"$tmp/out" 2>&1
	rm -f "$tmp/changed"
	questions 4
	for i in 0 1 2 3; do
		question $i get key # to know where it is
		question $i get later
		[ "$what" = "(not found)" ] || fail "later: $what"
		question $i get key
		[ "$what" = old ] || fail "key: $what"
		fell[i]=$fallbacks
	done
	rm -f "$tmp/watch.out"
	start nice "$lease" "$KVD_ADDR" watch 1500 key old "$tmp/changed" >"$tmp/watch.out" 2>&1
	watcher_pid=$pid
	wait_for grep -q ready "$tmp/watch.out" || fail "the watcher doesn't start"
	start patient
	patient_pid=$pid
	wait_for patient_is_ready || fail "$(cat "$tmp/patient.out")"
	stop_process "${pids[$primary]}"
	wait_for state_is $backup primary || fail "the backup doesn't take over"
	on $backup
	wait_for served || fail "the new primary doesn't serve"
	expect 0 kvcli put key new
	expect 0 kvcli put later there
	touch "$tmp/changed"
	asked 0 get key
	asked 1 submit key
	asked 2 get later
	asked 3 submit later
	wait_exit "$watcher_pid"
	say "$(tail -n 1 "$tmp/watch.out")"
	[ "$status" = 0 ] || fail "stale: a GET told what was before"
	is_stopped "${pids[$primary]}" || fail "it proves nothing: the old primary ran"
	ends_asking
}

freeze

# It wakes: it is no primary, and its table is READ by nobody.
kill -CONT "${pids[$primary]}"
patient_is_told
state_is_no_primary() { on "$primary"; [ "$(stat cluster.state)" != primary ]; }
wait_for state_is_no_primary || fail "the old primary still takes itself for one"
expect 0 kvcli get key; prints new # it says where the new one is
wait_for shows_nothing $primary || fail "the old primary shows $(header $primary)"
on $backup
expect 0 kvcli get key; prints new
