#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Wrong use of kvcli ends with status 2 and one sentence; each help fits a screen.
. "$(dirname "$0")/../lib/kit.sh"

# refused TEXT WORD...: status 2, one line that has the text, nothing on output.
refused() {
	local text=$1
	shift
	expect 2 kvcli "$@" </dev/null
	says "$text"
	prints ''
	[ "$(wc -l <"$tmp/err")" = 1 ] || fail "not one line: $(cat "$tmp/err")"
}

refused 'did you mean put' pt a b
refused 'did you mean del' delete a
refused 'no command "frobnicate"' frobnicate
refused '--server' --sever x ping
refused '--timeout' --timeout 0 ping
refused '--timeout' --timeout 5m ping
refused 'missing' get
refused 'too many' get a b
refused 'no value' put a
refused 'not both' put a b --file x
refused '--output' get a --outptu x
refused 'wants PATH' put a --file
refused 'No such file' put a --file "$tmp/none"
refused 'directory' put a --file "$tmp"
refused '--count' ping --count 0
refused 'before the command' ping -s 127.0.0.1
refused '--yes' flush

# fits WORD...: help that leaves a line for the prompt.
fits() {
	expect 0 kvcli "$@"
	[ "$(wc -l <"$tmp/out")" -le 23 ] || fail "kvcli $* has more lines than a screen"
	[ "$(wc -L <"$tmp/out")" -le 80 ] || fail "kvcli $* is wider than a screen"
}

fits --help
expect 0 kvcli help
commands=$(awk '{ print $1 } length($0) > 40 { split(substr($0, 41), w, " "); print w[1] }' "$tmp/out")
[ "$(echo "$commands" | grep -c .)" -ge 14 ] || fail "the list of commands is not understood"
for command in $commands; do
	fits "$command" --help
	grep -q "^Usage: kvcli $command" "$tmp/out" || fail "the help of $command is another's"
done
