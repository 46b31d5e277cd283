#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# One of two devices fails, or its port is cut: who came by it loses the connection, who came by the
# other one notices nothing, and kvd says what to do.  The first device's end is kvd's.  And what two
# devices take, or forbid.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
[ $soft = 1 ] || skip "only the software device can be two"
[ "${KVD_BOOTSTRAP-}" != tcp ] || skip "with bootstrap tcp kvd serves one device"
export SOFTVERBS_DEVICES=2

# serve ARG...: on both; sets $first and $second, their addresses.
serve() {
	start_kvd --memory 64M --listen 127.0.0.1:0,127.0.0.2:0 "$@"
	{ read -r first; read -r second; } <<<"$KVD_ADDR"
	KVD_ADDR=$first
}
by() { "$KVD_BUILD/kvcli" -s "$@"; }
rails() { by "$first" stats --json | flatten | awk '$1 ~ /rails.*lost$/ { printf "%s ", $2 }'; }

say "what two devices take"
refused() {
	status=0
	kvd --memory 64M --listen 127.0.0.1:0,127.0.0.2:0 "$@" 2>"$tmp/err" || status=$?
	[ $status = 1 ] || { cat "$tmp/err"; fail "status $status: $*"; }
}
refused --workers 1; says "1 worker for 2 RDMA devices"
refused --namespace "other:memory=16M,workers=1"; says "namespace other: 1 worker for 2"
refused --listen 127.0.0.1:0,127.0.0.2:0,127.0.0.3:0,127.0.0.4:0 --workers 1; says "2 RDMA devices"

say "a device fails"
metrics=
! kvd --version | grep -q 'metrics: yes' || metrics="--metrics 127.0.0.1:0"
# fails DEVICE N: a kvd whose device does, at the Nth request that it posts there.
fails() {
	export SOFTVERBS_FAULT="event=8,event_at=$2,device=$1"
	serve $metrics
	unset SOFTVERBS_FAULT
}
fails 1 20
open_batch --timeout 5 # by the first
ask "put key value"
[ "$answer" = OK ] || fail "put by the first: $answer"
mkfifo "$tmp/puts"
start bash -c 'exec yes "put other value" >"$0" 2>/dev/null' "$tmp/puts"
start bash -c 'exec "$0" -s "$1" --timeout 2 <"$2" >/dev/null 2>&1' "$KVD_BUILD/kvcli" "$second" "$tmp/puts"
putter=$pid
lost() { grep -q 'soft1 (127.0.0.2:[0-9]*) is of no use any more' "$kvd_log"; }
wait_for lost || fail "kvd doesn't say that it lost a device"
ended() { grep -q 'from 127.0.0.2:[0-9]* closed: the device failed' "$kvd_log"; }
wait_for ended || fail "connections of the lost device go on"
kill "$putter"
wait_exit "$putter"
grep -q 'kvd serves on by the others; start kvd again when the device is well' "$kvd_log" || fail "nor what to do"
for ((i = 0; i < 100; i++)); do
	ask "put key $i"
	[ "$answer" = OK ] || fail "by the other device: $answer"
	ask "get key"
	[ "$answer" = $i ] || fail "by the other device: $answer"
done
# figure SAMPLE: of the metrics.
figure() {
	exec 9<>"/dev/tcp/127.0.0.1/$(sed -n 's|.*metrics at http://[^ ]*:\([0-9]*\)/metrics.*|\1|p' "$kvd_log")" ||
		fail "no connection to the metrics"
	printf 'GET /metrics HTTP/1.1\r\nHost: kvd\r\nConnection: close\r\n\r\n' >&9
	timeout $patience_s cat <&9 >"$tmp/metrics"
	exec 9<&- 9>&-
	tr -d '\r' <"$tmp/metrics" | awk -v sample="$1" 'index($0, sample " ") == 1 { print $NF }'
}
if [ -n "$metrics" ]; then
	[ "$(figure 'kvd_device_lost{device="soft1"}')" = 1 ] || fail "the metrics don't say that soft1 is lost"
	[ "$(figure 'kvd_device_lost{device="soft0"}')" = 0 ] || fail "the metrics say that soft0 is lost"
	[ "$(figure "kvd_address_connections{device=\"soft0\",port=\"1\",address=\"$first\"}")" = 1 ] ||
		fail "not one connection by $first: $(grep address_conn "$tmp/metrics")"
fi
[ "$(rails)" = "false true " ] || fail "the stats say: $(rails)"
expect 0 by "$first" info
[ "$(grep -cE '^its device +soft[01]$' "$tmp/out")" = 2 ] || fail "info doesn't name both devices"
if command -v script >/dev/null; then
	TERM=xterm script -qefc "stty rows 24 cols 80; '$KVD_BUILD/kvcli' -s $first top --interval 50ms --count 2" /dev/null \
		</dev/null >"$tmp/screen" || fail "top on a terminal"
	grep -q 'device  *soft0   connections [1-9]' "$tmp/screen" || fail "top doesn't name the device that is left"
	grep -q 'device  *soft1   connections 0 .*LOST' "$tmp/screen" || fail "top doesn't say that a device is lost"
fi
nobody() { by "$first" stats --json | flatten | awk '$1 ~ /rails.*connections$/ { n = $2 } END { exit n != 0 }'; }
wait_for nobody || fail "connections of the lost device stay"
expect 3 by "$second" --timeout 2 get key
expect 0 by "$first" lock key -- true
close_batch 0
stop_kvd

fails 0 20
open_batch --timeout 2
answer=OK
end=$((SECONDS + patience_s))
while [ "$answer" = OK ] && [ $SECONDS -lt $end ]; do ask "put key value"; done
wait_exit "$KVD_PID"
[ "$status" = 3 ] || fail "kvd outlives its first device: $status"
grep -q 'soft0 is of no use any more: kvd ends with status 3' "$kvd_log" || fail "no last word"
close_batch 3

say "a port's error is told to who came by it"
export SOFTVERBS_FAULT=event=10,event_at=20,device=1
serve
unset SOFTVERBS_FAULT
open_batch --timeout 2 # by the first
ask "put key value"
[ "$answer" = OK ] || fail "put: $answer"
for ((i = 0; i < 60; i++)); do echo "put key$i value"; done | by "$second" >"$tmp/out" || fail "puts by the second"
told() { grep -q 'soft1 port 1: the port is down' "$kvd_log"; }
wait_for told || fail "no word of the port"
ask "get key"
kill_kvd
while [ "$answer" = value ]; do ask "get key"; done
case $answer in
*'its port went down'*) fail "a client of the first device was told of the second one's port: $answer" ;;
ERROR*) ;;
*) fail "the client says: $answer" ;;
esac
close_batch 3

say "a port is cut"
mkdir "$tmp/down"
export SOFTVERBS_DOWN=$tmp/down
serve
open_batch --timeout 5 # by the first
touch "$tmp/down/soft1"
expect 3 by "$second" --timeout 1 get key
for ((i = 0; i < 100; i++)); do
	ask "put key $i"
	[ "$answer" = OK ] || fail "by the other port: $answer"
done
rm "$tmp/down/soft1"
back() { by "$second" --timeout 5 get key >"$tmp/out" 2>"$tmp/err"; }
wait_for back || fail "the port is back, and kvd isn't: $(cat "$tmp/err")"
prints 99
close_batch 0
stop_kvd
