# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
#
# For tests of kvfront, behind kit.sh: starts it, and plays conversations with it.

[ -x "$KVD_BUILD/kvfront" ] || skip "kvfront was built without libevent"
requires python3
FRONT_PID='' FRONT_SOCKET='' FRONT_PORT='' front_log='' front_count=0

front_ready_or_gone() { [ -s "$front_ready" ] || gone "$FRONT_PID"; }

# start_front ARG...: of the last kvd, on a Unix socket and on a port; sets FRONT_PID,
# FRONT_SOCKET, FRONT_PORT and front_log.
start_front() {
	front_count=$((front_count + 1))
	front_log=$tmp/front.$front_count.log front_ready=$tmp/front-ready.$front_count
	FRONT_SOCKET=$tmp/front.$front_count.sock
	start "$KVD_BUILD/kvfront" -s "$FRONT_SOCKET" -p -1 -S "$KVD_ADDR" \
		${KVD_TEST_CLIENT_DEVICE:+--device "$KVD_TEST_CLIENT_DEVICE"} \
		--ready-file "$front_ready" "$@" 2>"$front_log"
	FRONT_PID=$pid
	wait_for front_ready_or_gone || fail "kvfront doesn't get ready"
	[ -s "$front_ready" ] || { cat "$front_log"; fail "kvfront doesn't start"; }
	FRONT_PORT=$(sed -n '1s/.*://p' "$front_ready")
}

# stop_front: SIGTERM; it must exit with 0.
stop_front() {
	kill -TERM "$FRONT_PID"
	wait_exit "$FRONT_PID"
	check_log "$front_log"
	[ "$status" = 0 ] || { cat "$front_log"; fail "kvfront ended with $status"; }
}

# talk SCRIPT...: on the Unix socket; a script of tests/front, or a path.
talk() {
	local script paths=()
	for script in "$@"; do
		case $script in */*) paths+=("$script") ;; *) paths+=("$KVD_SOURCE/tests/front/$script.talk") ;; esac
	done
	"$KVD_SOURCE/tests/front/talk" "${TALK_TO:-$FRONT_SOCKET}" "${paths[@]}" ||
		{ cat "$front_log"; fail "the conversation differs"; }
}

# talk_lines: a script on standard input.
talk_lines() {
	cat >"$tmp/lines.talk"
	talk "$tmp/lines.talk"
}

# with_memcached COMMAND ARG...: where memcached is here, runs that beside one that listens at
# $MEMCACHED_SOCKET.
with_memcached() {
	local user=() log=$front_log memcached_pid
	command -v memcached >/dev/null || return 0
	[ "$(id -u)" != 0 ] || user=(-u root)
	MEMCACHED_SOCKET=$tmp/memcached.sock
	start memcached ${user[@]+"${user[@]}"} -s "$MEMCACHED_SOCKET"
	memcached_pid=$pid front_log=/dev/null
	memcached_listens() { [ -S "$MEMCACHED_SOCKET" ]; }
	wait_for memcached_listens || fail "memcached doesn't start"
	"$@"
	front_log=$log
	kill "$memcached_pid"
	wait_exit "$memcached_pid"
}

talk_to_memcached() {
	case $(memcached -V) in
	*' 1.6.18') TALK_TO=$MEMCACHED_SOCKET talk "$@" ;;
	*) say "$(memcached -V): another version, which may say other words" ;;
	esac
}

# against_memcached SCRIPT...: where memcached is here, the scripts are right of it, too.
against_memcached() { with_memcached talk_to_memcached "$@"; }
