#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Programs that were written for memcached run with kvfront: by Perl's Cache::Memcached and
# Cache::Memcached::Fast, by PHP's memcached, by Python's pymemcache, python-memcached and pylibmc,
# by libmemcached's tools, as Debian has them. Where memcached is here, the same programs are right
# of it.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
. "$KVD_SOURCE/tests/lib/front.sh"

ran=0

# program NAME LEAST COMMAND...: it ends with so many checks at least, or its module is not here.
program() {
	local name=$1 least=$2
	shift 2
	status=0
	timeout $((4 * patience_s)) "$@" >"$tmp/out" 2>"$tmp/err" || status=$?
	if [ $status = 77 ] || [ $status = 127 ]; then
		say "$name is not here"
		return
	fi
	[ $status = 0 ] || { cat "$tmp/out" "$tmp/err" "$front_log"; fail "$name: status $status"; }
	[ ! -s "$tmp/err" ] || fail "$name says: $(cat "$tmp/err")"
	reached "checks of $name" "$(sed -n '$s/ checks$//p' "$tmp/out")" "$least"
	ran=$((ran + 1))
}

# programs SOCKET
programs() {
	program Cache::Memcached 25 perl "$KVD_SOURCE/tests/front/client.pl" Cache::Memcached "$1"
	program Cache::Memcached::Fast 30 perl "$KVD_SOURCE/tests/front/client.pl" Cache::Memcached::Fast "$1"
	program php-memcached 45 php "$KVD_SOURCE/tests/front/client.php" "$1"
	# Debian's, which has Debian's modules.
	local module
	for module in pymemcache memcache pylibmc; do
		program "Python's $module" 30 /usr/bin/python3 "$KVD_SOURCE/tests/front/client.py" $module "$1"
	done
}

# libmemcached's own tools.
tools() {
	command -v memccp >/dev/null || { say "libmemcached-tools is not here"; return; }
	printf 'a file\n' >"$tmp/file"
	expect 0 memccp --servers="$1" "$tmp/file"
	expect 0 memccat --servers="$1" file
	prints $'a file\n\n'
	expect 0 memcexist --servers="$1" file
	expect 0 memctouch --servers="$1" --expire=100 file
	expect 0 memcstat --servers="$1"
	grep -q 'version: 1\.6\.' "$tmp/out" || fail "memcstat: $(cat "$tmp/out")"
	expect 0 memcping --servers="$1"
	expect 0 memcrm --servers="$1" file
	expect 1 memcexist --servers="$1" file
	expect 0 memcflush --servers="$1"
	ran=$((ran + 1))
}

# What libmemcached asks of a server, of each command of the text protocol; of a TCP port only.
capable() {
	command -v memccapable >/dev/null || { say "libmemcached-tools is not here"; return; }
	expect 0 memccapable -h "${1%:*}" -p "${1##*:}" -a -t "$patience_s"
	reached "tests of memccapable" "$(grep -c '\[pass\]' "$tmp/out")" 27
	! grep -q '\[FAIL\]' "$tmp/out" || fail "memccapable: $(cat "$tmp/out")"
}

start_kvd --memory 64M
start_front -t 2
programs "$FRONT_SOCKET"
tools "$FRONT_SOCKET"
capable "127.0.0.1:$FRONT_PORT"
stop_front
stop_kvd
[ $ran -gt 0 ] || skip "no client of memcached is here"

all_of_memcached() { programs "$MEMCACHED_SOCKET"; tools "$MEMCACHED_SOCKET"; }
with_memcached all_of_memcached
