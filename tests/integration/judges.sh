#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# What judges the tests: figures that are none, floors, faults that never happened, skips that
# nobody allowed, what was tried again.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"

# refuses WORDS COMMAND...: it ends this test, with these words.
refuses() {
	local words=$1
	shift
	(cleanup_fns=() && trap - EXIT && "$@") >"$tmp/out" 2>&1 && { cat "$tmp/out"; fail "$* is ok"; }
	grep -qF -- "$words" "$tmp/out" || { cat "$tmp/out"; fail "$*: no '$words'"; }
}

# ------------------------------------------------------------------------ figures
eval "$(sed -n '/^row() {/,/^}/p' "$KVD_SOURCE/bench/engine/run")"
missed=0
row "a figure" 1.5 '<=' 2 >"$tmp/out"
row "a small one" 2e-05 '<=' 2 >"$tmp/out"
[ $missed = 0 ] || fail "a row that is right is MISSED"
row "a large one" 2.5 '<=' 2 >"$tmp/out"
[ $missed = 1 ] || fail "a row that is wrong is ok"
for figure in nan -nan inf none; do
	refuses "no number" row "no figure" $figure '<=' 2
done
refuses "no figure" row "no figure" '' '<=' 2
refuses "no number" compute "nan > 0"
compute "3 > 2.5" || fail "3 > 2.5"
! compute "3 < 2.5" || fail "3 < 2.5"

# ------------------------------------------------------------------------- floors
[ "$(KVD_TEST_SCALE=5 scaled 100 20)" = 20 ] && [ "$(KVD_TEST_SCALE=50 scaled 100 20)" = 50 ] || fail "scaled"
reached "transfers" 3 3
refuses "it proves nothing: 2 transfers, and 3 are the least" reached "transfers" 2 3
refuses "it proves nothing" reached "transfers" '' 1
printf 'torn\ntorn\n' >"$tmp/log"
check_faults seed=1,torn=5,delay_us=3 "$tmp/log"
refuses "it proves nothing: 0 faults of torn=5,flip=1: flip" check_faults torn=5,flip=1 "$tmp/log"
refuses "it proves nothing: 0 faults" check_faults torn=5 "$tmp/none"

# ---------------------------------------------------------------------- ./runtests
# run LINES: what ./runtests makes of them, as a script's of the tier "integration", in
# $tmp/out; its verdict last.
run() {
	printf '%s\n' "$@" >"$tmp/lines"
	bash -uc '
		top=$1 red= green= yellow= plain= scale=100 passed=0 failed=0 skipped=0 retried=0 ran=0 verdict=0
		failures=() skips=() retries=()
		say() { printf "%s\n" "$*"; }
		eval "$(sed -n "/^# -* counting$/,/^check_programs/p" "$top/runtests" | sed "\$d")"
		count_lines integration ${3:+"$3"} <"$2"
		printf "%s\n" ${failures[@]+"${failures[@]}"} ${retries[@]+"${retries[@]}"}
		echo "$passed $failed $skipped $retried $verdict"' - "$KVD_SOURCE" "$tmp/lines" "${build-}" >"$tmp/out" 2>&1 ||
		{ cat "$tmp/out"; fail "runtests"; }
}
# counted PASSED FAILED SKIPPED RETRIED VERDICT
counted() { [ "$(tail -n 1 "$tmp/out")" = "$*" ] || { cat "$tmp/out"; fail "runtests counts otherwise than $*"; }; }
run "PASS: a" "FAIL: b" "PASS: c"; counted 2 1 0 0 1
run "PASS: a" "SKIP: memlock.sh: the software device locks no memory"; counted 1 0 1 0 0
run "PASS: a" "SKIP: memlock.sh: it is Monday"; counted 1 0 1 0 1
grep -q "memlock.sh was skipped, which tests/must doesn't allow: it is Monday" "$tmp/out" || fail "no word of it"
run "PASS: a" "SKIP: basics.sh: the software device locks no memory"; counted 1 0 1 0 1
KVD_TESTS_OPTIONAL="basics.sh" run "PASS: a" "SKIP: basics.sh: it is Monday"; counted 1 0 1 0 0
run "RETRY: guest: it died" "PASS: a"; counted 1 0 0 1 0
grep -q 'integration: guest: it died' "$tmp/out" || fail "no word of what was tried again"
# Of a test that make ran the reason is in its log.
mkdir -p "$tmp/build/tests/integration"
echo "skipped: a full-size test only" >"$tmp/build/tests/integration/large.log"
echo "skipped: no namespaces" >"$tmp/build/tests/integration/shown.log"
build=$tmp/build run "PASS: a" "SKIP: tests/integration/large.sh"; counted 1 0 1 0 0
build=$tmp/build run "PASS: a" "SKIP: tests/integration/shown.sh"; counted 1 0 1 0 1
# Each line of the list is of a form.
! grep -Ev '^(#|$|have [A-Z_ ]+$|skip +[a-z*]+ +[a-z_.*'"'"'/-]+ +[^ ])' "$KVD_SOURCE/tests/must" || fail "tests/must: another line"
for test in $(sed -nE 's/^skip +[a-z*]+ +([a-z_]+\.sh) .*/\1/p' "$KVD_SOURCE/tests/must"); do
	[ -e "$KVD_SOURCE/tests/integration/$test" ] || fail "tests/must: there is no $test"
done
