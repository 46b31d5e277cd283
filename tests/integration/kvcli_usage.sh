#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Wrong use of kvcli ends with status 2 and a sentence; help fits a screen.
. "$(dirname "$0")/../lib/kit.sh"

# refused PATTERN WORD...: status 2, one line on standard error, nothing on output.
refused() {
	local pattern=$1 status=0
	shift
	"$kvcli" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null || status=$?
	[ $status = 2 ] || fail "kvcli $*: status $status, not 2"
	[ ! -s "$tmp/out" ] || fail "kvcli $*: wrote to standard output"
	[ "$(wc -l <"$tmp/err")" = 1 ] || fail "kvcli $*: not one line: $(cat "$tmp/err")"
	grep -q -- "$pattern" "$tmp/err" || fail "kvcli $*: no '$pattern' in: $(cat "$tmp/err")"
}

refused 'did you mean put' pt a b
refused 'did you mean del' delete a
refused 'no command "frob"' frob
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

# fits WORD...: help with status 0 within 24 lines of 80 columns.
fits() {
	"$kvcli" "$@" >"$tmp/out" || fail "kvcli $*: status $?"
	[ "$(wc -l <"$tmp/out")" -le 23 ] || fail "kvcli $*: more than a screen"
	[ "$(wc -L <"$tmp/out")" -le 80 ] || fail "kvcli $*: wider than a screen"
}

fits --help
commands=$("$kvcli" help | awk '{ print $1 } /^  .{38}[a-z]/ { print substr($0, 41) }' |
	awk '{ print $1 }')
[ "$(echo "$commands" | wc -l)" -ge 14 ] || fail "the list of commands is not understood"
for command in $commands; do
	fits "$command" --help
done
