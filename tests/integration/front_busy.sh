#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# kvfront: a change that kvd is too busy for is made when kvd has time, and nobody is told of it:
# behind somebody's lock, and where more long values come than kvd takes at once.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
. "$KVD_SOURCE/tests/lib/front.sh"
bench=$KVD_BUILD/bench/frontbench
[ -x "$bench" ] || skip "no frontbench in this build"
start_kvd --memory 256M --lease 60000
start_front -t 2 -c 200

# kvd says "busy" after two seconds.
hold=$(scaled 3000 2500)
start kvcli lock key -- sh -c "touch '$tmp/held'; sleep ${hold%???}.${hold: -3}"
holder=$pid
is_held() { [ -e "$tmp/held" ] || gone "$holder"; }
wait_for is_held || fail "no lock"
talk_lines <<'END'
> set key 0 0 1\r\nx\r\n
< STORED\r\n
> get key\r\n
< VALUE key 0 1\r\nx\r\nEND\r\n
END
wait_exit "$holder"
[ "$status" = 0 ] || fail "the lock's holder ended with $status"

"$bench" "$FRONT_SOCKET" set 0.5 50 16 1000 10240 >"$tmp/out" 2>&1 || { cat "$tmp/out"; fail "SETs of 10 KB"; }
stop_front
stop_kvd
