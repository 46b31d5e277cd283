# SPDX-License-Identifier: BSD-2-Clause
"""Fills a cluster that has too little memory, and looks at what it kept.

fill.py put ADDRESSES FOLDER CHANGES KEYS LONG  one of LONG changes has a long value, one of ten deletes;
                                                prints how many were refused for want of memory, how many
                                                keys have a value, the milliseconds of the slowest change
fill.py check ADDRESSES FOLDER                  what is there is what was acknowledged; FOLDER/there: its keys

FOLDER keeps what was put from the one to the other."""
import json
import os
import random
import sys
import time

import kvd

SHORT, MIDDLE, LONG = (100, 1000), (1000, 20000), (100000, 300000)


def length(rng, one_long_in):
    return rng.randrange(*(LONG if rng.randrange(one_long_in) == 0 else rng.choice((SHORT, MIDDLE))))


def put(session, folder, changes, keys, one_long_in):
    data, rng = os.urandom(LONG[1]), random.Random(1)
    lengths, refused, slowest = {}, 0, 0.0
    for _ in range(changes):
        key, n = f"key{rng.randrange(keys)}", length(rng, one_long_in)
        began = time.monotonic()
        try:
            if rng.randrange(10) == 0:
                session.delete(key)
                lengths[key] = None
            else:
                session.put(key, data[:n])
                lengths[key] = n
        except kvd.Full:
            refused += 1
        slowest = max(slowest, time.monotonic() - began)
    with open(folder + "/data", "wb") as file:
        file.write(data)
    with open(folder + "/lengths", "w") as file:
        json.dump(lengths, file)
    print(refused, sum(n is not None for n in lengths.values()), int(slowest * 1000))


def check(session, folder):
    with open(folder + "/data", "rb") as file:
        data = file.read()
    with open(folder + "/lengths") as file:
        lengths = json.load(file)
    there = []
    for key, n in lengths.items():
        value = session.get(key)
        if value is None:
            continue
        if n is None or value != data[:n]:
            sys.exit(f"{key} is {'back' if n is None else 'another value'}: {len(value)} bytes")
        there.append(key)
    with open(folder + "/there", "w") as file:
        file.writelines(f"{key}\n" for key in sorted(there))


def main():
    what, addresses, folder = sys.argv[1:4]
    session = kvd.Client(addresses).session()
    if what == "put":
        put(session, folder, *map(int, sys.argv[4:7]))
    else:
        check(session, folder)


main()
