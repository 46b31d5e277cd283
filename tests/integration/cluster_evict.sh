#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A cache of two members: it goes on when it is full, the backup stays in sync, and at the next
# primary no key is back that was evicted or deleted.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
. "$KVD_SOURCE/tests/lib/cluster/kit.sh"

requires_cluster
export KVD_LIBRARY=$KVD_BUILD/client/.libs/libkvd.so PYTHONPATH=$KVD_SOURCE/python PYTHONDONTWRITEBYTECODE=1
[ -e "$KVD_LIBRARY" ] || skip "built without shared libraries"
changes=$(scaled 60000 15000)

cat >"$tmp/load.py" <<'END'
"""load.py put ADDRESSES CHANGES FOLDER: also deletes a few of its keys; FOLDER/keys: what they have.
load.py check ADDRESSES FOLDER: what is there is right; FOLDER/there: which are."""
import json
import os
import random
import sys

import kvd

what, addresses, folder = sys.argv[1], sys.argv[2], sys.argv[-1]
session = kvd.Client(addresses).session()
if what == "put":
    data, rng, keys = os.urandom(300000), random.Random(1), {}
    open(folder + "/data", "wb").write(data)
    for i in range(int(sys.argv[3])):
        key = f"key{rng.randrange(100000)}"
        n = rng.choice((rng.randrange(100, 1000), rng.randrange(1000, 20000), rng.randrange(1000, 20000)))
        if i % 500 == 0:
            n = rng.randrange(100000, 300000)
        if rng.randrange(10) == 0:
            session.delete(key)
            keys[key] = None
        else:
            session.put(key, data[:n])
            keys[key] = n
    json.dump(keys, open(folder + "/keys", "w"))
else:
    data, there = open(folder + "/data", "rb").read(), []
    for key, n in json.load(open(folder + "/keys")).items():
        value = session.get(key)
        if value is not None and (n is None or value != data[:n]):
            sys.exit(f"{key} is {'back' if n is None else 'another value'}: {len(value)} bytes")
        if value is not None:
            there.append(key)
    open(folder + "/there", "w").write("".join(f"{key}\n" for key in sorted(there)))
END

start_zookeeper
start_member 1 --evict
start_member 2 --evict
init_cluster 2
wait_for one_is_primary 1 2 || fail "nobody is primary"
on "$primary"
wait_for served || fail "the primary doesn't serve"
both=${addr[1]},${addr[2]}

python3 "$tmp/load.py" put "$both" "$changes" "$tmp" 2>"$tmp/err" || { cat "$tmp/err"; fail "a change failed"; }
is_whole_again() { one_is_primary 1 2 && on "$primary" && [ "$(stat cluster.in_sync)" = 2 ]; }
wait_for is_whole_again || fail "the backup is lost"
evicted=$(stat eviction.evictions)
say "$evicted keys evicted; $(cat "${logs[@]}" | grep -c 'lacks a change') times a backup was copied to anew"
reached "evicted keys" "$evicted" $((changes / 10))

python3 "$tmp/load.py" check "$both" "$tmp" 2>"$tmp/err" || { cat "$tmp/err"; fail "at the primary"; }
mv "$tmp/there" "$tmp/there.before"
reached "keys" "$(wc -l <"$tmp/there.before")" 1000
kill_member $primary
python3 "$tmp/load.py" check "${addr[$backup]}" "$tmp" 2>"$tmp/err" || { cat "$tmp/err"; fail "at the next primary"; }
cmp "$tmp/there.before" "$tmp/there" ||
	fail "$(comm -13 "$tmp/there.before" "$tmp/there" | wc -l) keys are back, $(comm -23 "$tmp/there.before" "$tmp/there" | wc -l) are lost"
