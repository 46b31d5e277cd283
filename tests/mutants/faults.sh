#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# tests/mutants/check in a small tree of one source file: it finds what its test notices and what
# not, what no test reaches and what hangs; it goes on where it was; it knows what is no change.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
requires python3 make
cc=${KVD_TEST_CC:-cc}
tree=$tmp/tree
export nap=$((1000000 + $$)) # one that nobody else takes
known=$tree/build/mutants/1-12.jsonl

small_tree() {
	mkdir -p "$tree"/{server,tests/unit,tests/integration}
	cp -r --no-preserve=mode "$KVD_SOURCE/tests/mutants" "$tree/tests/mutants"
	: >"$tree/tests/mutants/equivalent"
	cat >"$tree/server/sum.c" <<-'END'
		int sums;
		int sum(int a, int b)
		{
			sums++;
			if (a < 0)
				return b;
			return a + b;
		}
		int fall(int a)
		{
			while (a > 3)
				a--;
			return a;
		}
		int never(int a)
		{
			return a == 2;
		}
	END
	cat >"$tree/tests/unit/sum_test.c" <<-'END'
		int sum(int a, int b), fall(int a), never(int a);
		int main(void) { return sum(1, 1) != 2 || sum(-1, 7) != 7 || fall(5) != 3; }
	END
	# A process that outlives its test and its session is ended, and what isn't its own is kept.
	cat >"$tree/tests/integration/sum.sh" <<-'END'
		setsid sleep "$nap" &
		! touch "$KVD_SOURCE/mine" 2>&1 || exit
		"$KVD_BUILD/tests/unit/sum_test"
	END
	printf '#!/bin/sh\nmkdir -p tests/unit\nfor word; do case $word in CPPFLAGS=*) flags=${word#*=} ;; esac; done
	{ echo "CPPFLAGS = $flags"; cat ../../Makefile.in; } >Makefile\n' >"$tree/configure"
	chmod +x "$tree/configure"
	cat >"$tree/Makefile.in" <<-END
		CC = $cc
		SOURCES = ../../server/sum.c ../../tests/unit/sum_test.c
		unit_tests = tests/unit/sum_test
		integration_tests = tests/integration/sum.sh
		check: \$(unit_tests)
		all:
		tests/unit/sum_test: \$(SOURCES) ; \$(CC) -w \$(CPPFLAGS) -o \$@ \$(SOURCES)
	END
}

# look STATUS ARG...: what it says in $tmp/said.
look() {
	local rc=0 want=$1
	KVD_MUTANTS_LEAST_S=5 KVD_SOURCE=$tree KVD_BUILD=$tree/build python3 "$tree/tests/mutants/check" --count 12 "${@:2}" >"$tmp/said" 2>&1 || rc=$?
	[ $rc != 77 ] || skip "$(cat "$tmp/said")"
	[ $rc = "$want" ] || { cat "$tmp/said"; fail "$*: status $rc, not $want"; }
}

says() { grep -qF -e "$1" "$tmp/said" || { cat "$tmp/said"; fail "doesn't say: $1"; }; }

runs() { grep -c '"mutant".*sum\.sh' "$known"; }
no_run_more() { [ "$(runs)" = "$1" ] || fail "$2: $(runs) runs of a test instead of $1"; }

small_tree
look 1
says '7 killed, 3 survived, 2 not reached, 0 no change, 0 unknown'
says '5 of 12 alive: 41.7 %, and 5 % may be'
says 'server/sum.c sum: tests/unit/sum_test failed'
says 'server/sum.c fall: tests/unit/sum_test timed out'
says '-sums++;'
says '+return a != 2;'
[ "$(grep -c '^# .* 2 tests come by' "$tmp/said")" = 3 ] || fail "the survivors are others"
! grep -qzx "$nap" /proc/[0-9]*/cmdline 2>/dev/null || fail "what a test started goes on behind it"
for part in 1/2 2/2; do
	look 1 --part $part --report
	says ' of 6 alive'
done
look 2 --part 3/2
says 'like 1/4'
ran=$(runs)
[ "$ran" = 3 ] || fail "the script ran $ran times, not once for each survivor"

# What is known is not run again, not even behind a line that was being written.
look 0 --budget 42
no_run_more $ran "all is known"
printf '{"mutant": 1, "te' >>"$known"
look 1 --report
lines=$(wc -l <"$known")
sed -i '$d' "$known"
look 3 --report --budget 100
says '1 unknown'
look 0 --budget 42
[ "$(wc -l <"$known")" = "$lines" ] || fail "other than the one that was not known was run"

# A test that is another one is asked again, and only about those that lived.
sed -i 's/sum(1, 1) != 2/sum(1, 1) != 2 || never(2) != 1 || never(1)/' "$tree/tests/unit/sum_test.c"
look 1
says '9 killed, 3 survived, 0 not reached, 0 no change, 0 unknown'

# What changes nothing is named with its reason; what is nowhere, is no name.
cat >"$tree/tests/mutants/equivalent" <<'END'
# 0 and b are b.
server/sum.c sum
-	if (a < 0)
+	if (a <= 0)
END
look 1
says '9 killed, 2 survived, 0 not reached, 1 no change, 0 unknown'
# Nor is the draw of a tree another one for it; for a test it is.
drawn_seed() { look 0 --seed tree --list && grep '^# --seed' "$tmp/said"; }
seed=$(drawn_seed)
: >"$tree/tests/mutants/equivalent"
[ "$(drawn_seed)" = "$seed" ] || fail "what is no change has a say in the draw"
echo '# One more.' >>"$tree/tests/integration/sum.sh"
[ "$(drawn_seed)" != "$seed" ] || fail "a test has no say in the draw"
sed -i '$d' "$tree/tests/integration/sum.sh"
look 2 --seed other
says 'a number, or tree'
cat >"$tree/tests/mutants/equivalent" <<'END'
# There is no such place.
server/sum.c sum
-	if (a < 0)
+	if (a <= 3)
END
look 1
says 'the tree has no such place: server/sum.c sum: if (a < 0)'
: >"$tree/tests/mutants/equivalent"

# Another source has another draw, and nothing is known of it.
sed -i 's/return a == 2/return a == 1 + 1/' "$tree/server/sum.c"
look 3 --minutes 0.00001 --count 13
says 'out of time'
look 1 --tests 'tests/unit/*' --count 13
says '0 unknown'

# A test that fails with nothing on is not used, which is told, and is asked again the next time.
echo 'test -e "$KVD_SOURCE/ready"' >>"$tree/tests/integration/sum.sh"
look 1 --count 13
says 'tests/integration/sum.sh is not used: it fails with nothing on (status 1)'
! grep -q 'come by, the last tests/integration/sum.sh' "$tmp/said" || fail "a test that fails is used"
touch "$tree/ready"
look 1 --count 13
! grep -q 'is not used' "$tmp/said" || fail "a test that passes by now is not used"
says 'come by, the last tests/integration/sum.sh'

# A unit test that does says nothing of any mutation: the campaign ends there.
sed -i 's/fall(5) != 3/fall(5) != 4/' "$tree/tests/unit/sum_test.c"
look 1 --count 13
says 'to be mended first: tests/unit/sum_test'
! grep -q ' alive: ' "$tmp/said" || fail "it goes on with a unit test that fails"
