#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# --metrics: the format is Prometheus', the figures are right, other requests get the
# right status, a client that says nothing or too much does no harm, a stuck kvd is told.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
kvd --version | grep -q 'metrics: yes' || skip "built without libmicrohttpd"

# The address of the last kvd's metrics.
find_metrics() { sed -nE 's|.*metrics at http://[^ ]*:([0-9]+)/metrics.*|\1|p' "$kvd_log" | tail -n 1; }

# http METHOD PATH: the head in $tmp/head, the body in $tmp/body, the status in $code.
http() {
	exec 9<>"/dev/tcp/127.0.0.1/$port" || fail "no connection to port $port"
	# It may close before it has all of a long head.
	(trap '' PIPE; printf '%s %s HTTP/1.1\r\nHost: kvd\r\nConnection: close\r\n\r\n' "$1" "$2" >&9) 2>/dev/null
	timeout $patience_s cat <&9 | tr -d '\r' >"$tmp/answer" || fail "$1 $2: no answer"
	exec 9<&- 9>&-
	sed '/^$/,$d' "$tmp/answer" >"$tmp/head"
	sed '1,/^$/d' "$tmp/answer" >"$tmp/body"
	code=$(awk 'NR == 1 { print $2 }' "$tmp/head")
}

scrape() {
	http GET /metrics
	[ "$code" = 200 ] || fail "/metrics: status $code"
	awk -f "$KVD_SOURCE/tests/lib/prometheus.awk" "$tmp/body" || fail "the format is not Prometheus'"
}

# figure SAMPLE: its value, as in: figure 'kvd_requests_total{op="put"}'
figure() { awk -v name="$1" '{ v = $NF; $NF = ""; sub(/ $/, ""); if ($0 == name) { print v; n++ } } END { exit n != 1 }' \
	"$tmp/body" || fail "no figure $1"; }
is() { [ "$(figure "$1")" = "$2" ] || fail "$1 is $(figure "$1"), not $2"; }

start_kvd --metrics 127.0.0.1:0 --slow 1
port=$(find_metrics)
[ -n "$port" ] || fail "the log does not tell the port"
scrape
is kvd_keys 0
is 'kvd_requests_total{op="put"}' 0

# What is done shows.
puts=$(scaled 500)
for ((i = 0; i < puts; i++)); do echo "put key$i value$i"; done | kvcli >"$tmp/out" || fail "puts"
head -c 300000 /dev/zero | kvcli put long - || fail "put of a long value"
kvcli get key1 >"$tmp/out" || fail "get"
! kvcli del nobody 2>"$tmp/err" || fail "del of nobody"
scrape
is kvd_keys $((puts + 1))
is 'kvd_requests_total{op="put"}' $((puts + 1))
is 'kvd_request_duration_seconds_count{op="put"}' $((puts + 1))
is 'kvd_request_duration_seconds_count{op="delete"}' 1
is kvd_requests_not_found_total 1
is kvd_pulls_total 1
is kvd_pull_bytes_total 300000
compute "$(figure 'kvd_request_duration_seconds_sum{op="put"}') > 0" || fail "no time passed"
compute "$(figure 'kvd_memory_value_bytes') > 300000" || fail "bytes of values"
compute "$(figure kvd_memory_used_bytes) <= $(figure kvd_memory_budget_bytes)" || fail "memory"
compute "$(figure process_resident_memory_bytes) > 1000000" || fail "resident memory"
compute "$(figure process_start_time_seconds) > $(date +%s) - 3600" || fail "start time"

# A lock is held, and is so no more. (A pipe tells when the command runs.)
mkfifo "$tmp/go"
start kvcli lock name -- cat "$tmp/go"
locked() { scrape; [ "$(figure kvd_locks_held)" = 1 ]; }
[ "$(kvcli stats --json | flatten | awk '$1 == "locks.available" { print $2 }')" = false ] || {
	wait_for locked || fail "the lock is not held"
	compute "$(figure kvd_connections) >= 1" || fail "no connection"
}
echo >"$tmp/go"
wait_exit "$pid"
unlocked() { scrape; [ "$(figure kvd_locks_held)" = 0 ] && [ "$(figure kvd_connections)" = 0 ]; }
wait_for unlocked || fail "a lock or a connection stays"

# What the dashboard shows is there; what is only with --data-dir, in its source.
for name in $(grep -Eo '\b(kvd|process)_[a-z_]+' "$KVD_SOURCE/doc/grafana.json" | sort -u); do
	grep -Eq "^${name}(\{| )|^# TYPE $name " "$tmp/body" ||
		{ [[ $name == kvd_durab* ]] && grep -q "\"$name\"" "$KVD_SOURCE/server/metrics/metrics.c"; } || fail "grafana.json shows $name, which is not served"
done
if command -v python3 >/dev/null; then
	python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$KVD_SOURCE/doc/grafana.json" || fail "grafana.json"
fi

# If Prometheus' own tool is here, it has to agree.
if command -v promtool >/dev/null; then
	promtool check metrics <"$tmp/body" || fail "promtool"
fi

http GET /healthz; [ "$code" = 200 ] || fail "/healthz: $code"
grep -q '^ok: ' "$tmp/body" || fail "/healthz does not say ok"
http GET /nothing; [ "$code" = 404 ] || fail "/nothing: $code"
http GET /; [ "$code" = 200 ] || fail "/: $code"
http POST /metrics; [ "$code" = 405 ] || fail "POST: $code"
grep -qi '^allow: *GET, HEAD' "$tmp/head" || fail "POST: no Allow"
http HEAD /metrics; [ "$code" = 200 ] && [ ! -s "$tmp/body" ] || fail "HEAD: $code"
http GET "/$(head -c 40000 /dev/zero | tr '\0' x)"
case $code in 414 | 431 | 404 | '') ;; *) fail "a long path: $code" ;; esac

# Silent connections, more than are served: they go, and the figures come again.
for ((i = 20; i < 44; i++)); do
	eval "exec $i<>/dev/tcp/127.0.0.1/$port"
done
for ((i = 20; i < 44; i++)); do eval "exec $i<&- $i>&-"; done
again() { http GET /metrics 2>/dev/null && [ "$code" = 200 ]; }
wait_for again || fail "no figures after silent connections"

# Connections that drip, a byte now and then, as many as are served: nobody waits for them.
drip() {
	local i
	trap '' PIPE
	for ((i = 20; i < 36; i++)); do
		eval "exec $i<>/dev/tcp/127.0.0.1/$port" || exit 1
		eval "printf 'GET /metrics HTTP/1.1\r\nX-Slow: ' >&$i"
	done
	: >"$tmp/dripping"
	while [ ! -e "$tmp/dry" ]; do
		for ((i = 20; i < 36; i++)); do eval "printf x >&$i" 2>/dev/null; done
		sleep 0.2
	done
}
drip &
dripping() { [ -e "$tmp/dripping" ]; }
wait_for dripping || fail "nothing drips"
before=$SECONDS
for i in 1 2 3; do scrape; done
[ $((SECONDS - before)) -le 5 ] || fail "connections that drip stop the figures for $((SECONDS - before)) s"
touch "$tmp/dry"
stop_kvd

# By user, where there are users.
users=$tmp/users
(umask 077; kvd init --users "$users" --user ada >"$tmp/ada") || fail "init"
start_kvd --metrics 127.0.0.1:0 --users "$users"
port=$(find_metrics)
open_batch --credentials "$tmp/ada"
ask "put key value"
scrape
is 'kvd_user_connections{user="ada"}' 1
close_batch 0
stop_kvd

# The port may be taken.
start_kvd --metrics 127.0.0.1:0
port=$(find_metrics)
expect 1 kvd --listen "$KVD_TEST_ADDR:0" --memory 16M --metrics "127.0.0.1:$port"
says "--metrics: can't serve 127.0.0.1:$port"
expect 1 kvd --listen "$KVD_TEST_ADDR:0" --memory 16M --metrics "192.0.2.1:0"
says "give an address of this machine"
stop_kvd
