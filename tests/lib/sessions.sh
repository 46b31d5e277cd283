# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Sessions that a test asks by and by (tests/integration/lease.c), behind kit.sh.

lease=$KVD_BUILD/tests/integration/lease

# questions COUNT: sessions with the kvd that was started last, asked by question; sets asker_pid.
questions() {
	rm -f "$tmp/ask.in" "$tmp/ask.out"
	mkfifo "$tmp/ask.in" "$tmp/ask.out"
	start asker "$1"
	asker_pid=$pid
	exec 5>"$tmp/ask.in" 6<"$tmp/ask.out"
}

# Opening a pipe waits for the other end, so that is done in the background too.
asker() { exec "$lease" "$KVD_ADDR" ask "${ask_ms:-1500}" "$1" <"$tmp/ask.in" >"$tmp/ask.out" 2>"$tmp/ask.err"; }

# question SESSION HOW KEY (tests/integration/lease.c): sets what, reads and fallbacks.
question() {
	echo "$*" >&5
	IFS= read -r -t "$patience_s" -u 6 answer || fail "no answer to $*"
	fallbacks=${answer##* } answer=${answer% *} reads=${answer##* } what=${answer% *}
}

# ends_asking: the sessions end.
ends_asking() {
	exec 5>&- 6<&-
	wait_exit "$asker_pid"
}
