#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The shell of kvcli on a terminal: Tab, Ctrl-C, values of several lines.
. "$(dirname "$0")/../lib/kit.sh"
command -v python3 >/dev/null || skip "python3 is not installed"
ldd "$KVD_BUILD/kvcli" 2>/dev/null | grep -q libedit || skip "kvcli was built without libedit"
[ -z "$KVD_TEST_CLIENT_DEVICE" ] || skip "the address decides"
start_kvd --memory 64M
export HOME=$tmp XDG_STATE_HOME=$tmp/state
python3 "$(dirname "$0")/kvcli_shell.py" "$KVD_BUILD/kvcli" -s "$KVD_ADDR" >"$tmp/out" 2>&1 ||
	{ cat "$tmp/out"; fail "see above"; }
prints $'ok\n'
grep -q 'user:ada:name' "$tmp/state/kvcli_history" || fail "no history"
