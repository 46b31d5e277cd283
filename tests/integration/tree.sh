#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Each source file is listed in its folder's Makemodule.am and has its SPDX line.  What it
# may include and call: tests/layers/check.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
cd "$KVD_SOURCE" || fail "no source"
bad=0
complain() { echo "$*"; bad=1; }

for file in $(find common server client bench tests -name '*.[ch]'); do
	grep -Eqs "(^|[[:space:]])${file%.[ch]}(\.[ch])?([[:space:]]|\$)" */Makemodule.am ||
		complain "$file stands in no Makemodule.am"
	head -n 1 "$file" | grep -q 'SPDX-License-Identifier: BSD-2-Clause' || complain "$file: no SPDX line"
done
for file in tests/integration/*.sh tests/lib/*.sh quickstart runtests; do
	head -n 3 "$file" | grep -q 'SPDX-License-Identifier: BSD-2-Clause' || complain "$file: no SPDX line"
	bash -n "$file" || complain "$file: bash doesn't parse it"
done
for file in tests/integration/*.sh; do
	grep -q "$file" tests/Makemodule.am || complain "$file stands in no Makemodule.am"
done

[ $bad = 0 ] || fail "see above"
