#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# kvd.lmcache: with LMCache's calls, threads and all; nothing is copied, a load that is partly
# there says which, and all ends in time where kvd is gone.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
python=/usr/bin/python3 # Debian's
[ -x $python ] || skip "$python is not installed"
export KVD_LIBRARY=$KVD_BUILD/client/.libs/libkvd.so
[ -e "$KVD_LIBRARY" ] || skip "built without shared libraries"
export PYTHONPATH=$KVD_SOURCE/python PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=error TMPDIR=$tmp

start_kvd --memory 128M
export KVD_SECOND=$KVD_ADDR KVD_SECOND_PID=$KVD_PID
start_kvd --memory 256M
$python "$KVD_SOURCE/python/test_lmcache.py" >"$tmp/out" 2>&1 || { cat "$tmp/out"; fail "python/test_lmcache.py"; }
cat "$tmp/out"
grep -q '^three batches without kvd' "$tmp/out" || fail "no kvd was killed"
