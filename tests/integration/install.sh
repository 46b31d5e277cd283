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
run_make() { # TARGET [VARIABLE=VALUE...]
	make -C "$KVD_BUILD" prefix="$prefix" DESTDIR= "$@" >"$tmp/log" 2>&1 || { cat "$tmp/log"; fail "make $*"; }
}
# configured VARIABLE: what it is in the Makefile.
configured() {
	printf 'include Makefile\nconfigured-value: ; @echo $(%s)\n' "$1" |
		env -u MAKEFLAGS -u MAKELEVEL make -s -C "$KVD_BUILD" -f - configured-value 2>/dev/null
}
run_make install
# The .pc file is of the configured prefix; ask for ours.
pc() { PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --define-variable=prefix="$prefix" \
	--define-variable=exec_prefix="$prefix" --define-variable=libdir="$prefix/lib" \
	--define-variable=includedir="$prefix/include" "$@" kvd; }
pc --exists || fail "kvd.pc"
"$prefix/bin/kvcli" --version || fail "kvcli doesn't run"
"$prefix/sbin/kvd" --version || fail "kvd doesn't run"

# With the unit come its user, the rights on its configuration, and a configuration; all in
# the folders that the build was configured for.
sysconfdir=$(configured sysconfdir)
if grep -q '^systemdsystemunit_DATA' "$KVD_BUILD/Makefile"; then
	unit=$prefix/lib/systemd/system/kvd.service
	grep -q '^ExecStart=/.*bin/kvd --config '"$sysconfdir/kvd/kvd.conf"'$' "$unit" || fail "the unit's paths"
	grep -q '^u kvd ' "$prefix/lib/sysusers.d/kvd.conf" || fail "no user for the unit"
	grep -q "^z $sysconfdir/kvd 0750 root kvd" "$prefix/lib/tmpfiles.d/kvd.conf" || fail "rights of the configuration"
	grep -q '^kvd: for the service: systemd-sysusers && ' "$tmp/log" || fail "what the service needs is not said"
	if command -v systemd-sysusers >/dev/null; then
		mkdir -p "$tmp/root/etc/kvd" "$tmp/root/usr/lib/sysusers.d"
		cp "$prefix/lib/sysusers.d/kvd.conf" "$tmp/root/usr/lib/sysusers.d"
		systemd-sysusers --root="$tmp/root" >"$tmp/out" 2>&1 || { cat "$tmp/out"; fail "systemd-sysusers"; }
		grep -q '^kvd:.*:/var/lib/kvd:' "$tmp/root/etc/passwd" || fail "systemd-sysusers made no user kvd"
	fi
fi
cmp "$KVD_SOURCE/doc/kvd.conf.example" "$prefix/etc/kvd/kvd.conf" || fail "kvd.conf is not the example"

# The Python module stands where this prefix's Python looks.
python=$(configured PYTHON3)
if grep -q '^kvdpython_DATA' "$KVD_BUILD/Makefile"; then
	module=$(echo "$prefix"/lib/python3*/*-packages)
	KVD_LIBRARY=$prefix/lib/libkvd.so.0 PYTHONPATH=$module "$python" -c 'import kvd' || fail "the Python module"
fi

# The workloads that came with it, from any folder.
(cd / && LD_LIBRARY_PATH=$prefix/lib "$prefix/bin/kvbench" load -q -s noop: -P workloadb -p recordcount=10 >/dev/null) ||
	fail "kvbench doesn't find its workloads"

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

# Where libkvd is found: what the linker knows decides. Nothing is said of a package's folder.
mkdir "$tmp/bin"
fake_ldconfig() { # FOLDER-IT-LOOKS-AT LIBRARY-IT-KNOWS
	cat >"$tmp/bin/ldconfig" <<END
#!/bin/sh
case "\$*" in
-p) echo "	libkvd.so.0 (libc6,x86-64) => $2" ;;
*-v*) echo "$1: (from /etc/ld.so.conf.d/libc.conf:2)" ;;
esac
END
	chmod +x "$tmp/bin/ldconfig"
}
says_of_libkvd() { sed -n 's/^kvd: for programs to find libkvd: //p' "$tmp/log"; }
PATH=$tmp/bin:$PATH
fake_ldconfig "$prefix/lib" /lib/libother.so.0
run_make install
[ "$(says_of_libkvd)" = ldconfig ] || { cat "$tmp/log"; fail "ldconfig is not said"; }
fake_ldconfig "$prefix/lib" "$prefix/lib/libkvd.so.0"
run_make install
[ -z "$(says_of_libkvd)" ] || fail "ldconfig is said where it has run"
fake_ldconfig /usr/lib /lib/libother.so.0
run_make install
says_of_libkvd | grep -q "^LD_LIBRARY_PATH=$prefix/lib, or $prefix/lib in a file of /etc/ld.so.conf.d, and ldconfig$" ||
	{ cat "$tmp/log"; fail "LD_LIBRARY_PATH is not said"; }
run_make install DESTDIR="$tmp/stage"
! grep '^kvd: ' "$tmp/log" || fail "said of a DESTDIR"
run_make uninstall DESTDIR="$tmp/stage"

# A configuration that somebody changed stays, at the next installation and after uninstall.
echo "memory = 64M" >"$prefix/etc/kvd/kvd.conf"
run_make install
run_make uninstall
grep -q "^kvd: .*/etc/kvd/kvd.conf stays" "$tmp/log" || fail "what uninstall leaves is not said"
[ "$(cat "$prefix/etc/kvd/kvd.conf")" = "memory = 64M" ] || fail "the configuration was lost"
rm "$prefix/etc/kvd/kvd.conf"
run_make install
run_make uninstall
find "$tmp/prefix" "$tmp/stage" ! -type d >"$tmp/left"
[ ! -s "$tmp/left" ] || { cat "$tmp/left"; fail "uninstall leaves files"; }
[ ! -e "$prefix/etc/kvd" ] || fail "uninstall leaves a folder"
