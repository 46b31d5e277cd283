#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# kvd is started again under who holds a lock, and the session connects again: the lock is lost, although
# the new kvd gives the connection the id that the old one gave it.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
. "$KVD_SOURCE/tests/lib/sessions.sh"

# told HOW PATTERN
told() {
	question 0 "$1" key
	case $what in
	$2) ;;
	*) fail "$1: '$what', where '$2' was to come" ;;
	esac
}

start_kvd --memory 64M
kvcli stats --json | flatten | grep -q '^locks.available true' || skip "no locks on this device"
kill_kvd
start_kvd --memory 64M
address=$KVD_ADDR ask_ms=20000
questions 1
told lock "(not found)"
told change OK
kill_kvd
start_kvd --memory 64M --listen "$address" 5>&- 6<&- # it would keep the pipes open
told get "(not found)"
told change "error: *lost*"
told check "error: *lost*"
told get "(not found)"
told unlock "error: *lost*"
told try "(not found)"
told change OK
told unlock OK
ends_asking
stop_kvd
