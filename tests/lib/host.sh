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

is_installed() {
	case $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) in
	installed) return 0 ;;
	*) return 1 ;;
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

# need_packages PACKAGE...: Debian's names. Elsewhere configure says what is missing.
need_packages() {
	local p missing=()
	if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
		command -v autoreconf >/dev/null && command -v pkg-config >/dev/null && return
		say "This is neither Debian nor Ubuntu, so nothing is installed for you. On Fedora:"
		say "  dnf install gcc make autoconf automake libtool pkgconf-pkg-config rdma-core-devel \\"
		say "      jemalloc-devel xxhash-devel libsodium-devel numactl-devel libedit-devel libmicrohttpd-devel \\"
		say "      rocksdb-devel libcmocka-devel clang"
		exit 1
	fi
	for p in "$@"; do
		is_installed "$p" || missing+=("$p")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	say "  Not installed: ${missing[*]}"
	if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
		die "Run this as root, or install them: apt-get install ${missing[*]}"
	fi
	[ "$(id -u)" = 0 ] || sudo -v || die "sudo is needed to install them."
	step 900 packages "apt-get install (${#missing[@]} packages)" apt_install "${missing[@]}"
}

packages_build="gcc libc6-dev make autoconf automake libtool pkg-config libibverbs-dev
	librdmacm-dev libjemalloc-dev libxxhash-dev libsodium-dev libnuma-dev libedit-dev
	libmicrohttpd-dev librocksdb-dev"

# -------------------------------------------------------------------- builds

jobs=$(nproc 2>/dev/null || echo 2)

bootstrap_needed() {
	local f
	[ -x "$top/configure" ] && [ -e "$top/Makefile.in" ] || return 0
	for f in configure.ac Makefile.am m4/kvd.m4 common server client bench tests doc; do
		[ -d "$top/$f" ] && f=$f/Makemodule.am
		[ "$top/$f" -nt "$top/Makefile.in" ] && return 0
	done
	return 1
}

# prepare: makes ./configure if it is missing or old.
prepare() {
	! bootstrap_needed || step 300 bootstrap "bootstrap" "$top/bootstrap"
}

configure_in() {
	local dir=$1
	shift
	mkdir -p "$dir" && cd "$dir" && "$top/configure" "$@" && echo "$*" >configured
}

# build_tree NAME CONFIGURE-ARG...: configures (if need be) and builds build/NAME.
build_tree() {
	local name=$1 dir=$top/build/$1
	shift
	prepare || return
	if [ "$(cat "$dir/configured" 2>/dev/null)" != "$*" ] || [ ! -e "$dir/Makefile" ]; then
		rm -f "$dir/configured"
		step 300 "$name-configure" "$name: configure" configure_in "$dir" "$@" || return
	fi
	step 1200 "$name-make" "$name: make" make -C "$dir" -j"$jobs" all
}
