#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A multi-get of a hundred keys that kvfront knows the places of is one doorbell: a hundred READs
# that are posted together. So is what a client pipelines.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
. "$KVD_SOURCE/tests/lib/front.sh"

start_kvd --memory 64M
start_front -t 1
python3 - "$FRONT_SOCKET" "$(scaled 100 10)" "$patience_s" <<'END_OF_PYTHON' || fail "not one doorbell each"
import socket, sys, time

KEYS = 100
sock = socket.socket(socket.AF_UNIX)
sock.connect(sys.argv[1])
sock.settimeout(60)
stream = sock.makefile("rb")
rounds, patience_s = int(sys.argv[2]), float(sys.argv[3])

def stats():
    sock.sendall(b"stats\r\n")
    figures = dict(line.split()[1:3] for line in iter(stream.readline, b"END\r\n"))
    return int(figures[b"kvd_reads"]), int(figures[b"kvd_doorbells"])

def stats_from(reads):
    """Once as many are told of: the loop tells them twice a second."""
    end = time.monotonic() + patience_s
    while True:
        got = stats()
        if got[0] >= reads:
            return got
        assert time.monotonic() < end, f"{got[0]} READs, not {reads}"
        time.sleep(0.02)

def settled():
    """What is told when nothing is asked for any more."""
    before, same = stats(), 0
    while same < 60:
        time.sleep(0.02)
        now = stats()
        same = same + 1 if now == before else 0
        before = now
    return before

names = [b"key%d" % i for i in range(KEYS)]
sock.sendall(b"".join(b"set %s 0 0 2\r\nxx\r\n" % name for name in names))
for _ in names:
    assert stream.readline() == b"STORED\r\n"
want = b"".join(b"VALUE %s 0 2\r\nxx\r\n" % name for name in names)
for ask, answer in (
    (b"get " + b" ".join(names) + b"\r\n", want + b"END\r\n"),
    (b"".join(b"mg %s v\r\n" % name for name in names), b"VA 2\r\nxx\r\n" * KEYS),
):
    sock.sendall(ask)
    assert stream.read(len(answer)) == answer
    reads, doorbells = settled()
    for _ in range(rounds):
        sock.sendall(ask)
        assert stream.read(len(answer)) == answer
    now = stats_from(reads + KEYS * rounds)
    print(f"{ask[:8]}: {now[0] - reads} READs, {now[1] - doorbells} doorbells, {rounds} rounds")
    assert now == (reads + KEYS * rounds, doorbells + rounds)
END_OF_PYTHON
stop_front
stop_kvd
