#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# kvd.aio: its tests, and 10,000 tasks whose kvd is killed: all end, nothing leaks, and the
# session works again.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
python=/usr/bin/python3 # Debian's
[ -x $python ] || skip "$python is not installed"
patience_s=300 # 10,000 tasks, on a busy machine
export KVD_LIBRARY=$KVD_BUILD/client/.libs/libkvd.so
[ -e "$KVD_LIBRARY" ] || skip "built without shared libraries"
export PYTHONPATH=$KVD_SOURCE/python PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=error

start_kvd --memory 256M
$python "$KVD_SOURCE/python/test_aio.py" >"$tmp/out" 2>&1 || { cat "$tmp/out"; fail "python/test_aio.py"; }
tail -n 3 "$tmp/out"

start $python "$KVD_SOURCE/python/test_aio_killed.py" "$tmp/again" >"$tmp/out" 2>&1
program=$pid
again_or_gone() { [ -e "$tmp/again" ] || gone "$program"; }
wait_for again_or_gone || fail "the tasks don't end: $(cat "$tmp/out")"
if [ -e "$tmp/again" ]; then
	rm -f "$tmp/ready"
	# shellcheck disable=SC2046
	start "$KVD_BUILD/kvd" --listen "$KVD_ADDR" --ready-file "$tmp/ready" $(insecure) --memory 64M 2>"$tmp/kvd.again.log"
	kvd_log=$tmp/kvd.again.log
fi
wait_exit "$program"
cat "$tmp/out"
[ "$status" = 0 ] || fail "python/test_aio_killed.py ended with $status"
! grep -E 'never retrieved|was destroyed|ResourceWarning' "$tmp/out" || fail "something dangles"
