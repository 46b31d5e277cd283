#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# What `make install` puts down can be used: the programs run, a program is built
# with pkg-config against the shared library in C and in C++, and the library
# exports what <kvd.h> declares and nothing else.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
requires make pkg-config nm
[ -e "$KVD_BUILD/client/.libs/libkvd.so" ] || skip "built without shared libraries"
cc=${KVD_TEST_CC:-cc} cxx=${KVD_TEST_CXX:-c++}

prefix=$tmp/prefix
# DESTDIR is emptied: within distcheck make hands its own down.
make -C "$KVD_BUILD" install prefix="$prefix" DESTDIR= >"$tmp/log" 2>&1 || { cat "$tmp/log"; fail "make install"; }
# The .pc file is of the configured prefix; ask for ours.
pc() { PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --define-variable=prefix="$prefix" \
	--define-variable=exec_prefix="$prefix" --define-variable=libdir="$prefix/lib" \
	--define-variable=includedir="$prefix/include" "$@" kvd; }
pc --exists || fail "kvd.pc"
"$prefix/bin/kvcli" --version || fail "kvcli doesn't run"
"$prefix/sbin/kvd" --version || fail "kvd doesn't run"

# The unit starts the kvd that is installed with it.
make -s -C "$KVD_BUILD" systemd/kvd.service || fail "no unit"
grep -q '^ExecStart=/.*bin/kvd ' "$KVD_BUILD/systemd/kvd.service" || fail "the unit's path"

cat >"$tmp/user.c" <<'END'
#include <kvd.h>
int main(void)
{
	kvd_client *client = NULL;
	int result = kvd_client_new("127.0.0.1:1", NULL, &client);
	kvd_client_delete(&client);
	return result > 0 || client != NULL || kvd_version()[0] == '\0';
}
END
# shellcheck disable=SC2046,SC2086
$cc -std=c99 -Wall -Wextra -pedantic -Werror "$tmp/user.c" -o "$tmp/user" $(pc --cflags --libs) || fail "a program in C"
LD_LIBRARY_PATH=$prefix/lib "$tmp/user" || fail "the program in C"
if [ -n "$cxx" ] && command -v ${cxx%% *} >/dev/null; then
	cp "$tmp/user.c" "$tmp/user.cc"
	# shellcheck disable=SC2046,SC2086
	$cxx -Wall -Wextra -Werror "$tmp/user.cc" -o "$tmp/user2" $(pc --cflags --libs) || fail "a program in C++"
	LD_LIBRARY_PATH=$prefix/lib "$tmp/user2" || fail "the program in C++"
fi

nm -D --defined-only "$prefix/lib/libkvd.so" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort >"$tmp/exported"
grep -Eo '\bkvd_[a-z0-9_]+\(' "$prefix/include/kvd.h" | tr -d '(' | sort -u >"$tmp/named"
! grep -v '^kvd_' "$tmp/exported" || fail "the library exports more than kvd_*"
comm -13 "$tmp/named" "$tmp/exported" >"$tmp/undeclared"
[ ! -s "$tmp/undeclared" ] || { cat "$tmp/undeclared"; fail "exported, but not in kvd.h"; }
comm -23 "$tmp/named" "$tmp/exported" >"$tmp/undefined"
[ ! -s "$tmp/undefined" ] || { cat "$tmp/undefined"; fail "in kvd.h, but not exported"; }
