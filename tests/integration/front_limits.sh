#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# kvfront's limits: connections, idle ones, those that take no answers, many at once; options
# that are refused; passwords, shutdown, flush_all, figures.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
. "$KVD_SOURCE/tests/lib/front.sh"
front() { "$KVD_BUILD/kvfront" "$@"; }

# What is refused is refused with a word.
refused() { # WORDS ARG...
	local words=$1
	shift
	expect 2 front "$@"
	says "$words"
}
refused "the memory is that of kvd --memory" -m 64
refused "there is no UDP" -U 11211
refused "there is no TLS; use the Unix socket" -Z
refused "text and the meta protocol" -B binary
refused "takes options only" word
refused "no Unix socket" -p 0
refused "in octal" -s "$tmp/s" -a 888
refused "is not a size from" -I 100
expect 0 front --version

start_kvd --memory 128M
: >"$tmp/words"
expect 1 front -S "$KVD_ADDR" -s "$tmp/s" -Y "$tmp/words"
says "others may read"
chmod 600 "$tmp/words"
expect 1 front -S "$KVD_ADDR" -s "$tmp/s" -Y "$tmp/words"
says "no line NAME:PASSWORD"
echo nothing >"$tmp/words"
expect 1 front -S "$KVD_ADDR" -s "$tmp/s" -Y "$tmp/words"
says "a line is NAME:PASSWORD"

# Passwords.
printf 'ada:secret\nbob:other word\n' >"$tmp/words"
start_front -t 1 -Y "$tmp/words"
expect 1 front -S "$KVD_ADDR" -s "$FRONT_SOCKET"
says "somebody listens at"
talk_lines <<'END'
> get a\r\n
< CLIENT_ERROR unauthenticated\r\n
> mg a v\r\n
< CLIENT_ERROR unauthenticated\r\n
> version\r\n
< CLIENT_ERROR unauthenticated\r\n
> set auth 0 0 9\r\nada wrong\r\n
< CLIENT_ERROR authentication failure\r\n
> set auth 0 0 10\r\nada secret\r\n
< STORED\r\n
> get auth\r\n
< END\r\n
new
> set auth 0 0 2000\r\n{x*2000}\r\n
< CLIENT_ERROR authentication failure\r\n
> set x 0 0 14\r\nbob other word\r\n
< STORED\r\n
> set a 0 0 1\r\nx\r\nget a\r\n
< STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n
END
stop_front

# Without flush_all; and ended by a client.
start_front -t 1 -F -A
talk_lines <<'END'
> flush_all\r\n
< CLIENT_ERROR flush_all not allowed\r\n
> flush_all x\r\n
< CLIENT_ERROR flush_all not allowed\r\n
> flush_all noreply\r\nmn\r\n
< MN\r\n
> shutdown now\r\n
< CLIENT_ERROR invalid shutdown mode\r\n
> shutdown graceful now\r\n
< CLIENT_ERROR invalid shutdown mode\r\n
> shutdown\r\n
closed
END
wait_exit "$FRONT_PID"
[ "$status" = 0 ] || fail "shutdown: $status"
start_front -t 1 -A
talk_lines <<'END'
> shutdown graceful\r\n
closed
END
wait_exit "$FRONT_PID"
[ "$status" = 0 ] || fail "shutdown graceful: $status"

# Figures as clients ask for them; commands about slabs and what memcached moves are unknown.
start_front -t 1 -c 30
talk_lines <<'END'
> stats items\r\n
< END\r\n
> stats slabs\r\n
< STAT active_slabs 0\r\nSTAT total_malloced 0\r\nEND\r\n
> stats settings\r\n
< STAT maxbytes 0\r\nSTAT maxconns 30\r\n
~ STAT tcpport -?\d+
< STAT udpport 0\r\nSTAT inter 127.0.0.1\r\nSTAT verbosity 0\r\n
~ STAT domain_socket .*front.*
< STAT umask 700\r\nSTAT num_threads 1\r\nSTAT cas_enabled yes\r\nSTAT tcp_backlog 1024\r\n
< STAT auth_enabled_ascii no\r\nSTAT item_size_max 1048576\r\nSTAT maxconns_fast yes\r\n
< STAT flush_enabled yes\r\nSTAT shutdown_command no\r\nSTAT idle_timeout 0\r\n
< STAT binding_protocol ascii\r\nEND\r\n
> slabs reassign 1 2\r\n
< ERROR\r\n
> lru mode flat\r\n
< ERROR\r\n
> lru_crawler enable\r\n
< ERROR\r\n
> watch\r\n
< ERROR\r\n
> cache_memlimit 100\r\n
< ERROR\r\n
END
# Counted; and from nothing again.
python3 - "$FRONT_SOCKET" <<'END' || fail "figures"
import socket, sys
sock = socket.socket(socket.AF_UNIX)
sock.connect(sys.argv[1])
sock.settimeout(60)
stream = sock.makefile("rb")
def ask(line):
    sock.sendall(line)
    return stream.readline()
def stats():
    sock.sendall(b"stats\r\n")
    return dict(line.split()[1:3] for line in iter(stream.readline, b"END\r\n"))
assert ask(b"stats reset\r\n") == b"RESET\r\n"
sock.sendall(b"set a 0 0 1\r\n1\r\nget a none\r\nincr a 1\r\nincr none 1\r\ndecr a 1\r\ndecr none 1\r\n"
             b"delete none\r\ntouch a 0\r\ntouch none 0\r\ncas a 0 0 1 1\r\nx\r\ncas none 0 0 1 1\r\nx\r\n"
             b"delete a\r\nmg none\r\n")
assert [stream.readline() for _ in range(15)][-1] == b"EN\r\n"
figures = stats()
want = dict(cmd_set=3, get_hits=1, incr_hits=1, incr_misses=1, decr_hits=1, decr_misses=1, delete_hits=1,
            delete_misses=1, cmd_touch=2, touch_hits=1, touch_misses=1, cas_badval=1, cas_misses=1,
            cas_hits=0, cmd_get=3, get_misses=2, cmd_meta=1, curr_connections=1)
got = {name: int(figures[name.encode()]) for name in want}
assert got == want, [(name, got[name], want[name]) for name in want if got[name] != want[name]]
assert ask(b"stats reset\r\n") == b"RESET\r\n"
figures = stats()
left = [name for name in want if name != "curr_connections" and int(figures[name.encode()])]
assert not left, left
END
stop_front

# As many connections as may be, and one more; those that say nothing; figures.
start_front -t 2 -c 3 --idle-timeout 1s --metrics 127.0.0.1:0
python3 - "$FRONT_SOCKET" <<'END' || fail "the limit of connections"
import socket, sys, time
def connect():
    s = socket.socket(socket.AF_UNIX)
    s.connect(sys.argv[1])
    s.settimeout(30)
    return s
all = [connect() for _ in range(3)]
for s in all:
    s.sendall(b"mn\r\n")
    assert s.recv(10) == b"MN\r\n"
one_more = connect()
got = b""
while True:
    more = one_more.recv(100)
    if not more:
        break
    got += more
assert got == b"ERROR Too many open connections\r\n", got
for s in all:
    assert s.recv(10) == b"", "an idle one is not closed"
end = time.monotonic() + 30
while True: # there is room again
    s = connect()
    s.sendall(b"mn\r\n")
    if s.recv(10) == b"MN\r\n":
        break
    assert time.monotonic() < end
s.sendall(b"stats\r\n")
text = b""
while not text.endswith(b"END\r\n"):
    text += s.recv(65536)
stats = dict(line.split(b" ", 2)[1:] for line in text.split(b"\r\n") if line.startswith(b"STAT "))
assert int(stats[b"idle_kicks"]) >= 3 and stats[b"max_connections"] == b"3", stats
assert stats[b"kvd_reachable"] == b"1" and b"curr_items" in stats and b"limit_maxbytes" in stats, stats
END
port=$(sed -nE 's|.*metrics at http://[^ ]*:([0-9]+)/metrics.*|\1|p' "$front_log")
exec 9<>"/dev/tcp/127.0.0.1/$port" || fail "no metrics"
printf 'GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n' >&9
timeout $patience_s cat <&9 | tr -d '\r' | sed '1,/^$/d' >"$tmp/body"
exec 9<&- 9>&-
awk -f "$KVD_SOURCE/tests/lib/prometheus.awk" "$tmp/body" || fail "the format is not Prometheus'"
grep -q '^kvfront_idle_kicks_total [1-9]' "$tmp/body" || fail "no figure of idle connections"
stop_front

# Clients that ask for a lot and take nothing: others are served, memory is bounded, they go.
start_front -t 1 --stall 2s --buffers 128M
bound_mib=160
! is_sanitized || bound_mib=100000
python3 - "$FRONT_SOCKET" "$FRONT_PID" $bound_mib <<'END' || fail "slow readers"
import socket, sys, time
path, pid, bound_mib = sys.argv[1], sys.argv[2], int(sys.argv[3])
def connect():
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    s.settimeout(30)
    return s
def rss():
    for line in open("/proc/%s/status" % pid):
        if line.startswith("VmRSS"):
            return int(line.split()[1])
good = connect()
good.sendall(b"set large 0 0 500000\r\n" + bytes(500000) + b"\r\n")
assert good.recv(100) == b"STORED\r\n"
before = rss()
slow = [connect() for _ in range(40)]
for s in slow:
    s.setblocking(False)
    for _ in range(50):
        try:
            s.send(b"get large\r\n" * 100)
        except BlockingIOError:
            break
end = time.monotonic() + 60
gone, most = 0, 0
while gone < len(slow):
    begun = time.monotonic()
    good.sendall(b"set small 0 0 1\r\nx\r\nget small\r\n")
    want, got = b"STORED\r\nVALUE small 0 1\r\nx\r\nEND\r\n", b""
    while len(got) < len(want):
        got += good.recv(len(want) - len(got))
    assert got == want, got
    good.sendall(b"get large\r\n")
    want, got = b"VALUE large 0 500000\r\n" + bytes(500000) + b"\r\nEND\r\n", b""
    while len(got) < len(want) and not got.startswith(b"SERVER_ERROR"):
        got += good.recv(len(want) - len(got))
    assert got == want, got[:200]
    assert time.monotonic() - begun < 5, "others wait"
    most = max(most, rss())
    good.sendall(b"stats\r\n")
    text = b""
    while not text.endswith(b"END\r\n"):
        text += good.recv(65536)
    gone = int(text.split(b"STAT stalled_kicks ")[1].split(b"\r\n")[0])
    assert time.monotonic() < end, "%d of them are gone" % gone
    time.sleep(0.05)
assert most - before < bound_mib << 10, "%d KiB more" % (most - before)
END
stop_front

# Many at once, on several loops.
start_front -t 3 -c 2000
python3 - "$FRONT_SOCKET" "$(scaled 500 60)" <<'END' || fail "many connections"
import selectors, socket, sys
n = int(sys.argv[2])
all = []
for i in range(n):
    s = socket.socket(socket.AF_UNIX)
    s.connect(sys.argv[1])
    s.settimeout(60)
    all.append(s)
for turn in range(3):
    for i, s in enumerate(all):
        s.sendall(b"set k%d 0 0 5\r\n%05d\r\nget k%d k%d\r\n" % (i, i + turn, i, i))
    for i, s in enumerate(all):
        item = b"VALUE k%d 0 5\r\n%05d\r\n" % (i, i + turn)
        want, got = b"STORED\r\n" + item * 2 + b"END\r\n", b""
        while len(got) < len(want):
            more = s.recv(len(want) - len(got))
            assert more, "it closed"
            got += more
        assert got == want, (got, want)
END
stop_front
stop_kvd
