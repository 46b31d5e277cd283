#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Under libsoftverbs-preload.so the system's devices stay what they are, beside soft0:
# listed, described, used by verbs and by rdma_cm.  Where the system has none, it is the
# system that says so.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
requires ibv_devices ibv_devinfo ibv_rc_pingpong rping
preload=$KVD_BUILD/common/softverbs/.libs/libsoftverbs-preload.so
[ -e "$preload" ] || skip "built without libsoftverbs-preload.so"
export SOFTVERBS_FABRIC=preload-$$

plain() { timeout "$patience_s" "$@"; }
under() { LD_PRELOAD=$preload plain "$@"; }
under_system_cm() { SOFTVERBS_CM=system under "$@"; }
names() { awk 'NR > 2 { print $1 }'; }

# same AS COMMAND...: it says the same with the library as without, and ends so.
same() {
	local as=$1 rc_plain rc_under
	shift
	plain "$@" >"$tmp/plain" 2>&1 && rc_plain=0 || rc_plain=$?
	"$as" "$@" >"$tmp/under" 2>&1 && rc_under=0 || rc_under=$?
	[ $rc_plain = $rc_under ] && cmp -s "$tmp/plain" "$tmp/under" || {
		diff "$tmp/plain" "$tmp/under"
		fail "$* under the library: status $rc_under instead of $rc_plain"
	}
}

system=$(plain ibv_devices 2>/dev/null | names)
# shellcheck disable=SC2086 # a list
[ "$(under ibv_devices | names)" = "$(printf '%s\n' soft0 $system)" ] ||
	fail "the list isn't soft0 and then the system's: $(under ibv_devices | names)"
under ibv_devinfo -d soft0 | grep -q PORT_ACTIVE || fail "soft0 isn't described"
for device in $system; do
	same under ibv_devinfo -v -d "$device"
done
if [ "${KVD_VM-}" != 1 ]; then
	[ -n "$system" ] || same under_system_cm rping -c -a 127.0.0.1 -p 9 -C 1
	exit 0
fi

listens() { ss -Hltn "sport = :$1" | grep -q .; }
cm_listens() { rdma resource show cm_id | grep -q "LISTEN.*:$1 "; }
port=$((20000 + RANDOM % 10000))

# pingpong DEVICE DEVICE ARG...: a server on the first, a client on the second.
pingpong() {
	local ours=$1 theirs=$2
	shift 2
	start env LD_PRELOAD="$preload" ibv_rc_pingpong -p "$port" -d "$ours" "$@" >"$tmp/server" 2>&1
	wait_for listens "$port" || { cat "$tmp/server"; fail "ibv_rc_pingpong on $ours: no server"; }
	expect 0 under ibv_rc_pingpong -p "$port" -d "$theirs" "$@" "$KVD_VM_ADDR_A"
	grep -q "^$pings iters in" "$tmp/out" || { cat "$tmp/out"; fail "ibv_rc_pingpong on $theirs"; }
	wait_exit "$pid"
	[ "$status" = 0 ] || { cat "$tmp/server"; fail "ibv_rc_pingpong on $ours ended with $status"; }
	port=$((port + 1))
}

pings=200
pingpong "$KVD_VM_DEV_A" "$KVD_VM_DEV_B" -g 1 -n $pings -c
pingpong "$KVD_VM_DEV_A" "$KVD_VM_DEV_B" -g 1 -n $pings -e
pingpong soft0 soft0 -n $pings -c
say "verbs: rxe and soft0, $pings round trips each"

start env LD_PRELOAD="$preload" SOFTVERBS_CM=system rping -s -a "$KVD_VM_ADDR_A" -p "$port" \
	-C 10 >"$tmp/server" 2>&1
wait_for cm_listens "$port" || fail "rping by the system's rdma_cm: no server"
under_system_cm rping -c -a "$KVD_VM_ADDR_A" -p "$port" -C 10 -v -V >"$tmp/out" 2>&1
[ "$(grep -c '^ping data' "$tmp/out")" = 10 ] || { cat "$tmp/out"; fail "rping by the system's rdma_cm"; }
say "rdma_cm: 10 pings by the system's"
