#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Each source file is listed in its folder's Makemodule.am, has its SPDX line, and
# includes only what its folder may know.
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

# may_know FOLDER PATTERN: what its files may include with "...".
may_know() {
	local hits
	hits=$(grep -rnE --include='*.[ch]' '^#include "' "$1" | grep -vE "#include \"($2)") && complain "$hits"
}
may_know common 'common/|config\.h'
may_know common/softverbs 'common/softverbs/|config\.h'
may_know server 'server/|common/[a-z]|config\.h'
may_know client 'client/|common/[a-z]|config\.h'
may_know bench 'bench/|client/(kvd|api/raw)\.h|common/[a-z]|config\.h'
[ $bad = 0 ] || fail "see above"
