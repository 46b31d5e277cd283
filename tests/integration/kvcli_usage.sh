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
refused 'did you mean get' gte a
refused 'did you mean update' udpate a
refused 'did you mean touch' expire a 1
refused 'no command "frobnicate"; kvcli --help lists them' frobnicate
refused 'no command "foo"; kvcli --help lists them' foo
refused 'no command "sleep"; kvcli --help lists them' sleep
refused '--server' --sever x ping
refused '--timeout' --timeout 0 ping
refused '--timeout' --timeout 5m ping
refused 'missing' get
refused 'too many' exists a b
refused 'takes one value' get a b --output x
refused 'takes one value' get a --json --output x
refused 'no value' put a
refused 'not both' put a b --file x
refused '--output' get a --outptu x
refused 'wants PATH' put a --file
refused 'No such file' put a --file "$tmp/none"
refused 'directory' put a --file "$tmp"
refused '--count' ping --count 0
refused 'one condition' put a b --if-absent --if-version 3
refused '--if-version wants a version' put a b --if-version x
refused 'put --ttl wants a time from 1ms to 36500d' put a b --ttl 0
refused 'touch wants a time' touch a soon
refused 'whole number' incr a 1.5
refused 'whole number' decr a -9223372036854775808
refused 'it has a [ without its ]' keys 'a[b'
refused 'give one of the two' keys 'a*' --prefix a
refused 'without --long and --null' keys --json --long
refused 'before the command' ping -s 127.0.0.1
refused '--yes' flush
refused '--yes' flush --delay 1
refused '--at is over' flush --yes --at 1790000
refused '--at wants' flush --yes --at soon
refused '--at wants' flush --yes --at 2100-02-29T00:00:00Z
refused '--delay wants a time' flush --yes --delay 0
refused 'give one of the two' flush --yes --delay 5 --at never

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
