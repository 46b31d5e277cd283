#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# kvcli top: lines in a pipe, a screen on a terminal that it leaves as it was, trouble.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
start_kvd
for i in 1 2 3; do echo "put key$i value"; done | kvcli >"$tmp/out" || fail "puts"

expect 0 kvcli top --interval 50ms --count 22
[ "$(wc -l <"$tmp/out")" = 24 ] || { cat "$tmp/out"; fail "22 lines and two heads"; }
[ "$(grep -c '^time ' "$tmp/out")" = 2 ] || fail "a head each 20 lines"
awk '!/^time/ && ($2 != 3 || NF != 10) { exit 1 }' "$tmp/out" || { cat "$tmp/out"; fail "figures"; }
! grep -q "$(printf '\033')" "$tmp/out" || fail "escapes in a pipe"
kvcli top --interval 20ms | head -n 2 >"$tmp/out"
[ "${PIPESTATUS[0]}" = 0 ] || fail "the reader went away"
expect 2 kvcli top --interval 1ms; says "--interval"
expect 2 kvcli top --count 0; says "--count"
command -v script >/dev/null || { stop_kvd; skip "no script, to make a terminal"; }

# On a terminal, with and without colours.
screen() { # COMMAND: its output on a terminal of 24 rows
	script -qec "stty rows 24 cols 80; $1" /dev/null </dev/null >"$tmp/screen" 2>&1
}
export TERM=xterm
screen "'$KVD_BUILD/kvcli' -s $KVD_ADDR top --interval 50ms --count 2" || fail "top on a terminal"
esc=$(printf '\033')
grep -qF "${esc}[?1049h" "$tmp/screen" && grep -qF "${esc}[?1049l" "$tmp/screen" || fail "the screen is not given back"
grep -qF "${esc}[?25h" "$tmp/screen" || fail "the cursor is not given back"
grep -q 'memory       \[' "$tmp/screen" && grep -q 'requests' "$tmp/screen" || fail "no figures on the screen"
grep -qF "${esc}[1m" "$tmp/screen" || fail "no colours"
NO_COLOR=1 screen "'$KVD_BUILD/kvcli' -s $KVD_ADDR top --interval 50ms --count 1" || fail "top without colours"
! grep -qF "${esc}[1m" "$tmp/screen" || fail "colours with NO_COLOR"
lines=$(tr -d '\r' <"$tmp/screen" | sed "s/$esc\[[?0-9;]*[a-zA-Z]//g" | awk 'length($0) > 80' | wc -l)
[ "$lines" = 0 ] || fail "rows that are too wide"

# No server: an error in a pipe.
stop_kvd
expect 3 kvcli -t 500ms top --count 1; says "top: "
