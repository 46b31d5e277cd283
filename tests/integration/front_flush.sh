#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# flush_all with a delay is kvd's: as memcached's, and it holds for what native clients stored,
# for another kvfront, and after the kvfront that was told has ended; kvcli takes it away.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
. "$KVD_SOURCE/tests/lib/front.sh"

start_kvd --memory 64M
start_front -t 2
talk flush

# What is far off is not cut to 32 bits, as memcached does: there it would be now.
talk_lines <<'END'
> set a 0 0 1\r\nx\r\nflush_all 4000000000\r\nget a\r\n
< STORED\r\nOK\r\nVALUE a 0 1\r\nx\r\nEND\r\n
> flush_all 9223372036854775807\r\nget a\r\n
< OK\r\nVALUE a 0 1\r\nx\r\nEND\r\n
END

# The one that was told ends before its time.
expect 0 kvcli put native old
talk_lines <<'END'
> set front 0 0 3\r\nold\r\nflush_all 3\r\nget front native\r\n
< STORED\r\nOK\r\nVALUE front 0 3\r\nold\r\nVALUE native 0 3\r\nold\r\nEND\r\n
END
stop_front
expect 0 kvcli get native
prints old
is_absent() { ! kvcli exists "$1" >/dev/null; }
wait_for is_absent native || fail "kvfront's end took its flush away"
wait_for is_absent front || fail "a key stays"
start_front -t 1
talk_lines <<'END'
> get front native\r\n
< END\r\n
> set front 0 0 3\r\nnew\r\n
< STORED\r\n
END

# What kvcli sets flush_all replaces, and the other way round.
# until_s SECOND: what could be wrong would be by then.
until_s() { [ $SECONDS -ge "$1" ] || sleep $(($1 - SECONDS)); }
end_s=$((SECONDS + 6))
expect 0 kvcli flush --yes --delay 5
talk_lines <<'END'
> flush_all 3600\r\n
< OK\r\n
END
expect 0 kvcli put native new
until_s $end_s
end_s=$((SECONDS + 6))
talk_lines <<'END'
> get native front\r\n
< VALUE native 0 3\r\nnew\r\nVALUE front 0 3\r\nnew\r\nEND\r\n
> flush_all 5\r\n
< OK\r\n
END
expect 0 kvcli flush --at never
prints $'no flush is to come\n'
until_s $end_s
expect 0 kvcli get front
prints new
stop_front

# A kvd that does not answer: that is told, as of any other change.
start_front -t 1 --timeout 1s
kill -STOP "$KVD_PID"
talk_lines <<'END'
> flush_all 10\r\n
~ SERVER_ERROR .*
END
kill -CONT "$KVD_PID"
stop_front
stop_kvd

# Who may not flush may not do it later either.
(umask 077; "$KVD_BUILD/kvd" init --users "$tmp/users" --user boss >"$tmp/boss") || fail "init"
"$KVD_BUILD/kvcli" user add writer write --users "$tmp/users" >"$tmp/writer" || fail "user add"
chmod 600 "$tmp/writer"
start_kvd --memory 64M --users "$tmp/users"
start_front -t 1 --credentials "$tmp/writer"
talk_lines <<'END'
> flush_all 10\r\nset a 0 0 1\r\nx\r\n
~ SERVER_ERROR .*role is write.*
< STORED\r\n
END
stop_front
stop_kvd

against_memcached flush
