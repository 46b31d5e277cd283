#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# kvfront answers the text protocol as memcached does, byte for byte: on a Unix socket and on
# TCP, with one thread and with several; and where memcached is here, the script is right of
# memcached itself.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
. "$KVD_SOURCE/tests/lib/front.sh"

start_kvd --memory 64M
start_front -t 1
talk text
stop_front
[ ! -e "$FRONT_SOCKET" ] || fail "the socket's name stays"
start_front -t 3
talk text text
TALK_TO=127.0.0.1:$FRONT_PORT talk text

# What it stores native clients see, and the other way round.
talk_lines <<'END'
> set shared 0 0 5\r\nhello\r\n
< STORED\r\n
END
expect 0 kvcli get shared
prints hello
kvcli put native world || fail "put"
talk_lines <<'END'
> get native shared\r\n
< VALUE native 0 5\r\nworld\r\nVALUE shared 0 5\r\nhello\r\nEND\r\n
END

# Pipelined: a thousand sets and gets at once, answered in order.
sets=$(scaled 1000 100)
python3 - "$FRONT_SOCKET" "$sets" <<'END' || fail "pipelined"
import socket, sys, threading
sock = socket.socket(socket.AF_UNIX)
sock.connect(sys.argv[1])
sock.settimeout(60)
n = int(sys.argv[2])
ask, want = b"", b""
for i in range(n):
    value = b"%d" % i * (1 + i % 700)
    key = b"key%d" % (i % 7)
    ask += b"set %s 0 0 %d\r\n%s\r\nget %s\r\ndelete %s\r\nget %s none\r\n" % (key, len(value), value, key, key, key)
    want += b"STORED\r\nVALUE %s 0 %d\r\n%s\r\nEND\r\nDELETED\r\nEND\r\n" % (key, len(value), value)
threading.Thread(target=sock.sendall, args=(ask,), daemon=True).start()
got = b""
while len(got) < len(want):
    more = sock.recv(1 << 16)
    assert more, "it closed"
    got += more
assert got == want, "not in order"
END

# A client that asks for more than its socket holds, and reads only then.
python3 - "$FRONT_SOCKET" <<'END' || fail "read late"
import array, fcntl, socket, sys, termios, threading, time
sock = socket.socket(socket.AF_UNIX)
sock.connect(sys.argv[1])
sock.settimeout(60)
sock.sendall(b"set key 0 0 1900\r\n" + b"x" * 1900 + b"\r\n")
assert sock.recv(100) == b"STORED\r\n"
one, n = b"VALUE key 0 1900\r\n" + b"x" * 1900 + b"\r\nEND\r\n", 3000
threading.Thread(target=sock.sendall, args=(b"get key\r\n" * n,), daemon=True).start()
waiting, same, end = array.array("i", [0]), 0, time.monotonic() + 60
while same < 10: # until nothing more comes into the socket
    before = waiting[0]
    time.sleep(0.02)
    fcntl.ioctl(sock, termios.FIONREAD, waiting)
    same = same + 1 if waiting[0] == before and before else 0
    assert time.monotonic() < end
assert waiting[0] < len(one) * n, "it proves nothing"
got = b""
while len(got) < len(one) * n:
    more = sock.recv(1 << 16)
    assert more, "it closed"
    got += more
assert got == one * n
END

# Large values, of each kind of buffer.
python3 - "$FRONT_SOCKET" <<'END' || fail "large values"
import random, socket, sys
sock = socket.socket(socket.AF_UNIX)
sock.connect(sys.argv[1])
sock.settimeout(60)
stream = sock.makefile("rwb", buffering=0)
def ask(data):
    sock.sendall(data)
for size in 0, 1, 511, 2048, 2049, 4096, 8192, 8193, 16383, 16384, 16385, 65536, 1 << 20 - 1, 1048500:
    value = random.Random(size).randbytes(size)
    ask(b"set large 0 0 %d\r\n%s\r\n" % (size, value))
    assert stream.readline() == b"STORED\r\n", size
    ask(b"get large\r\n")
    want = b"VALUE large 0 %d\r\n%s\r\nEND\r\n" % (size, value)
    got = b""
    while len(got) < len(want):
        got += sock.recv(len(want) - len(got))
    assert got == want, size
too_large = bytes(1048576)
ask(b"add large 0 0 1048576\r\n" + too_large + b"\r\n")
assert stream.readline() == b"SERVER_ERROR object too large for cache\r\n"
ask(b"append large 0 0 1048576\r\n" + too_large + b"\r\nadd large 0 0 0\r\n\r\n")
assert stream.readline() == b"SERVER_ERROR object too large for cache\r\n"
assert stream.readline() == b"NOT_STORED\r\n"
ask(b"set large 0 0 1048576\r\n" + too_large + b"\r\nget large\r\n")
assert stream.readline() == b"SERVER_ERROR object too large for cache\r\n"
assert stream.readline() == b"END\r\n"
END
stop_front
stop_kvd

against_memcached text
