#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A cluster whose table is full: what has no room is refused, nothing else fails, and no backup is
# lost by it for long: what found no memory there is copied anew.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
. "$KVD_SOURCE/tests/lib/cluster/kit.sh"

requires_cluster
export KVD_LIBRARY=$KVD_BUILD/client/.libs/libkvd.so PYTHONPATH=$KVD_SOURCE/python PYTHONDONTWRITEBYTECODE=1
[ -e "$KVD_LIBRARY" ] || skip "built without shared libraries"
changes=$(scaled 12000 4000)

cat >"$tmp/load.py" <<'END'
"""load.py put|check ADDRESSES FOLDER [CHANGES]"""
import json
import os
import random
import sys
import time

import kvd

what, addresses, folder = sys.argv[1:4]
session = kvd.Client(addresses).session()
if what == "check":
    data = open(folder + "/data", "rb").read()
    for key, n in json.load(open(folder + "/lengths")).items():
        if session.get(key) != data[:n]:
            sys.exit(f"{key} is not what was acknowledged: {n} bytes")
    sys.exit()
data, rng = os.urandom(300000), random.Random(1)
lengths, refused, longest = {}, 0, 0.0
for i in range(int(sys.argv[4])):
    key = f"key{rng.randrange(3000)}"
    n = rng.choice((rng.randrange(100, 1000), rng.randrange(1000, 20000), rng.randrange(20000, 280000)))
    began = time.monotonic()
    try:
        session.put(key, data[:n])
        lengths[key] = n
    except kvd.Full:
        refused += 1
    longest = max(longest, time.monotonic() - began)
open(folder + "/data", "wb").write(data)
json.dump(lengths, open(folder + "/lengths", "w"))
print(refused, len(lengths), int(longest * 1000))
END

start_two
both=${addr[1]},${addr[2]}
python3 "$tmp/load.py" put "$both" "$tmp" "$changes" >"$tmp/figures" 2>"$tmp/err" ||
	{ cat "$tmp/err"; fail "a change failed otherwise than by want of memory"; }
read -r refused keys longest <"$tmp/figures"
say "$refused of $changes changes refused, $keys keys, the longest took $longest ms"
reached "refused changes" "$refused" 100
reached "keys" "$keys" 500
[ "$longest" -lt 4500 ] || fail "a change took $longest ms"

on $primary
in_sync() { [ "$(stat cluster.in_sync)" = 2 ]; }
wait_for in_sync || fail "a backup is lost"
[ "$(stat cluster.state)" = primary ] || fail "there was a fail-over"
say "$(grep -c 'lacks a change' "${logs[$backup]}") times a backup was copied to anew"
# It has what the primary has.
kill_member $primary
python3 "$tmp/load.py" check "${addr[$backup]}" "$tmp" 2>"$tmp/err" || { cat "$tmp/err"; fail "the backup lacks a change"; }
