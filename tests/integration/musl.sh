#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Each source compiles with musl's headers: it calls nothing that only glibc has. The
# libraries' headers are the system's.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
requires musl-gcc gcc
cd "$KVD_SOURCE" || fail "no source"
# The features of this build, without what configure found out of glibc.
mkdir "$tmp/features"
grep -E '^#define (HAVE_(ROCKSDB|LIBEDIT|LIBMICROHTTPD|HIREDIS|LIBMEMCACHED)|WITH_SOFTVERBS|PACKAGE_VERSION) ' \
	"$KVD_BUILD/config.h" >"$tmp/features/config.h" || fail "no config.h"
flags=(-std=gnu11 -fsyntax-only -I. "-I$tmp/features" -D_GNU_SOURCE '-DWORKLOADS_DIR="/"'
	-Werror=implicit-function-declaration
	-Wformat -Werror=format -Werror=int-conversion -Werror=incompatible-pointer-types
	-idirafter /usr/include -idirafter "/usr/include/$(gcc -print-multiarch)")
[ "$(uname -m)" != x86_64 ] || flags+=(-mavx2)

compiles() { musl-gcc "${flags[@]}" "$1"; }
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
