# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
#
# For ./quickstart and ./runtests: colours, steps with a log and a bound, the
# packages of the host, builds. The caller has set top, the source folder.

if [ -t 1 ] && [ -z "${NO_COLOR-}" ] && [ "${TERM-dumb}" != dumb ]; then
	bold=$'\e[1m' red=$'\e[31m' green=$'\e[32m' yellow=$'\e[33m' plain=$'\e[0m' terminal=1
else
	bold='' red='' green='' yellow='' plain='' terminal=0
fi

logs=$top/build/logs
step_pid=

say() { printf '%s\n' "$*"; }
title() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
die() { printf '%s%s%s\n' "$red" "$*" "$plain" >&2; exit 1; }

# Ends the step under way, with all that it started.
end_step() {
	[ -n "$step_pid" ] || return 0
	kill -TERM -- "-$step_pid" 2>/dev/null
	wait "$step_pid" 2>/dev/null
	step_pid=
}

# watch SECONDS TEXT: until the step ends; on a terminal a line that counts.
watch_step() {
	local bound_s=$1 text=$2 start=$SECONDS
	while kill -0 "$step_pid" 2>/dev/null; do
		if [ $((SECONDS - start)) -ge "$bound_s" ]; then
			end_step
			return 124
		fi
		[ $terminal = 0 ] || printf '\r  %-44s %4d s ' "$text" $((SECONDS - start))
		# Quick ones end quickly; nothing hangs on this interval.
		sleep 0.2
	done
	wait "$step_pid"
	local rc=$?
	step_pid=
	return $rc
}

# step SECONDS NAME TEXT COMMAND ARG...: runs it with its output in
# build/logs/NAME.log and at most that long; on a failure shows the log's end.
step() {
	local bound_s=$1 log=$logs/$2.log text=$3 rc start=$SECONDS
	shift 3
	mkdir -p "$(dirname "$log")"
	set -m # a process group of its own, so that all of it can be ended
	"$@" >"$log" 2>&1 </dev/null &
	step_pid=$!
	set +m
	[ $terminal = 1 ] || printf '  %-44s ' "$text"
	rc=0
	watch_step "$bound_s" "$text" || rc=$?
	[ $terminal = 0 ] || printf '\r  %-44s ' "$text"
	if [ $rc = 0 ]; then
		printf '%4d s\n' $((SECONDS - start))
		return 0
	fi
	[ $rc = 124 ] && say "ended after $bound_s s" || say "failed ($rc)"
	tail -n 30 "$log" | sed 's/^/    /'
	say "  All of it: ${log#"$top"/}"
	return $rc
}

# ------------------------------------------------------------------ packages

as_root() {
	if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# apt, dnf, or nothing for a host whose packages have other names.
package_manager() {
	if command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; then
		echo apt
	elif command -v dnf >/dev/null && command -v rpm >/dev/null; then
		echo dnf
	fi
}

# name_for MANAGER PACKAGE: Debian's name is Fedora's, or what stands here; nothing for what
# Fedora does without.
name_for() {
	local bare=${2#lib}
	[ "$1" = dnf ] || { echo "$2"; return; }
	case $2 in
	g++) echo gcc-c++ ;;
	libc6-dev) echo glibc-devel ;;
	pkg-config) echo pkgconf-pkg-config ;;
	libibverbs-dev | librdmacm-dev) echo rdma-core-devel ;;
	libnuma-dev) echo numactl-devel ;;
	libjemalloc-dev | libxxhash-dev | librocksdb-dev | libhiredis-dev) echo "${bare%-dev}-devel" ;;
	libmemcached-dev) echo libmemcached-awesome-devel ;;
	libzookeeper-mt-dev | zookeeper | default-jre-headless) ;; # Fedora has no ZooKeeper
	lib*-dev) echo "${2%-dev}-devel" ;;
	ibverbs-utils) echo libibverbs-utils ;;
	rdmacm-utils) echo librdmacm-utils ;;
	iproute2) echo iproute ;;
	procps) echo procps-ng ;;
	xz-utils) echo xz ;;
	mypy) echo python3-mypy ;;
	musl-tools) echo musl-gcc ;;
	debhelper | dh-python | lintian) ;; # for Debian's packages
	*) echo "$2" ;;
	esac
}

# is_installed MANAGER PACKAGE, by that manager's name.
is_installed() {
	case $1 in
	dnf) rpm -q --quiet --whatprovides "$2" >/dev/null 2>&1 ;;
	*) [ "$(dpkg-query -W -f '${db:Status-Status}' "$2" 2>/dev/null)" = installed ] ;;
	esac
}

apt_get() {
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -y -o DPkg::Lock::Timeout=300 "$@"
}

# With fresh package lists if the ones at hand don't do.
apt_install() {
	apt_get install --no-install-recommends "$@" && return
	apt_get update && apt_get install --no-install-recommends "$@"
}

# Those that there are: configure says which of the others it can't do without.
dnf_install() {
	as_root dnf -y install --setopt=install_weak_deps=False --setopt=strict=0 "$@"
}

# Red Hat Enterprise Linux and what is made from it.
is_rhel() {
	[ -r "${1:-/etc/os-release}" ] &&
		(. "${1:-/etc/os-release}" && case " ${ID-} ${ID_LIKE-} " in *\ rhel\ *) ;; *) false ;; esac)
}

# need_packages PACKAGE...: Debian's names. On a host with other packages configure says what
# is missing.
need_packages() {
	local p name manager missing=()
	manager=$(package_manager)
	if [ -z "$manager" ]; then
		command -v autoreconf >/dev/null && command -v pkg-config >/dev/null && return
		die "This is neither Debian nor Fedora nor made from them, so nothing is installed for you:" \
			"./bootstrap and ./configure say what is missing."
	fi
	for p in "$@"; do
		name=$(name_for "$manager" "$p")
		[ -n "$name" ] && ! is_installed "$manager" "$name" || continue
		case " ${missing[*]-} " in *" $name "*) ;; *) missing+=("$name") ;; esac
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	say "  Not installed: ${missing[*]}"
	if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
		die "Run this as root, or install them: ${manager/apt/apt-get} install ${missing[*]}"
	fi
	[ "$(id -u)" = 0 ] || sudo -v || die "sudo is needed to install them."
	if [ "$manager" = dnf ]; then
		! is_rhel || say "  Some of them are in EPEL and CRB (CodeReady Builder), which have to be enabled:
    dnf config-manager --set-enabled crb && dnf install epel-release
    (on RHEL itself: subscription-manager repos --enable codeready-builder-for-rhel-..., then EPEL's package)"
		step 1800 packages "dnf install (${#missing[@]} packages)" dnf_install "${missing[@]}"
	else
		step 900 packages "apt-get install (${#missing[@]} packages)" apt_install "${missing[@]}"
	fi
}

packages_build="gcc libc6-dev make autoconf automake libtool pkg-config libibverbs-dev
	librdmacm-dev libjemalloc-dev libxxhash-dev libsodium-dev libnuma-dev libedit-dev
	libmicrohttpd-dev librocksdb-dev libevent-dev"

# -------------------------------------------------------------------- builds

jobs=$(nproc 2>/dev/null || echo 2)

bootstrap_needed() {
	local f
	[ -x "$top/configure" ] && [ -e "$top/Makefile.in" ] || return 0
	for f in "$top"/{configure.ac,Makefile.am,m4/kvd.m4,*/Makemodule.am,tests/*/Makemodule.am}; do
		[ "$f" -nt "$top/Makefile.in" ] && return 0
	done
	return 1
}

# prepare: makes ./configure if it is missing or old.
prepare() {
	! bootstrap_needed || step 300 bootstrap "bootstrap" "$top/bootstrap"
}

# The optional libraries that configure would find now, and their versions.
libraries() {
	local module
	for module in cmocka hiredis libmicrohttpd rocksdb libedit libevent_core; do
		echo "$module $(pkg-config --modversion "$module" 2>/dev/null)"
	done
	for module in zookeeper/zookeeper.h libmemcached/memcached.h; do # without a module that works
		[ ! -e /usr/include/$module ] || echo "$module"
	done
}

# What was compiled for other options is no longer right. What a library that came or went
# changes is in config.h, and make knows who includes that.
configure_in() {
	local dir=$1
	shift
	mkdir -p "$dir" && cd "$dir" || return
	[ ! -e Makefile ] || [ "$(cat configured 2>/dev/null)" = "$*" ] || make clean
	rm -f configured libraries
	# It takes bash otherwise, for libtool too, where sh takes two thirds of the time.
	CONFIG_SHELL=/bin/sh /bin/sh "$top/configure" "$@" && libraries >libraries && echo "$*" >configured
}

# is_configured DIR CONFIGURE-ARG...: so, with the libraries that there are.
is_configured() {
	local dir=$1
	shift
	[ -e "$dir/Makefile" ] && [ "$(cat "$dir/configured" 2>/dev/null)" = "$*" ] &&
		[ "$(cat "$dir/libraries" 2>/dev/null)" = "$(libraries)" ]
}

# build_tree NAME CONFIGURE-ARG...: configures (if need be) and builds build/NAME.
build_tree() {
	local name=$1 dir=$top/build/$1
	shift
	prepare || return
	if ! is_configured "$dir" "$@"; then
		step 300 "$name-configure" "$name: configure" configure_in "$dir" "$@" || return
	fi
	step 1200 "$name-make" "$name: make" make -C "$dir" -j"$jobs" all
}

# build_default: builds build/default as it was configured, by whomever and with whatever;
# with configure's defaults where it wasn't. A tree that ./runtests has configured stays as
# it wants it, with warnings that are errors, and is not built twice.
build_default() {
	local configured=$top/build/default/configured words=()
	[ ! -s "$configured" ] || read -ra words <"$configured"
	build_tree default ${words[@]+"${words[@]}"}
}
