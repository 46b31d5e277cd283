#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# What ./quickstart and ./runtests do with the host: they share build/default without building
# it again and again, know Fedora's names of packages, and configure refuses libraries that are
# too old.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
requires make pkg-config
export KVD_SOURCE top=$tmp/top

# in_host COMMANDS: by a shell with the functions of tests/lib/host.sh.
in_host() { bash -uc '. "$KVD_SOURCE/tests/lib/host.sh"; '"$1" >"$tmp/out" 2>&1 || { cat "$tmp/out"; fail "$1"; }; }

# -------------------------------------------------------------- build/default
mkdir -p "$top"
touch "$top/Makefile.in"
cat >"$top/configure" <<'CONFIGURE'
#!/bin/sh
echo "configure $*" >>"$top/done"
printf 'all:\n\t@touch object\nclean:\n\t@echo clean >>"%s"; rm -f object\n' "$top/done" >Makefile
CONFIGURE
chmod +x "$top/configure"
did() { # LINE...
	printf '%s\n' "$@" >"$tmp/expected"
	diff "$tmp/expected" "$top/done" || fail "< expected, > done by ./quickstart and ./runtests"
}
strict='build_tree default --enable-werror --with-cmocka=yes'
in_host build_default
in_host build_default
did "configure "
in_host "$strict"
in_host build_default
in_host "$strict"
did "configure " clean "configure --enable-werror --with-cmocka=yes"
# A library that came: configured again, and make knows what sees it.
in_host 'pkg-config() { [ "$2" = hiredis ] && echo 99; }; '"$strict"
did "configure " clean "configure --enable-werror --with-cmocka=yes" "configure --enable-werror --with-cmocka=yes"
in_host 'pkg-config() { [ "$2" = hiredis ] && echo 99; }; '"$strict"
did "configure " clean "configure --enable-werror --with-cmocka=yes" "configure --enable-werror --with-cmocka=yes"
for object in bench/store/.deps/libbench_a-redis.Po server/.deps/options.Po; do
	[ -e "$KVD_BUILD/$object" ] || continue
	grep -q 'config\.h' "$KVD_BUILD/$object" || fail "${object##*/} is not made again with another config.h"
	seen=yes
done
[ ! -e "$KVD_BUILD/bench/store/.deps" ] || [ -n "${seen-}" ] || fail "it proves nothing: no objects' dependencies"
grep -q '^build_default ' "$KVD_SOURCE/quickstart" && ! grep -q werror "$KVD_SOURCE/quickstart" ||
	fail "./quickstart does not build with configure's defaults"
! grep 'build_tree default' "$KVD_SOURCE/runtests" | grep -v -- "$strict" || fail "./runtests builds another build/default"

# ------------------------------------------------------------------- packages
# As configure.ac pairs them.
sed -e ':a' -e '/,$/N; s/,\n[[:space:]]*/, /; ta' "$KVD_SOURCE/configure.ac" |
	sed -nE 's/^KVD_(REQUIRE|OPTIONAL)\(.*\[([a-z0-9-]+)\], \[([a-z0-9-]+)\]\)$/\2 \3/p' >"$tmp/pairs"
[ "$(wc -l <"$tmp/pairs")" -ge 12 ] || fail "configure.ac's packages were not found"
while read -r debian fedora; do
	in_host "name_for dnf $debian"
	[ "$(cat "$tmp/out")" = "$fedora" ] || fail "$debian is $fedora in configure.ac, $(cat "$tmp/out") in host.sh"
done <"$tmp/pairs"
dnf='package_manager() { echo dnf; }; as_root() { "$@"; }; id() { echo 0; }
	is_installed() { [ "$2" = make ]; }; dnf() { echo "$@" >"$top/dnf"; }'
in_host "$dnf; is_rhel() { true; }; need_packages make gcc libibverbs-dev librdmacm-dev debhelper libnuma-dev"
[ "$(cat "$top/dnf")" = "-y install --setopt=install_weak_deps=False --setopt=strict=0 gcc rdma-core-devel numactl-devel" ] ||
	{ cat "$top/dnf"; fail "dnf"; }
grep -q 'EPEL and CRB' "$tmp/out" || fail "EPEL and CRB are not said"
in_host "$dnf; is_rhel() { false; }; need_packages gcc"
! grep -q EPEL "$tmp/out" || fail "EPEL is said on Fedora"
printf 'ID="rocky"\nID_LIKE="rhel centos fedora"\n' >"$tmp/rocky"
printf 'ID="rhel"\nID_LIKE="fedora"\n' >"$tmp/rhel"
printf 'ID=fedora\n' >"$tmp/fedora"
in_host "is_rhel '$tmp/rocky' && is_rhel '$tmp/rhel' && ! is_rhel '$tmp/fedora'"

# ------------------------------------------------------------------- versions
old() { # MODULE VERSION
	printf 'Name: %s\nDescription: old\nVersion: %s\nLibs:\n' "$1" "$2" >"$tmp/pc/$1.pc"
}
mkdir "$tmp/pc" "$tmp/configure"
old libibverbs 1.14.35.0
old librdmacm 1.3.35.0
old rocksdb 6.21.3
cd "$tmp/configure" || fail "no folder"
! PKG_CONFIG_PATH=$tmp/pc "$KVD_SOURCE/configure" --with-rocksdb=yes >"$tmp/out" 2>&1 || fail "configure takes old libraries"
for line in "libibverbs >= 1.14.36: libibverbs-dev" "librdmacm >= 1.3.36: librdmacm-dev" \
	"rocksdb >= 6.22 (--with-rocksdb): librocksdb-dev"; do
	grep -qF "$line" "$tmp/out" || { tail -n 20 "$tmp/out"; fail "configure does not say: $line"; }
done
