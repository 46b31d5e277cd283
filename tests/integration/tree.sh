#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Each source file is listed in its folder's Makemodule.am and has its SPDX line.  What it
# may include and call: tests/layers/check.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
cd "$KVD_SOURCE" || fail "no source"
bad=0
complain() { echo "$*"; bad=1; }

for file in $(find common server client bench front tests -name '*.[ch]'); do
	grep -Eqs "(^|[[:space:]])${file%.[ch]}(\.[ch])?([[:space:]]|\$)" */Makemodule.am tests/*/Makemodule.am ||
		complain "$file stands in no Makemodule.am"
	head -n 1 "$file" | grep -q 'SPDX-License-Identifier: BSD-2-Clause' || complain "$file: no SPDX line"
done
! grep -rlE 'cmocka_run_group_tests\([a-z]+, [A-Za-z_]+, [a-z_]+\)' tests/unit --include='*.c' | grep . ||
	complain "cmocka ends with 0 when a group's teardown fails: GROUP_RUN of tests/lib/group.h doesn't"
# .gitignore hides what make makes in the tree, and no new file.
if git -C "$KVD_SOURCE" rev-parse --show-toplevel 2>/dev/null | grep -qxF "$KVD_SOURCE" && [ -e "$KVD_BUILD/Makefile" ]; then
	printf 'include Makefile\nsay-them: ; @echo $(check_PROGRAMS)\n' |
		make -s -C "$KVD_BUILD" -f - say-them 2>/dev/null | tr ' ' '\n' | grep '^tests/' >"$tmp/programs"
	[ -s "$tmp/programs" ] || complain "make doesn't tell the tests' programs"
	for file in $(git check-ignore --stdin --verbose --non-matching <"$tmp/programs" | sed -n 's/^::[[:space:]]*//p'); do
		complain "$file is a program, and .gitignore doesn't have it"
	done
	for file in $(find tests -type d -not -name '.*' | sed 's|$|/new-file|'); do
		! git check-ignore -q "$file" || complain "$file would be hidden by .gitignore"
	done
	[ -z "$(git ls-files -i -c --exclude-standard)" ] || complain "hidden by .gitignore: $(git ls-files -i -c --exclude-standard)"
fi
# A feature is in config.h, so that what sees it is made again when it changes.
for file in $(grep -rlwE 'HAVE_(ROCKSDB|LIBEDIT|LIBEVENT|LIBMICROHTTPD|HIREDIS|LIBMEMCACHED)|WITH_SOFTVERBS|PACKAGE_VERSION' \
	common server client bench front --include='*.[ch]'); do
	grep -q '^#include "config.h"' "$file" || complain "$file asks for a feature and does not include config.h"
done
for file in tests/integration/*.sh tests/lib/*.sh quickstart runtests; do
	head -n 3 "$file" | grep -q 'SPDX-License-Identifier: BSD-2-Clause' || complain "$file: no SPDX line"
	bash -n "$file" || complain "$file: bash doesn't parse it"
done
for file in tests/integration/*.sh tests/lib/*.sh; do
	grep -q "$file" "$(dirname "$file")/Makemodule.am" || complain "$file stands in no Makemodule.am"
done
# What takes a rule out still finds it.
for folder in mends vacuous; do
	python3 tests/mends/check --folder $folder --list >"$tmp/list" || complain "tests/$folder: $(grep FAIL "$tmp/list")"
	grep -q . "$tmp/list" || complain "tests/$folder: nothing is listed"
done
for file in tests/mutations/*.sed; do
	sed -f "$file" "$(sed -n '1s/^# //p' "$file")" | cmp -s - "$(sed -n '1s/^# //p' "$file")" &&
		complain "$file changes nothing"
done

[ $bad = 0 ] || fail "see above"
