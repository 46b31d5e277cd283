#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# kvd is frozen, and killed and started again, under eight clients of kvfront that store, read and
# count in pipelines: no value is read that was not stored there, no count goes up twice, each
# answer comes in time, all connections stay; and kvfront has the memory, the descriptors and the
# threads that it had.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
. "$KVD_SOURCE/tests/lib/front.sh"

start_kvd --memory 128M
start_front -t 2 --timeout 2 --metrics 127.0.0.1:0
port=$(sed -nE 's|.*metrics at http://[^ ]*:([0-9]+)/metrics.*|\1|p' "$front_log")
cat >"$tmp/storm.py" <<'END'
"""Eight clients; asks on standard output for what is to happen to kvd, and is told when it has."""
import os, re, socket, sys, threading, time, urllib.request
path, pid, port, rounds, bound_mib = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
LATE_S, PATIENCE_S = 20, 120
stop, kills, wrong = False, 0, []


class Client(threading.Thread):
    def __init__(self, name):
        super().__init__()
        self.name_, self.turn = name, 0
        self.rounds = self.errors = self.unknown = 0
        self.lives = {b"v": 0, b"n": 0}
        self.stored, self.perhaps = None, set()
        self.counted, self.counted_perhaps = 0, 0
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(path)
        self.sock.settimeout(LATE_S)
        self.stream = self.sock.makefile("rb")

    def value(self, turn):
        return (b"%s-%d." % (self.name_, turn)) * (10, 1000, 9000)[turn % 3]

    def line(self):
        line = self.stream.readline()
        assert line.endswith(b"\r\n"), "it closed: %r" % line
        return line[:-2]

    def failed(self, line):
        """Whether it is an error; of a change: and nobody knows whether it was made."""
        if not line.startswith(b"SERVER_ERROR "):
            return None
        self.errors += 1
        return "perhaps" if b"may or may not" in line else "not"

    def missing(self, what):
        """It is gone: with a kvd that was killed since."""
        assert self.lives[what] < kills, "%r is lost" % what
        self.lives[what] = kills

    def take_set(self):
        line = self.line()
        how = self.failed(line)
        if how == "perhaps":
            self.perhaps.add(self.turn)
            self.unknown += 1
        elif not how:
            assert line == b"STORED", line
            self.stored = self.turn

    def take_get(self):
        line = self.line()
        if self.failed(line):
            return
        if line == b"END":
            if self.stored is not None:
                self.missing(b"v")
            self.stored = None
            return
        word, key, flags, size = line.split()
        assert (word, key, flags) == (b"VALUE", b"v" + self.name_, b"7"), line
        value = self.stream.read(int(size) + 2)[:-2]
        assert self.line() == b"END"
        turn = int(value[len(self.name_) + 1 : value.index(b".")])
        assert value == self.value(turn), "a mixed value"
        assert turn == self.stored or turn in self.perhaps, "turn %d, and not %s" % (turn, self.stored)

    def take_count(self):
        line = self.line()
        how = self.failed(line)
        if how == "perhaps":
            self.counted_perhaps += 1
            self.unknown += 1
        elif line == b"NOT_FOUND":
            if self.counted:
                self.missing(b"n")
            self.counted = 0
            self.sock.sendall(b"add n%s 0 0 1\r\n0\r\n" % self.name_)
            line = self.line()
            assert self.failed(line) or line in (b"STORED", b"NOT_STORED"), line
        elif not how:
            self.counted += 1
            most = self.counted + self.counted_perhaps
            assert self.counted <= int(line) <= most, "%s of %d to %d" % (line, self.counted, most)

    def one_round(self):
        errors, begun = self.errors, time.monotonic()
        self.turn += 1
        value = self.value(self.turn)
        self.sock.sendall(b"set v%s 7 0 %d\r\n%s\r\nget v%s\r\nincr n%s 1\r\n"
                          % (self.name_, len(value), value, self.name_, self.name_))
        self.take_set()
        self.take_get()
        self.take_count()
        assert time.monotonic() - begun < LATE_S, "late"
        if self.errors == errors:
            self.rounds += 1
        else:
            time.sleep(0.02)

    def run(self):
        try:
            while not stop:
                self.one_round()
        except Exception as error:  # pylint: disable=broad-except
            wrong.append("%s: %s: %s" % (self.name_.decode(), type(error).__name__, error))


def until(what, done):
    end = time.monotonic() + PATIENCE_S
    while not done():
        if wrong or time.monotonic() > end:
            sys.exit("%s: %s" % (what, wrong or "it does not come to that"))
        time.sleep(0.02)


def have_more(of, n):
    before = [getattr(c, of) for c in clients]
    return lambda: all(getattr(c, of) >= b + n for c, b in zip(clients, before))


def ask(word):
    print(word, flush=True)
    answer = sys.stdin.readline()
    assert answer == word + "\n", answer


def holds():
    """Of kvfront: memory in KiB, descriptors, threads, bytes of values on their way."""
    status = open("/proc/%d/status" % pid).read()
    page = urllib.request.urlopen("http://127.0.0.1:%s/metrics" % port, timeout=60).read().decode()
    return (int(re.search(r"VmRSS:\s*(\d+)", status)[1]), len(os.listdir("/proc/%d/fd" % pid)),
            int(re.search(r"Threads:\s*(\d+)", status)[1]),
            int(float(re.search(r"^kvfront_buffers_bytes (\S+)", page, re.M)[1])))


clients = [Client(b"%c" % c) for c in b"abcdefgh"]
for client in clients:
    client.start()
until("before all", have_more("rounds", 20))
rss, descriptors, threads, _ = holds()
for turn in range(rounds):
    ask("freeze")
    until("frozen", have_more("errors", 1))
    ask("thaw")
    until("thawed", have_more("rounds", 5))
    kills += 1
    ask("kill")
    until("killed", have_more("errors", 1))
    ask("restart")
    until("restarted", have_more("rounds", 5))
stop = True
for client in clients:
    client.join()
assert not wrong, wrong
until("values on their way", lambda: holds()[3] == 0)
until("descriptors and threads: %d and %d before" % (descriptors, threads),
      lambda: holds()[1] <= descriptors and holds()[2] <= threads)
more = holds()[0] - rss
assert more < bound_mib << 10, "%d KiB more than before" % more
unknown = sum(c.unknown for c in clients)
assert unknown, "it proves nothing: nothing was under way"
print("# %d rounds, %d errors, %d of them nobody knows of; %d KiB more" %
      (sum(c.rounds for c in clients), sum(c.errors for c in clients), unknown, more), file=sys.stderr)
END
bound_mib=16
! is_sanitized || bound_mib=100000
mkfifo "$tmp/ask" "$tmp/told"
storm() {
	exec python3 "$tmp/storm.py" "$FRONT_SOCKET" "$FRONT_PID" "$port" "$(scaled 5 1)" $bound_mib \
		<"$tmp/told" >"$tmp/ask" 2>"$tmp/storm.log"
}
start storm
storm_pid=$pid
exec 5>"$tmp/told" 6<"$tmp/ask"

again() {
	start "$KVD_BUILD/kvd" --listen "$address" --memory 128M \
		${KVD_TEST_DEVICE:+--device "$KVD_TEST_DEVICE"} $([ $soft = 1 ] || echo --insecure) \
		2>"$tmp/kvd.again.$count.log" 5>&- 6<&-
	KVD_PID=$pid kvd_log=$tmp/kvd.again.$count.log
}
address=$KVD_ADDR count=0
while IFS= read -r -t $((3 * patience_s)) -u 6 word; do
	case $word in
	freeze) stop_process "$KVD_PID" ;;
	thaw) kill -CONT "$KVD_PID" ;;
	kill) kill_kvd; count=$((count + 1)) ;;
	restart) again ;;
	*) fail "it asks for $word" ;;
	esac
	printf '%s\n' "$word" >&5
done
exec 5>&- 6<&-
wait_exit "$storm_pid"
[ "$status" = 0 ] || { cat "$tmp/storm.log" "$front_log"; fail "storm.py ended with $status"; }
say "$(cat "$tmp/storm.log")"
reached kills "$count" 1
stop_front
stop_kvd
