#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# What kvfront says when something is full: its own memory for values, kvd's memory. It goes on
# afterwards.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
. "$KVD_SOURCE/tests/lib/front.sh"

# Values over 1 MiB are on the heap, of which there is too little; the old one is gone.
start_kvd --memory 64M
start_front -t 1 -I 8m --buffers 2m
head -c 3000000 /dev/zero | expect 0 kvcli put native -
talk_lines <<'END'
> set large 0 0 1\r\nx\r\n
< STORED\r\n
> set large 0 0 3000000\r\n{x*3000000}\r\nget large\r\n
< SERVER_ERROR out of memory storing object\r\nEND\r\n
> add large 0 0 3000000\r\n{x*3000000}\r\n
< SERVER_ERROR out of memory storing object\r\n
> get native\r\n
< SERVER_ERROR out of memory writing get response\r\n
> set large 0 0 1500000\r\n{x*1500000}\r\nget large\r\n
< STORED\r\nVALUE large 0 1500000\r\n{x*1500000}\r\nEND\r\n
END

talk_lines <<'END'
> flush_all\r\nget large\r\n
< OK\r\nEND\r\n
END
stop_front
stop_kvd

# kvd is full, and evicts nothing: nothing old is lost; what is deleted makes room.
start_kvd --memory 16M
start_front -t 1
python3 - "$FRONT_SOCKET" <<'END' || fail "kvd is full"
import socket, sys
sock = socket.socket(socket.AF_UNIX)
sock.connect(sys.argv[1])
sock.settimeout(60)
stream = sock.makefile("rb")
value, stored = b"x" * 500000, 0
while True:
    sock.sendall(b"set key%d 0 0 500000\r\n%s\r\n" % (stored, value))
    line = stream.readline()
    if line != b"STORED\r\n":
        break
    stored += 1
    assert stored < 100, "it is never full"
assert line == b"SERVER_ERROR out of memory storing object\r\n", line
for i in range(stored):
    sock.sendall(b"get key%d\r\n" % i)
    assert stream.readline() == b"VALUE key%d 0 500000\r\n" % i
    assert stream.read(500007) == value + b"\r\nEND\r\n"
assert stored > 10, stored
sock.sendall(b"delete key0\r\nset key0 0 0 400000\r\n%s\r\n" % value[:400000])
assert stream.readline() == b"DELETED\r\n" and stream.readline() == b"STORED\r\n"
END
stop_front
stop_kvd
