#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# kvd as a service: the example of a configuration has every option and is right; the
# service manager is told; the unit has a good mark, and forbids nothing that kvd does.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"

# ------------------------------------------------------------- configuration
example=$KVD_SOURCE/doc/kvd.conf.example
for option in $(kvd --help | grep -Eo -- '(^|[ ,])--[a-z][a-z-]+' | grep -Eo -- '[a-z][a-z-]+'); do
	case $option in help | version | config | check-config | check) continue ;; esac
	[ "$(grep -c "^# $option = " "$example")" = 1 ] || fail "kvd.conf.example: $option"
done
expect 0 kvd --check-config --config "$example"
prints "kvd: $example: the configuration is right
"
# All of it in force, but what wants files of root's.
sed -E 's/^# ([a-z-]+ = )/\1/; /^(users|user|namespace|device|data-dir|durability|durability-lag) =/d' "$example" >"$tmp/all.conf"
[ "$(grep -vc '^#\|^$' "$tmp/all.conf")" -ge 10 ] || fail "nothing is in force"
expect 0 kvd --check-config --config "$tmp/all.conf"

expect 0 kvd --check-config
expect 2 kvd --check-config --config "$tmp/none"; says "can't read $tmp/none"
printf 'memory = 1G\n\nworkers = many\n' >"$tmp/bad.conf"
expect 2 kvd --check-config --config "$tmp/bad.conf"; says "bad.conf:3: workers: 'many'"
printf 'listen = :::1\n' >"$tmp/bad.conf"
expect 1 kvd --check-config --config "$tmp/bad.conf"; says "--listen"
expect 1 kvd --check-config --metrics 127.0.0.1:x; says "--metrics: '127.0.0.1:x'"
expect 1 kvd --check-config --users "$tmp/none"; says "$tmp/none"
expect 1 kvd --check-config --users "$tmp/none" --insecure; says "exclude each other"
member=(--cluster 127.0.0.1:1/test --cluster-key "$tmp/none" --data-dir "$tmp/none")
expect 2 kvd --check-config "${member[@]}"; says "give --cluster-listen ADDR:PORT"
expect 2 kvd --check-config "${member[@]}" --cluster-listen 127.0.0.1:0; says "give --cluster-listen ADDR:PORT"
expect 2 kvd --check-config "${member[@]}" --cluster-listen 127.0.0.1:x; says "127.0.0.1:x"
expect 0 kvd --check-config "${member[@]}" --cluster-listen 127.0.0.1:7480

# -------------------------------------------------------------- notification
python=/usr/bin/python3
if [ -x $python ]; then
	# Datagrams, one a line; the first line says that it listens.
	listener='import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1].replace("@", "\0", 1))
print("listening", flush=True)
while True:
    print(s.recv(4096).decode().replace("\n", " "), flush=True)'
	for socket in "$tmp/notify" "@kvd-test-$$"; do
		start $python -c "$listener" "$socket" >"$tmp/told"
		listener_pid=$pid
		listens() { grep -q listening "$tmp/told"; }
		wait_for listens || fail "no listener"
		NOTIFY_SOCKET=$socket start_kvd
		told() { grep -q "$1" "$tmp/told"; }
		wait_for told "READY=1 STATUS=Serving $KVD_ADDR MAINPID=$KVD_PID" || fail "not told READY"
		stop_kvd
		wait_for told "STOPPING=1" || fail "not told STOPPING"
		kill "$listener_pid"
		wait_exit "$listener_pid"
	done
	NOTIFY_SOCKET=relative start_kvd
	grep -q "NOTIFY_SOCKET=relative: it is no path of a socket" "$kvd_log" || fail "a wrong socket is not told"
	stop_kvd
fi

# ---------------------------------------------------------------------- unit
command -v systemd-analyze >/dev/null || skip "no systemd-analyze, to look at the unit"
unit=$tmp/kvd.service
sed "s|@sbindir@/kvd|$KVD_BUILD/kvd|; s|@sysconfdir@|/etc|" "$KVD_SOURCE/systemd/kvd.service.in" |
	grep -v '^Documentation=' >"$unit" # of pages that need not be installed
systemd-analyze verify "$unit" 2>"$tmp/err" || { cat "$tmp/err"; fail "systemd-analyze verify"; }
! grep -q "$unit\|kvd.service" "$tmp/err" || { cat "$tmp/err"; fail "systemd-analyze verify"; }
systemd-analyze security --offline=true --threshold=15 "$unit" >"$tmp/out" 2>&1 ||
	{ cat "$tmp/out"; fail "the unit's mark is worse than 1.5"; }
grep 'Overall exposure' "$tmp/out"

# The system calls that kvd makes under some load are among those that it allows.
command -v strace >/dev/null || skip "no strace, to compare system calls with the unit's"
filter_of() { # a group's calls, with the groups in it
	case $1 in @*) ;; *) echo "$1"; return ;; esac
	systemd-analyze syscall-filter "$1" | grep -v '#' | awk 'NR > 1 { print $1 }' | while read -r name; do
		filter_of "$name"
	done
}
sed -n 's/^SystemCallFilter=//p' "$unit" | while read -r line; do
	case $line in
	~*) for name in ${line#\~}; do filter_of "$name"; done | sort -u >"$tmp/denied" ;;
	*) for name in $line; do filter_of "$name"; done | sort -u >"$tmp/allowed" ;;
	esac
done
[ "$(wc -l <"$tmp/allowed")" -gt 100 ] && [ -s "$tmp/denied" ] || fail "the unit's filter was not read"
cat >"$tmp/traced" <<END
#!/bin/sh
exec strace -f -qq -o "$tmp/trace" "$KVD_BUILD/kvd" "\$@"
END
chmod +x "$tmp/traced"
KVD_REAL=$KVD_BUILD
mkdir "$tmp/bin"
cp "$tmp/traced" "$tmp/bin/kvd"
data=()
"$KVD_REAL/kvd" --version | grep -q 'durability: yes' && data=(--data-dir "$tmp/data")
KVD_BUILD=$tmp/bin start_kvd --metrics 127.0.0.1:0 ${data[@]+"${data[@]}"}
KVD_BUILD=$KVD_REAL
kvcli put key value || fail "put under strace"
head -c 100000 /dev/zero | kvcli put long - || fail "put of a long value under strace"
kvcli lock key -- true || fail "lock under strace"
pkill_child() { # the kvd that strace started
	local child
	child=$(cat "/proc/$KVD_PID/task/$KVD_PID/children")
	kill -TERM ${child:-$KVD_PID}
}
pkill_child
wait_exit "$KVD_PID"
# Of strace's first: execve is systemd's own.
sed -nE 's/^[0-9]+ +([a-z_0-9]+)\(.*/\1/p' "$tmp/trace" | sort -u | grep -v '^execve$' >"$tmp/calls"
[ "$(wc -l <"$tmp/calls")" -gt 20 ] || fail "strace saw nothing"
comm -23 "$tmp/calls" "$tmp/allowed" >"$tmp/forbidden"
comm -12 "$tmp/calls" "$tmp/denied" >>"$tmp/forbidden"
[ ! -s "$tmp/forbidden" ] || { cat "$tmp/forbidden"; fail "the unit forbids system calls that kvd makes"; }
