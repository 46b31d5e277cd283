#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# kvd is frozen, killed and started again under kvfront: connections stay, requests are
# answered within the time-out, a frozen kvd stops no GET, and no change takes effect twice.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
. "$KVD_SOURCE/tests/lib/front.sh"

start_kvd --memory 64M
start_front -t 2 --timeout 2
cat >"$tmp/away.py" <<'END'
"""One connection all the while: asked by lines on standard input."""
import os, socket, sys, time
sock = socket.socket(socket.AF_UNIX)
sock.connect(sys.argv[1])
sock.settimeout(30)
stream = sock.makefile("rb")
for line in sys.stdin:
    word, _, rest = line.strip().partition(" ")
    begun = time.monotonic()
    if word == "get":
        sock.sendall(b"get %s\r\n" % rest.encode())
        answer = stream.readline().strip()
        if answer.startswith(b"VALUE"):
            answer = stream.readline().strip()
            assert stream.readline() == b"END\r\n"
    else:
        sock.sendall(b"set %s 0 0 1\r\nx\r\n" % rest.encode())
        answer = stream.readline().strip()
    took = time.monotonic() - begun
    print("%s (%s)" % (answer.decode(), "late" if took > 15 else "in time"), flush=True)
END
mkfifo "$tmp/ask" "$tmp/told"
asker() { exec python3 "$tmp/away.py" "$FRONT_SOCKET" <"$tmp/ask" >"$tmp/told"; }
start asker
asker_pid=$pid
exec 5>"$tmp/ask" 6<"$tmp/told"
say_it() {
	printf '%s\n' "$1" >&5
	IFS= read -r -t "$patience_s" -u 6 answer || fail "no answer to: $1"
}
# expects COMMAND PATTERN
expects() {
	say_it "$1"
	# shellcheck disable=SC2254
	case $answer in $2) ;; *) fail "$1: $answer" ;; esac
}
# comes COMMAND ANSWER: in the end.
is_so() { say_it "$1"; [ "$answer" = "$2 (in time)" ]; }
comes() { wait_for is_so "$1" "$2" || fail "$1: $answer, and not $2 in the end"; }

expects "set key" "STORED (in time)"
expects "get key" "x (in time)"

# Frozen: what it was asked to change may have happened; what it holds can be read.
stop_process "$KVD_PID"
expects "set other" "SERVER_ERROR the change may or may not have been made: kvd did not answer (in time)"
[ $soft = 0 ] || expects "get key" "x (in time)"
expects "set other" "SERVER_ERROR *kvd* (in time)"
[ $soft = 0 ] || expects "get key" "x (in time)"
kill -CONT "$KVD_PID"
comes "set other" STORED
comes "get other" x

# Frozen again and again: of each append none is made twice, and none is lost that was told.
python3 - "$FRONT_SOCKET" "$KVD_PID" "$(scaled 6 2)" <<'END' || fail "at most once"
import os, signal, socket, sys, threading, time
path, kvd, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
def talk():
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(path)
    sock.settimeout(60)
    return sock, sock.makefile("rb")
sock, stream = talk()
sock.sendall(b"set log 0 0 0\r\n\r\n")
assert stream.readline() == b"STORED\r\n"
told, unknown, refused, stop = set(), set(), 0, False
def append(name):
    global refused
    sock, stream = talk()
    i = 0
    while not stop:
        token = b"%s%d." % (name, i)
        sock.sendall(b"append log 0 0 %d\r\n%s\r\n" % (len(token), token))
        answer = stream.readline()
        assert answer, "it closed"
        if answer == b"STORED\r\n":
            told.add(token)
        elif b"may or may not" in answer:
            unknown.add(token)
        else:
            assert answer.startswith(b"SERVER_ERROR"), answer
            refused += 1
            time.sleep(0.05)
        i += 1
threads = [threading.Thread(target=append, args=(b"%c" % c,)) for c in b"abcd"]
for thread in threads:
    thread.start()
for _ in range(rounds):
    time.sleep(0.5)
    before = len(unknown)
    os.kill(kvd, signal.SIGSTOP)
    end = time.monotonic() + 30
    while len(unknown) == before and time.monotonic() < end:
        time.sleep(0.02)
    os.kill(kvd, signal.SIGCONT)
    before = len(told)
    while len(told) == before and time.monotonic() < end:
        time.sleep(0.02)
stop = True
for thread in threads:
    thread.join()
sock.sendall(b"get log\r\n")
head = stream.readline().split()
value = stream.read(int(head[3]) + 2)[:-2]
tokens = [token + b"." for token in value.split(b".")[:-1]]
assert len(tokens) == len(set(tokens)), "made twice"
assert told <= set(tokens), "lost: %s" % (told - set(tokens))
assert set(tokens) <= told | unknown, "refused, and made all the same"
assert unknown and told, "it proves nothing"
print("# %d told, %d unknown (%d of them made), %d refused" %
      (len(told), len(unknown), len(set(tokens) & unknown), refused))
END

# Killed: both are refused, with the reason; and it goes on when kvd is back.
address=$KVD_ADDR
kill_kvd
expects "get key" "SERVER_ERROR * (in time)"
expects "set key" "SERVER_ERROR * (in time)"
expects "get key" "SERVER_ERROR * (in time)"
KVD_TEST_ADDR_WAS=$KVD_TEST_ADDR
start "$KVD_BUILD/kvd" --listen "$address" --memory 64M ${KVD_TEST_DEVICE:+--device "$KVD_TEST_DEVICE"} \
	$([ $soft = 1 ] || echo --insecure) 2>"$tmp/kvd.again.log" 5>&- 6<&-
KVD_PID=$pid kvd_log=$tmp/kvd.again.log KVD_TEST_ADDR=$KVD_TEST_ADDR_WAS
comes "set key" STORED
comes "get key" x
exec 5>&- 6<&-
wait_exit "$asker_pid"
[ "$status" = 0 ] || fail "the connection did not stay"

# Nothing is left of it all.
talk_lines <<'END'
> get key\r\n
< VALUE key 0 1\r\nx\r\nEND\r\n
END
stop_front
stop_kvd

# A kvd that is not there yet is waited for.
start_front --timeout 1 -t 1
talk_lines <<'END'
> set key 0 0 1\r\nx\r\n
~ SERVER_ERROR .*
END
stop_front
