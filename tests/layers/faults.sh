#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# tests/layers/check finds each kind of fault: a small tree of two rooms is right, and with
# one fault put in it is not, for the reason that it has and at the place where it stands.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
requires python3 nm
cc=${KVD_TEST_CC:-cc}
check=$KVD_SOURCE/tests/layers/check
tree=$tmp/tree

# write PATH: a file of the tree, from standard input; a header is included once.
write() {
	mkdir -p "$tree/$(dirname "$1")"
	case $1 in
	*.h) { echo '#pragma once'; cat; } >"$tree/$1" ;;
	*) cat >"$tree/$1" ;;
	esac
}

right_tree() {
	rm -rf "$tree"
	write tests/layers/rooms <<-END
		common/low  :
		server/high : common/low
		visible inner 1 server
		public common/low/public.h
	END
	write common/low/low.h <<<'int low(void);'
	write common/low/low.c <<<$'#include "common/low/low.h"\nint low(void)\n{\n\treturn 1;\n}'
	write common/low/public.h <<<'int low(void);'
	write server/high/inner.h <<<$'struct inner {\n\tint of;\n};'
	write server/high/high.h <<<'int high(void);'
	echo 'outside high other' >>"$tree/tests/layers/rooms"
	write server/high/high.c <<<$'#include "common/low/low.h"\n#include "server/high/high.h"\n#include "server/high/inner.h"\nint high(void)\n{\n\treturn low();\n}'
	write server/high/other.h <<<'int other(void);'
	write server/high/other.c <<<$'#include "server/high/other.h"\nint other(void)\n{\n\treturn 2;\n}'
}

# look: the check's status; what it says in $tmp/said.
look() {
	local file
	for file in $(cd "$tree" && find . -name '*.c'); do
		mkdir -p "$tmp/build/$(dirname "$file")"
		(cd "$tree" && $cc -w -I. -c -o "$tmp/build/${file%.c}.o" "$file") || fail "$file does not compile"
	done
	KVD_SOURCE=$tree KVD_BUILD=$tmp/build python3 "$check" >"$tmp/said" 2>&1
}

# finds WHAT TEXT: with the fault that was put in since right_tree.
finds() {
	local rc=0
	look || rc=$?
	[ $rc = 1 ] || { cat "$tmp/said"; fail "$1: status $rc"; }
	grep -q -F -- "$2" "$tmp/said" || { cat "$tmp/said"; fail "$1: does not say: $2"; }
	say "$1: $(grep -m 1 -F -- "$2" "$tmp/said")"
	right_tree
}

# lines COUNT TEXT
lines() { local i; for ((i = 0; i < $1; i++)); do printf '%s\n' "$2"; done; }

right_tree
look || { cat "$tmp/said"; fail "the tree without a fault"; }

sed -i '1a #include "server/high/high.h"' "$tree/common/low/low.c"
finds "an include the wrong way" "common/low/low.c:2: includes server/high/high.h, common/low may not"

sed -i 's/return 1/int other(void);\n\treturn other()/' "$tree/common/low/low.c"
finds "a call the wrong way" "common/low/low.c:4: uses other of server/high/other.c, common/low may not"

sed -i 's/return 2/int high(void);\n\treturn high()/' "$tree/server/high/other.c"
sed -i 's/return low()/int other(void);\n\treturn other()/' "$tree/server/high/high.c"
finds "a circle of calls" "a circle of 2 files: server/high/high server/high/other"

sed -i '1a #include "server/high/other.h"' "$tree/server/high/high.h"
sed -i '1a #include "server/high/high.h"' "$tree/server/high/other.h"
finds "a circle of includes" "server/high/other.h:2: includes server/high/high.h"

sed -i '1a #include "server/high/other.h"' "$tree/server/high/high.h"
sed -i 's/return 2/int high(void);\n\treturn high()/' "$tree/server/high/other.c"
finds "a circle of an include and a call" "a circle of 2 files: server/high/high server/high/other"

sed -i 's/return low()/return 3/' "$tree/server/high/high.c"
finds "a function that nobody asks for" "common/low/low.c:2: low: nobody else asks for it"

write common/stray/stray.c <<<'int stray(void);'
finds "a file in no room" "common/stray/stray.c stands in no room"

echo 'server/gone : common/low' >>"$tree/tests/layers/rooms"
finds "a room without files" "server/gone has no files"

echo 'server/high/other.h : common/gone' >>"$tree/tests/layers/rooms"
finds "a word that means no room" "there is no room common/gone"

for name in a b c d; do
	write common/low/$name.c <<<"int $name(void) { return 0; }"
	echo "int $name(void);" >>"$tree/common/low/low.h"
done
finds "a header of many files" "common/low/low.h: declares functions of 5 files"

for ((i = 0; i < 23; i++)); do write common/low/n$i.h <<<'/* */'; done
finds "a crowded folder" "common/low: 26 files, 25 at most"

lines 600 '/* */' >>"$tree/common/low/low.c"
finds "a long file" "common/low/low.c: 605 lines, 600 at most"

{ echo 'void a_test(void);'; lines 600 '/* */'; } | write tests/unit/low_test.c
finds "a long file of a test" "tests/unit/low_test.c: 601 lines, 600 at most"

{ echo 'void a_long_test(void)'; echo '{'; lines 71 $'\t;'; echo '}'; } | write tests/unit/low_test.c
finds "a long function of a test" "tests/unit/low_test.c:2: a_long_test() has 71 lines, 70 at most"

{ echo 'void a_long_one(void)'; echo '{'; lines 71 $'\t;'; echo '}'; } >>"$tree/common/low/low.c"
finds "a long function" "a_long_one() has 71 lines, 70 at most"

for name in a b c d; do { echo "void $name(void)"; echo '{'; lines 11 $'\t;'; echo '}'; } >>"$tree/common/low/low.c"; done
finds "functions that are long by and large" "functions have 11 lines (median), 10 at most"

sed -i '1a #include "server/high/inner.h"' "$tree/server/high/other.h"
finds "a structure that many see" "struct inner: 2 files see it, 1 at most: server/high/high.c server/high/other.c"

sed -i 's/inner 1/nowhere 1/' "$tree/tests/layers/rooms"
finds "a structure that is gone" "struct nowhere is nowhere"

rm "$tmp/build/common/low/low.o"
rc=0
KVD_SOURCE=$tree KVD_BUILD=$tmp/build python3 "$check" >"$tmp/said" 2>&1 || rc=$?
[ $rc = 2 ] || { cat "$tmp/said"; fail "an object that is not there: status $rc"; }
