#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# tests/mends/check passes a mend that its test needs, and finds each way in which a file of
# tests/mends proves nothing: in a small tree of one source file with a test of each kind.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
requires python3 make sed grep
unset KVD_MENDS_DRAW # of the run that this is a part of
cc=${KVD_TEST_CC:-cc}
check=$KVD_SOURCE/tests/mends/check
tree=$tmp/tree

# mend NAME: from standard input.
mend() { { echo '# SPDX-License-Identifier: BSD-2-Clause'; cat; } >"$tree/tests/mends/$1"; }

right_mend() {
	mend C1-sum <<-'END'
		# A sum is a sum.
		# test: unit sum_test
		# says: sum is -?[0-9]+
		# file: server/sum.c
		/^int sum/,/^}/ s/a + b/a - b/
	END
}

right_tree() {
	rm -rf "$tree/tests/mends" "$tree/server"
	mkdir -p "$tree"/{server,tests/mends,tests/unit,tests/integration,tests/model,tests/sim}
	printf 'int sum(int a, int b)\n{\n\treturn a + b;\n}\n' >"$tree/server/sum.c"
	cat >"$tree/tests/unit/sum_test.c" <<-'END'
		#include <stdio.h>
		int sum(int a, int b);
		int main(void) { printf("sum is %d\n", sum(1, 1)); return sum(1, 1) != 2; }
	END
	echo '"$KVD_BUILD/tests/unit/sum_test" || { echo "FAILED: no sum"; exit 1; }' >"$tree/tests/integration/sum.sh"
	printf '#!/bin/sh\necho "$*"\ncase "$*" in *MUTATE_*) echo errors: 1; exit 1 ;; esac\n' >"$tree/tests/model/check"
	printf '#!/bin/sh\nmkdir -p tests/unit tests/integration tests/sim\ncp ../../Makefile.in Makefile\n' >"$tree/configure"
	chmod +x "$tree/tests/model/check" "$tree/configure"
	cat >"$tree/Makefile.in" <<-END
		check_PROGRAMS = tests/unit/sum_test tests/fuzz/not_made
		tests/unit/sum_test: ../../server/sum.c ../../tests/unit/sum_test.c ; $cc -w -o \$@ \$^
		tests/sim/sim: tests/unit/sum_test ; cp tests/unit/sum_test \$@
		check: \$(check_PROGRAMS) ; for t in \$(TESTS); do bash ../../\$\$t >\$\${t%.sh}.log 2>&1 || exit; done
		tests/fuzz/not_made: ; exit 1
	END
	right_mend
}

# look STATUS ARG...: what it says in $tmp/said.
look() {
	local rc=0 want=$1
	KVD_MENDS_LIMIT_S=6 KVD_SOURCE=$tree KVD_BUILD=$tree/build python3 "$check" "${@:2}" >"$tmp/said" 2>&1 || rc=$?
	[ $rc = "$want" ] || { cat "$tmp/said"; fail "$1: status $rc, not $want"; }
}

# finds WHAT TEXT: with the fault that was put in since right_tree; the tree is right again.
finds() {
	look 1
	shows "$1" "$2"
	right_tree
}

shows() {
	grep -q -F -- "$2" "$tmp/said" || { cat "$tmp/said"; fail "$1: does not say: $2"; }
	say "$1: $(grep -m 1 -F -- "$2" "$tmp/said")"
}

right_tree
look 0
shows "a right one" "PASS: C1-sum"
shows "its evidence" "sum is 0"
shows "all of it" "2 passed, 0 failed, 0 skipped"
shows "what has none" "without a file: C2 C3"

mend C2-script <<<$'# It.\n# test: integration sum.sh\n# says: FAILED: no sum\n# file: server/sum.c\ns/a + b/a - b/'
sed -i 's/^"/# tests\/unit\/\n"/' "$tree/tests/integration/sum.sh"
mend C3-sim <<<$'# It.\n# test: sim --seed 1\n# says: sum is 0\n# file: server/sum.c\ns/a + b/a - b/'
mend C4-model <<<$'# It.\n# test: model sum.pml ends -DN=1 -DMUTATE_sum\n# says: errors: 1'
look 0
shows "a test of each kind" "8 passed, 0 failed, 0 skipped"
look 0 C2
shows "one of them" "2 passed, 0 failed, 0 skipped"
cmp -s "$tree/server/sum.c" "$tree/build/mends/server/sum.c" || fail "the copy was left without the mend"
look 0 --draw 2
shows "so many by chance" "1 of 4, 0 of them of what was changed last, by chance"
shows "one with a unit test" "2 passed, 0 failed, 0 skipped"
look 2 --draw some
right_tree

git -C "$tree" init -q
git -C "$tree" -c user.name=t -c user.email=t@t add server tests
git -C "$tree" -c user.name=t -c user.email=t@t commit -q -m one
look 0 --draw 2
shows "what was changed last" "1 of 1, 1 of them of what was changed last, by commit"
rm -rf "$tree/.git"

look 1 --all
shows "a fault that is forgotten" "FAIL: A15: no file in tests/mends"
look 2 C9
right_tree

look 0 --list
sed -i 's/a - b/a + b/' "$tree/tests/mends/C1-sum"
look 1 --list
shows "a sed that changes nothing, in the list" "FAIL: C1-sum: changes nothing: server/sum.c"
finds "a sed that changes nothing" "changes nothing: server/sum.c"
sed -i 's/a - b/b + a/' "$tree/tests/mends/C1-sum"
finds "a mend that its test does not need" "without the mend unit sum_test still passes"
sed -i 's/says: .*/says: sum was/' "$tree/tests/mends/C1-sum"
finds "another failure" "fails with other words than 'sum was' (status 1)"
sed -i 's/a - b/a -/' "$tree/tests/mends/C1-sum"
finds "one that does not build" "does not build"
sed -i 's/a - b/({ for (;;) ; 0; })/' "$tree/tests/mends/C1-sum"
finds "one that hangs, and says nothing" "not over after 6 s"
sed -i 's/a + b/a * b/' "$tree/server/sum.c"
finds "a test that fails with the mend, too" "FAIL: as it is: unit sum_test"
sed -i 's/return sum/return 77; sum/' "$tree/tests/unit/sum_test.c"
look 0
shows "a test that can't run" "SKIP: C1-sum: its test can't run here"
right_tree
sed -i 's/server\/sum.c/server\/gone.c/' "$tree/tests/mends/C1-sum"
finds "a file that is gone" "there is no server/gone.c"
sed -i '/^# says/d' "$tree/tests/mends/C1-sum"
finds "no words" "has no line '# says:'"
sed -i '/^# test/d' "$tree/tests/mends/C1-sum"
finds "no test" "has no line '# test: unit|integration|model|sim"
sed -i '/^# file/,$d' "$tree/tests/mends/C1-sum"
finds "no change" "so it changes nothing"
mend C4-model <<<$'# It.\n# test: model sum.pml -DN=1\n# says: errors: 1'
finds "a model without its mutation" "no macro MUTATE_ or NO_"
mend X1-other <<<$'# test: unit sum_test\n# says: x\n# file: server/sum.c\ns/a/b/'
finds "a name of no fault" "X1 is none of the faults' names"
mend S-other <<<$'# test: unit sum_test\n# says: x\n# file: server/sum.c\ns/a/b/'
finds "a file whose name is no mend's" "S-other: is no name of a mend"
