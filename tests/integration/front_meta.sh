#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# kvfront answers the meta protocol as memcached 1.6.18 does, byte for byte; where that is here,
# the script is right of memcached itself.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
. "$KVD_SOURCE/tests/lib/front.sh"

start_kvd --memory 64M
start_front -t 2
talk meta meta numbers signs flags
TALK_TO=127.0.0.1:$FRONT_PORT talk meta flags
# Of client flags over 32 bits memcached 1.6.18 stores 0; N makes what an append finds absent, as
# its document says and later versions do.
talk_lines <<'END'
> ms absent 2 MA N60\r\nst\r\nmg absent v t\r\n
~ HD
~ VA 2 t\d+
< st\r\n
> ms absent2 2 MP N0\r\nst\r\nmg absent2 v t\r\n
< HD\r\nVA 2 t-1\r\nst\r\n
> set f 4294967296 0 1\r\nx\r\n
< CLIENT_ERROR bad command line format\r\nERROR\r\n
> ms f 1 F4294967296\r\nx\r\n
< CLIENT_ERROR bad command line format\r\n
END
stop_front
stop_kvd
against_memcached meta numbers signs flags

# A command, flag or answer of the source without a conversation is told here.
"$KVD_SOURCE/tests/front/words" "$KVD_SOURCE" >"$tmp/words" || fail "$(cat "$tmp/words")"
reached "commands, flags, answers and limits in conversations" "$(sed -n '$s/ of .*//p' "$tmp/words")" 190
