#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The log: each connection's end and each refusal with peer and reason, levels, SIGHUP,
# syslog and the journal.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
logged() { grep -Eq "$1" "$kvd_log"; }

printf 'log-level = info\n' >"$tmp/conf"
start_kvd --connections 1 --config "$tmp/conf"
open_batch
ask "put key value"
expect 3 kvcli get key; says "--connections"
wait_for logged 'warning: refused [^ ]+:[0-9]+: .*--connections' || fail "a refusal without peer and reason"
close_batch 0
wait_for logged 'info: connection [0-9]+ from [^ ]+:[0-9]+ closed: disconnected by the peer' ||
	fail "an end without peer and reason"

# A level by SIGHUP; a broken file changes nothing.
! logged debug || fail "debug before it was asked for"
printf 'log-level = debug\n' >"$tmp/conf"
kill -HUP "$KVD_PID"
wait_for logged "info: the log's level is debug now" || fail "SIGHUP"
# The only connection is free a moment after its last user left.
gets() { kvcli get key >"$tmp/out" 2>"$tmp/err"; }
wait_for gets || fail "get"
wait_for logged 'debug: connection [0-9]+ from' || fail "no debug lines"
printf 'log-level = louder\n' >"$tmp/conf"
kill -HUP "$KVD_PID"
wait_for logged "conf:1: log-level: 'louder' is none of .*the log's level stays debug" || fail "a broken file"
printf 'log-level = error\n' >"$tmp/conf"
kill -HUP "$KVD_PID"
wait_for logged "the log's level is error now" || fail "SIGHUP to error"
lines=$(wc -l <"$kvd_log")
wait_for gets || fail "get"
stop_kvd
[ "$(wc -l <"$kvd_log")" = "$lines" ] || { tail "$kvd_log"; fail "lines below the level"; }

# Peers can't fill the log: of each reason some lines, and how many more there were.
# limited PATTERN N: N of them happened, and are told or counted.
limited() {
	local said more
	said=$(grep -Ec "$1" "$kvd_log")
	more=$(sed -n "s/^kvd: ${1%%: *}: \([0-9]*\) more like this suppressed in the last [0-9]* s: .*/\1/p" "$kvd_log" |
		awk '{ n += $1 } END { print n + 0 }')
	say "$said of $2 were said, $more suppressed in $((SECONDS + 1)) s"
	[ "$said" -ge 60 ] && [ "$said" -le $(((60 + SECONDS + 1) * ${3:-1})) ] || fail "$said lines: $1"
	[ $((said + more)) = "$2" ] || fail "$said lines and $more more are not $2"
}
attack=$KVD_BUILD/tests/attack/attack
start_kvd --handshakes 0
SECONDS=0
timeout 300 "$attack" "$KVD_ADDR" guess 400 1 4 >"$tmp/out" || fail "guess"
stop_kvd
limited 'info: connection [0-9]+ from [^ ]+:[0-9]+ closed: ' 400 4
start_kvd --handshakes 0 --connections 1
open_batch
ask "put key value"
SECONDS=0
timeout 300 "$attack" "$KVD_ADDR" guess 300 1 4 >"$tmp/out" || fail "guess"
# Told within a while, also if nothing more is refused.
wait_for logged 'warning: [0-9]+ more like this suppressed in the last [0-9]+ s: the limit of connections' ||
	fail "what was suppressed is not told"
close_batch 0
stop_kvd
limited 'warning: refused [^ ]+:[0-9]+: .*--connections' 300
# With "debug" nothing is left out.
start_kvd --handshakes 0 --log-level debug
timeout 300 "$attack" "$KVD_ADDR" guess 100 1 4 >"$tmp/out" || fail "guess"
stop_kvd
[ "$(grep -Ec 'info: connection [0-9]+ from [^ ]+ closed: ' "$kvd_log")" = 100 ] || fail "debug leaves lines out"

# Where nobody listens it is an error, not silence.
[ -e /run/systemd/journal/socket ] || {
	expect 1 kvd --listen "$KVD_TEST_ADDR:0" --memory 16M --log-to journal
	says "--log-to journal: nobody listens at /run/systemd/journal/socket"
}
[ -e /dev/log ] || {
	expect 1 kvd --listen "$KVD_TEST_ADDR:0" --memory 16M --log-to syslog
	says "--log-to syslog: nobody listens at /dev/log"
}

# The same sockets, ours, in a file system of its own.
python=/usr/bin/python3
[ -x $python ] || skip "no $python, to listen as syslog and the journal"
[ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null || skip "no mount namespaces for this user"
cat >"$tmp/listen.py" <<'END'
import os, socket, sys
path = sys.argv[1]
os.makedirs(os.path.dirname(path), exist_ok=True)
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(path)
print("listening", flush=True)
while True:
    print(s.recv(65536).decode().replace("\n", "|"), flush=True)
END
cat >"$tmp/inside" <<END
mount -t tmpfs none /run || exit 77
mkdir -p "$tmp/dev"
mount --rbind /dev "$tmp/dev" && mount -t tmpfs none /dev || exit 77
for entry in "$tmp"/dev/*; do
	name=/dev/\${entry##*/}
	[ "\$name" != /dev/log ] || continue
	if [ -L "\$entry" ]; then cp -P "\$entry" "\$name"; continue; fi
	if [ -d "\$entry" ]; then mkdir "\$name"; else : >"\$name"; fi
	mount --rbind "\$entry" "\$name"
done
$python "$tmp/listen.py" "\$1" >"$tmp/heard" &
listener=\$!
until grep -q listening "$tmp/heard"; do kill -0 \$listener || exit 1; done
"$KVD_BUILD/kvd" --listen "$KVD_TEST_ADDR:0" --memory 16M --ready-file "$tmp/up" --log-to "\$2" 2>"$tmp/err" &
kvd=\$!
until [ -s "$tmp/up" ]; do kill -0 \$kvd || exit 1; done
kill -TERM \$kvd
wait \$kvd
rc=\$?
until grep -q stopped "$tmp/heard"; do kill -0 \$listener || exit 1; done
kill \$listener
exit \$rc
END
hear() {
	rm -f "$tmp/heard" "$tmp/up"
	: >"$tmp/heard"
	status=0
	timeout $patience_s unshare --mount bash "$tmp/inside" "$1" "$2" >"$tmp/out" 2>&1 || status=$?
	[ $status != 77 ] || skip "no mounts for this user"
	[ $status = 0 ] || { cat "$tmp/out" "$tmp/heard" "$tmp/err"; fail "--log-to $2: status $status"; }
	[ ! -s "$tmp/err" ] || { cat "$tmp/err"; fail "--log-to $2: lines on standard error too"; }
}
hear /run/systemd/journal/socket journal
grep -Eq '^PRIORITY=6\|SYSLOG_IDENTIFIER=kvd\|SYSLOG_PID=[0-9]+\|MESSAGE=serving .*\|$' "$tmp/heard" || { cat "$tmp/heard"; fail "journal"; }
hear /dev/log syslog
grep -Eq '^<30>[A-Z][a-z]{2} [ 0-9]{2} [0-9:]{8} kvd\[[0-9]+\]: serving ' "$tmp/heard" || { cat "$tmp/heard"; fail "syslog"; }
