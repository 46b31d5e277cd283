# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
#
# For tests/bare: root folders with nothing but Debian's base system, made by debootstrap
# from where this machine has its packages. As root. KVD_BARE_DIR keeps the base system
# for the next time. The caller has set top, the source folder, and name, its own.
# A script that sources this goes on in a mount namespace of its own: all that is mounted
# goes away with it.

skip() { echo "SKIP: bare: $1"; exit 77; }
[ "$(id -u)" = 0 ] || skip "only root can make a root folder"
command -v debootstrap >/dev/null || skip "debootstrap isn't there: apt-get install debootstrap"
command -v apt-get >/dev/null || skip "this isn't Debian"
[ -n "${KVD_BARE_MOUNTED-}" ] || KVD_BARE_MOUNTED=1 exec unshare -m --propagation private "$0" "$@"

work=$(mktemp -d "${TMPDIR:-/var/tmp}/kvd-bare.XXXXXX")
roots=()
clean_up() {
	local root at
	for root in ${roots[@]+"${roots[@]}"}; do
		for at in "$root/proc" "$root/dev" "$root/sys" "$root"; do umount -l "$at" 2>/dev/null || true; done
	done
	rm -rf --one-file-system "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# The distribution and the mirror that apt uses here.
. /etc/os-release
mirror=$(apt-get indextargets --format '$(SITE)' "Created-By: Packages" | grep -v security | head -n 1)
[ -n "$mirror" ] || skip "apt names no mirror"

make_base() { # INTO
	mkdir -p "$1"
	debootstrap --variant=minbase "$VERSION_CODENAME" "$1" "$mirror" >"$work/debootstrap.log" 2>&1 ||
		{ tail -n 20 "$work/debootstrap.log"; return 1; }
	# As this machine reaches its packages, so shall it.
	cp /etc/resolv.conf "$1/etc/"
	printf '127.0.0.1 localhost\n::1 localhost\n' >"$1/etc/hosts" # an installer's doing
	rm -f "$1/etc/apt/sources.list"
	cp -rL /etc/apt/sources.list* "$1/etc/apt/" 2>/dev/null || true
	cp -rL /etc/apt/apt.conf.d/. "$1/etc/apt/apt.conf.d/" 2>/dev/null || true
	rm -f "$1"/etc/apt/apt.conf.d/*{packagekit,appstream,debconf}*
	mkdir -p "$1/usr/share/keyrings" "$1/etc/ssl"
	cp -rL /usr/share/keyrings/. "$1/usr/share/keyrings/" 2>/dev/null || true
	cp -rL /etc/ssl/certs "$1/etc/ssl/" 2>/dev/null || true
}

# new_root NAME: a base system of its own in $root.
new_root() {
	root=$work/$1
	if [ ! -d "${KVD_BARE_DIR:=$work/base}/etc" ]; then
		echo "# debootstrap $VERSION_CODENAME"
		make_base "$KVD_BARE_DIR" || exit 1
	fi
	cp -a "$KVD_BARE_DIR" "$root"
	roots+=("$root")
	mount --bind "$root" "$root" # what makes a mount namespace wants a root that is a mount
	mount -t proc none "$root/proc"
	mount --rbind /dev "$root/dev"
	mount --rbind /sys "$root/sys"
}

# The last commit, or where this is no checkout the files that stand here.
put_source() { # INTO
	git clone -q "file://$top" "$1" 2>/dev/null || { cp -a "$top/." "$1"; rm -rf "$1/build"; }
	echo "# commit $(git -C "$top" rev-parse --short HEAD 2>/dev/null || echo '?')"
}

# in_root SECONDS COMMAND: by bash in $root/root, with nothing of this environment and its
# output shown; sets $took.
in_root() {
	local rc=0 begin=$SECONDS
	timeout -k 10 "$1" chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin \
		LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive bash -c "cd && $2" >"$work/out" 2>&1 </dev/null || rc=$?
	took=$((SECONDS - begin))
	sed 's/^/    /' "$work/out"
	return $rc
}

failed=0
verdict() { # pass|fail TEXT
	case $1 in
	pass) echo "PASS: bare: $2 ($took s)" ;;
	*) echo "FAIL: bare: $2 ($took s)"; failed=1 ;;
	esac
}
