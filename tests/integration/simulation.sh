#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Simulated worlds of kvd and clients, each from a seed: what the clients saw is
# linearizable; the same seed is the same world; a kvd that is broken on purpose is found
# out, and again from the seed alone.  kvd stops at some accesses of each change: GETs go
# on, and what is locked there does not change.  tests/sim/check has more of both.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
sim=$KVD_BUILD/tests/sim/sim
[ $soft = 1 ] || skip "the simulation has a device of its own"
[ -x "$sim" ] || skip "no simulation in this build"
requires make sed
seeds=20
mutations=$KVD_SOURCE/tests/mutations

"$sim" --seeds "$seeds" --quiet >"$tmp/sim.log" || { cat "$tmp/sim.log"; fail "a world went wrong"; }
say "$(tail -1 "$tmp/sim.log")"
"$sim" --seeds "$((seeds / 4 + 1))" --batches --quiet >"$tmp/sim.log" ||
	{ cat "$tmp/sim.log"; fail "a world with operations in flight together went wrong"; }
say "$(tail -1 "$tmp/sim.log")"

for seed in 2 5 9; do
	"$sim" --seed $seed >"$tmp/first" || fail "seed $seed"
	"$sim" --seed $((seed - 1)) --seeds 2 >"$tmp/second" || true # behind another
	grep -q -x -F "$(head -1 "$tmp/first")" "$tmp/second" ||
		{ cat "$tmp/first" "$tmp/second"; fail "seed $seed is not the same world twice"; }
done

"$KVD_SOURCE/tests/sim/walk" "$sim" 1510 || fail "a walk through a change"

# break_kvd MUTATION: $tmp/sim is a world with that kvd.
break_kvd() {
	local file
	file=$(sed -n '1s/^# //p' "$mutations/$1.sed")
	mkdir -p "$tmp/source/$(dirname "$file")"
	sed -f "$mutations/$1.sed" "$KVD_SOURCE/$file" >"$tmp/source/$file"
	make -s -C "$KVD_BUILD" broken-sim BROKEN_SOURCES="$tmp/source/$file" \
		BROKEN_SIM="$tmp/sim" >"$tmp/make.log" 2>&1 ||
		{ cat "$tmp/make.log"; fail "$1: does not build"; }
}

# the_same_again MUTATION LINE OPTION...: three times, word for word.
the_same_again() {
	local i m=$1 line=$2
	shift 2
	for i in 1 2 3; do
		! "$tmp/sim" "$@" >"$tmp/again.log" || fail "$m: $* is fine the next time"
		[ "$(head -1 "$tmp/again.log")" = "$line" ] ||
			{ echo "$line"; cat "$tmp/again.log"; fail "$m: $* fails in another way"; }
	done
	say "$m: $line"
}

# found_out MUTATION FIRST COUNT: within so many seeds.
found_out() {
	break_kvd "$1"
	! "$tmp/sim" --seed "$2" --seeds "$3" --quiet >"$tmp/sim.log" ||
		fail "$1: nobody notices in $3 worlds from seed $2"
	# shellcheck disable=SC2046 # an option and its value
	the_same_again "$1" "$(head -1 "$tmp/sim.log")" $(sed -n 's/^again: sim //p' "$tmp/sim.log")
}

# found_walking MUTATION: at an access of a PUT, by whoever takes the lock there.  It shows at many
# accesses in a row, but only with a client that looks at the right time: which seeds and which
# accesses follows from the code, too.  So it goes through all of the PUT in long steps with a few
# seeds, then in between, then with others.
found_walking() {
	local n offset seed first reached
	break_kvd "$1"
	for first in 1 6 11 16; do
		for offset in 1 21 11 31; do
			reached=yes
			for ((n = offset; ; n += 40)); do
				[ $reached = yes ] || break
				reached=no
				for ((seed = first; seed < first + 5; seed++)); do
					"$tmp/sim" --seed "$seed" --walk "$n" --deed put --lock >"$tmp/sim.log" || break 4
					grep -q 'not reached' "$tmp/sim.log" || reached=yes
				done
			done
		done
	done
	grep -q 'somebody changed .* under a lock' "$tmp/sim.log" ||
		{ cat "$tmp/sim.log"; fail "$1: nobody notices at any access"; }
	the_same_again "$1, access $n" "$(head -1 "$tmp/sim.log")" --seed "$seed" --walk "$n" --deed put --lock
}
[ -e "$KVD_BUILD/Makefile" ] || exit 0
found_out no-token 1 200
found_out txn-no-look 1 200
found_walking no-pending
found_walking no-second-look
