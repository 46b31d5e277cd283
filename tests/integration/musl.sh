#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Each source compiles with musl's headers: it calls nothing that only glibc has. The
# libraries' headers are the system's.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
requires musl-gcc gcc
cd "$KVD_SOURCE" || fail "no source"
mapfile -t defines < <(sed -n 's/^DEFS = //p' "$KVD_BUILD/Makefile" | grep -Eo -- '-D(HAVE|WITH)_[A-Z_]+=1')
flags=(-std=gnu11 -fsyntax-only -I. -D_GNU_SOURCE '-DPACKAGE_VERSION="0"' '-DWORKLOADS_DIR="/"'
	-Werror=implicit-function-declaration
	-Wformat -Werror=format -Werror=int-conversion -Werror=incompatible-pointer-types
	-idirafter /usr/include -idirafter "/usr/include/$(gcc -print-multiarch)")
[ "$(uname -m)" != x86_64 ] || flags+=(-mavx2)

compiles() { musl-gcc "${flags[@]}" ${defines[@]+"${defines[@]}"} "$1"; }
find common server client bench -name '*.c' | sort >"$tmp/sources"
[ "$(wc -l <"$tmp/sources")" -ge 100 ] || fail "no sources"
# It sees what musl doesn't have.
printf '#include <semaphore.h>\nint main(void) { return sem_clockwait(0, 0, 0); }\n' >"$tmp/glibc.c"
! compiles "$tmp/glibc.c" 2>/dev/null || fail "glibc's headers stand before musl's"
bad=0
while read -r file; do
	compiles "$file" || bad=1
done <"$tmp/sources"
[ $bad = 0 ] || fail "see above"
