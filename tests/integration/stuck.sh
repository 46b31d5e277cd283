#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# GET /healthz while a worker stands still is 503 and says which; and 200 when it goes on.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
requires python3
kvd --version | grep -q 'metrics: yes' || skip "built without libmicrohttpd"
# A worker that always polls is the busiest thread.
start_kvd --memory 64M --metrics 127.0.0.1:0 --workers 1 --poll busy
port=$(sed -nE 's|.*metrics at http://[^ ]*:([0-9]+)/metrics.*|\1|p' "$kvd_log")
[ -n "$port" ] || fail "the log does not tell the port"
status=0
python3 "$KVD_SOURCE/tests/integration/stuck.py" "$KVD_PID" "$port" >"$tmp/out" 2>&1 || status=$?
cat "$tmp/out"
[ $status != 77 ] || skip "$(cat "$tmp/out")"
[ $status = 0 ] || fail "see above"
expect 0 kvcli put key value
stop_kvd
