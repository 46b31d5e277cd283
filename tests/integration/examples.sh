#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The examples of doc/examples end well: on the software device by the library that
# is preloaded, elsewhere on the device of the test's address.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
examples=$KVD_BUILD/doc/examples
[ -x "$examples/devices" ] || skip "the examples aren't built"
if [ $soft = 1 ]; then
	preload=$KVD_BUILD/common/softverbs/.libs/libsoftverbs-preload.so
	[ -e "$preload" ] || skip "built without libsoftverbs-preload.so"
	device=soft0
	export SOFTVERBS_FABRIC=examples-$$
	run() { LD_PRELOAD=$preload timeout "$patience_s" "$examples/$1" "${@:2}"; }
else
	device=$KVD_TEST_DEVICE
	run() { timeout "$patience_s" "$examples/$1" "${@:2}"; }
fi

# says PATTERN PROGRAM ARG...: it ends well and says that.
says() {
	local pattern=$1
	shift
	run "$@" >"$tmp/out" 2>&1 || { cat "$tmp/out"; fail "$*"; }
	grep -Eq -- "$pattern" "$tmp/out" || { cat "$tmp/out"; fail "$*: it doesn't say $pattern"; }
}

# serve PROGRAM ARG...: starts a program's server; sets $port to what it prints.
serve() {
	rm -f "$tmp/server"
	run "$@" >"$tmp/server" 2>&1 &
	server=$!
	started_pids+=("$server")
	wait_for test -s "$tmp/server" || fail "$*: no port"
	port=$(head -n 1 "$tmp/server")
}

says "${device:-.} +[A-Za-z]" devices
device=${device:-$(awk 'NR == 1 { print $1 }' "$tmp/out")}
says 'port 1, GID [0-9]+: .*RoCE' gids "$device"
says 'remote read +READ: success +WRITE: remote access error' regions "$device"
says 'fetch-and-add +a +6, b 10' opcodes "$device"
says 'message 3: hello 3' channel "$device"
says 'buffer 0, connection 2: from 2' srq "$device"
says 'SRQ limit reached' async "$device"

says 'received: it arrives' uc "$device"
says '32 bytes and a GRH: an answer' datagram "$device"
says 'a solicited one wakes it' fence "$device"
grep -q "behind the fence: what was read" "$tmp/out" && grep -q "message doesn't wake" "$tmp/out" ||
	fail "fence: $(cat "$tmp/out")"
says 'afterwards: remote access error' windows "$device"
grep -q "there: through the window" "$tmp/out" || fail "windows: $(cat "$tmp/out")"
if [ $soft = 1 ]; then
	# Soft-RoCE takes the key away as well, and its completion doesn't name it.
	grep -q "names the key" "$tmp/out" || fail "windows: $(cat "$tmp/out")"
	says 'member 2: to all' multicast "$device"
	says 'to queue 1, by the one target' xrc "$device"
fi

serve write_string server "$device"
run write_string "$port" "a string" "$device" || fail "write_string"
wait_exit "$server"
[ "$status" = 0 ] && [ "$(tail -n 1 "$tmp/server")" = "a string" ] ||
	{ cat "$tmp/server"; fail "write_string server"; }

serve cm_pingpong server "$KVD_TEST_ADDR"
says '1000 rounds, the last: ping 999' cm_pingpong "$KVD_TEST_ADDR" "$port"
wait_exit "$server"
[ "$status" = 0 ] || { cat "$tmp/server"; fail "cm_pingpong server"; }
