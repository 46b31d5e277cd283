#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# kvcli doctor says of a kvfront: what listens, its version, whether it reaches its kvd; of what
# is none, or says rubbish, what it is, in plain text.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
. "$KVD_SOURCE/tests/lib/front.sh"

version=$("$KVD_BUILD/kvcli" --version | sed -E 's/[^0-9]*([0-9][^ ]*).*/\1/;q')
# front_is WHERE MARK TEXT: its line, exactly.
front_is() {
	"$KVD_BUILD/kvcli" doctor --front "$1" >"$tmp/out" 2>"$tmp/err" || [ $? = 1 ] || fail "$(cat "$tmp/err")"
	[ "$(grep -F ' kvfront ' "$tmp/out")" = "$(printf '%-5s %-16s %s' "$2" kvfront "$1: $3")" ] ||
		fail "of $1: $(grep -F kvfront "$tmp/out")"
}
front_is "$tmp/none" FIX "no kvfront: No such file or directory: start it, or say where it is"
front_is nothing FIX "no path of a socket, and not HOST:PORT"
expect 2 kvcli doctor --front ''
start_kvd --memory 16M
start_front -t 1 --timeout 1
front_is "$FRONT_SOCKET" ok "version $version, it reaches its kvd"
front_is "127.0.0.1:$FRONT_PORT" ok "version $version, it reaches its kvd"
"$KVD_BUILD/kvcli" doctor --json --front "$FRONT_SOCKET" | grep -qxF \
	"{\"mark\":\"ok\",\"what\":\"kvfront\",\"text\":\"$FRONT_SOCKET: version $version, it reaches its kvd\"}" ||
	fail "JSON of a kvfront"
kill -STOP "$FRONT_PID"
front_is "$FRONT_SOCKET" FIX "it takes connections, but does not answer: restart it"
kill -CONT "$FRONT_PID"
stop_kvd
front_is "$FRONT_SOCKET" FIX "version $version; it does not reach its kvd: its log says why, and kvcli ping whether kvd answers"
expect 1 kvcli doctor --front "$FRONT_SOCKET"
stop_front
start_kvd --memory 16M
printf 'ada:secret\n' >"$tmp/words"
chmod 600 "$tmp/words"
start_front -t 1 -Y "$tmp/words"
front_is "$FRONT_SOCKET" note "it wants a name and a password first, so it is not known how it is"
stop_front
stop_kvd

# What says other things, of any kind: a version that is not this one, another's server, rubbish.
cat >"$tmp/other.py" <<'END'
"""Answers a connection with the file, and waits."""
import socket, sys
sock = socket.socket(socket.AF_UNIX)
sock.bind(sys.argv[1])
sock.listen()
while True:
    conn = sock.accept()[0]
    conn.recv(100)
    conn.sendall(open(sys.argv[2], "rb").read())
    conn.shutdown(socket.SHUT_WR)
END
start python3 "$tmp/other.py" "$tmp/other.sock" "$tmp/answer"
wait_for [ -S "$tmp/other.sock" ] || fail "the other does not listen"
other_is() { # ANSWER MARK TEXT
	printf '%b' "$1" >"$tmp/answer"
	front_is "$tmp/other.sock" "$2" "$3"
}
other_is 'VERSION 1.6.18-kvfront-0.0.9\r\nSTAT kvd_reachable 1\r\nEND\r\n' note \
	"version 0.0.9, it reaches its kvd; kvcli is version $version: restart kvfront if it was updated"
other_is 'VERSION 1.6.18\r\nSTAT pid 1\r\nEND\r\n' note "it is no kvfront, but a memcached 1.6.18"
other_is '220 mail\r\n' note "it is no kvfront"
other_is 'V\033[31mERROR' note "it is no kvfront"
other_is '' FIX "it takes connections, but does not answer: restart it"
other_is 'VERSION' FIX "it takes connections, but does not answer: restart it"
