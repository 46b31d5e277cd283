#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# kvfront answers the meta protocol as memcached 1.6.18 does, byte for byte; where that is here,
# the script is right of memcached itself.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
. "$KVD_SOURCE/tests/lib/front.sh"

start_kvd --memory 64M
start_front -t 2
talk meta meta numbers signs
TALK_TO=127.0.0.1:$FRONT_PORT talk meta
stop_front
stop_kvd
against_memcached meta numbers signs
