#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Unknown device, port in use, no such server, an address without a device: a
# sentence that names it, soon, and the right status.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"

# Status 1 or 3: not that of wrong options, nor a success.
refused() {
	status=0
	"$@" >"$tmp/out" 2>"$tmp/err" || status=$?
	[ $status = 1 ] || [ $status = 3 ] || { cat "$tmp/err"; fail "status $status: $*"; }
}

refused kvd --device nosuch0 --listen 127.0.0.1:0; says "nosuch0"
refused kvd --listen 192.0.2.77:0; says "192.0.2.77"
refused kvd --listen nosuch.invalid:0; says "nosuch.invalid"
refused kvd --listen 127.0.0.1:0 --ready-file /nosuch/folder/ready; says "/nosuch/folder/ready"

# Several addresses of one device; each is told, one a line.
if [ $soft = 1 ]; then
	start_kvd --memory 64M --listen "127.0.0.1:0,[::1]:0,127.0.0.2:0"
	mapfile -t served <<<"$KVD_ADDR"
	[ "${#served[@]}" = 3 ] || fail "${#served[@]} addresses in the ready file"
	expect 0 "$KVD_BUILD/kvcli" -s "${served[0]}" put first value
	for KVD_ADDR in "${served[@]}"; do
		expect 0 kvcli get first; prints "value"
		grep -qF "$KVD_ADDR" "$kvd_log" || fail "$KVD_ADDR is not in the log"
	done
	stop_kvd
	refused kvd --memory 64M --listen "127.0.0.1:0,nosuch.invalid:0"; says "nosuch.invalid"
	refused kvd --memory 64M --listen ","; says "is not an address"
	refused kvd --memory 64M --listen "$(printf '127.0.0.1:0,%.0s' {1..17})"; says "more than 16 addresses"
fi

# A name with several addresses, in a hosts file of our own: kvd is at the last of them.
if [ $soft = 1 ] && [ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null; then
	printf '127.0.0.1 twofold\n::1 twofold\n' >"$tmp/hosts"
	with_hosts() { unshare --mount sh -c 'mount --bind "$0" /etc/hosts && exec "$@"' "$tmp/hosts" "$@"; }
	start_kvd --memory 64M --listen "[::1]:0" --namespace photos:memory=16M
	port=${KVD_ADDR##*:}
	expect 0 with_hosts "$KVD_BUILD/kvcli" -s "twofold:$port" put two fold
	expect 0 with_hosts "$KVD_BUILD/kvcli" -s "twofold:$port" get two; prints "fold"
	expect 1 with_hosts "$KVD_BUILD/kvcli" -s "twofold:$port/photos" get two
	expect 0 with_hosts "$KVD_BUILD/kvbench" load -s "twofold:$port" -p recordcount=100 -t 3 -P \
		"$KVD_SOURCE/bench/workloads/workloada"
	stop_kvd
	expect 3 with_hosts "$KVD_BUILD/kvcli" -s "twofold:$port" get two; says "127.0.0.1:$port"
else
	say "no name with several addresses: no mount namespaces for this user"
fi

start_kvd --memory 64M
port=${KVD_ADDR##*:}
refused kvd --listen "$KVD_TEST_ADDR:$port" ${KVD_TEST_DEVICE:+--device "$KVD_TEST_DEVICE"}
says "$port"
expect 0 kvcli put still here
expect 0 kvcli get still; prints "here"
expect 3 kvcli --device nosuch0 get key; says "nosuch0"
if [ $soft = 1 ]; then
	expect 0 "$KVD_BUILD/kvcli" -s "localhost:$port" get still; prints "here"
	expect 0 "$KVD_BUILD/kvcli" -s "$KVD_ADDR" --device soft get still; prints "here"
	expect 0 "$KVD_BUILD/kvcli" -s "$KVD_ADDR" --device soft,ack-timeout=16,retries=3,sl=1 get still
	prints "here"
fi
# Options of the connection: with any device, and none of them taken for another.
expect 0 kvcli --device ",ack-timeout=16,retries=3,sl=0,tc=8" get still; prints "here"
expect 3 kvcli --device ",sl=16" get still; says "a number from 0 to 15"
expect 3 kvcli --device ",retries=7" get still; says "a number from 0 to 6"
expect 3 kvcli --device ",tc=" get still; says "a number from 0 to 255"
expect 3 kvcli --device ",speed=9" get still; says "'speed=9' is none of"
stop_kvd

# The port that was kvd's is nobody's now.
before=$SECONDS
expect 3 kvcli get key; says "$port"
expect 3 "$KVD_BUILD/kvcli" -s nosuch.invalid get key; says "nosuch.invalid"
expect 2 "$KVD_BUILD/kvcli" -s "127.0.0.1:99999" get key; says "99999"
[ $((SECONDS - before)) -lt $patience_s ] || fail "that took $((SECONDS - before)) s"
