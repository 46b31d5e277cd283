#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Batches from a pipe: an answer to each command, in order, at the right time.
. "$(dirname "$0")/../lib/kit.sh"
start_kvd

# batch STATUS: commands on standard input, answers into $tmp/out.
batch() {
	local got=0
	"$kvcli" -s "$server" >"$tmp/out" || got=$?
	[ $got = "$1" ] || fail "a batch has status $got, not $1: $(cat "$tmp/out")"
}

batch 2 <<'END'
put a 1
get a

# no answer
put a "two words\n\x00"
get a
del a b
get a
exists a
put x "-"
get 'x'
frob
put "open
put x -
get x
END
printf 'OK\n1\nOK\ntwo words\n\0\nOK\n(not found)\n(not found)\nno\nOK\n-\n' >"$tmp/expected"
head -n 12 "$tmp/out" | cmp - "$tmp/expected" || fail "answers: $(cat -v "$tmp/out")"
[ "$(grep -c '^ERROR ' "$tmp/out")" = 3 ] || fail "errors: $(cat -v "$tmp/out")"
[ "$(tail -n 1 "$tmp/out")" = - ] || fail "the last answer: $(cat -v "$tmp/out")"

batch 0 <<<'put a 1'
batch 1 <<<'get none'
batch 0 </dev/null
printf 'put last 1\nget last' | batch 0
[ "$(tail -n 1 "$tmp/out")" = 1 ] || fail "a last line without newline is lost"

# Changes and reads of few keys, many in flight.
awk 'BEGIN {
	srand(7)
	for (i = 1; i <= 20000; i++) {
		k = int(rand() * 20); r = rand()
		if (r < .4) { print "put k" k " v" i; v[k] = "v" i; print "OK" >expected }
		else if (r < .8) { print "get k" k; print (v[k] == "" ? "(not found)" : v[k]) >expected }
		else { print "del k" k; print (v[k] == "" ? "(not found)" : "OK") >expected; v[k] = "" }
	}
}' expected="$tmp/expected" >"$tmp/in"
batch 1 <"$tmp/in"
cmp "$tmp/out" "$tmp/expected" || fail "answers of many in flight"

# Values of all lengths, longer than any buffer too.
for bytes in 4095 4097 100000 3000000; do
	value=$(head -c $bytes /dev/zero | tr '\0' v)
	printf 'put long %s\nget long\nget long\n' "$value"
	printf 'OK\n%s\n%s\n' "$value" "$value" >&3
done >"$tmp/in" 3>"$tmp/expected"
batch 0 <"$tmp/in"
cmp "$tmp/out" "$tmp/expected" || fail "answers of long values"

# --stop-on-error runs nothing behind it.
status=0
printf 'put s 1\nfrob\nput s 2\n' | "$kvcli" -s "$server" --stop-on-error >"$tmp/out" || status=$?
[ $status = 2 ] && [ "$(wc -l <"$tmp/out")" = 2 ] || fail "--stop-on-error: $(cat "$tmp/out")"
[ "$("$kvcli" -s "$server" get s)" = 1 ] || fail "--stop-on-error went on"

# A dialogue: each answer comes before the next command is written.
coproc "$kvcli" -s "$server"
for i in 1 2 3; do
	echo "put c $i" >&"${COPROC[1]}"
	read -r -t 20 answer <&"${COPROC[0]}" || fail "no answer to a put"
	[ "$answer" = OK ] || fail "a dialogue answers $answer"
	echo "get c" >&"${COPROC[1]}"
	read -r -t 20 answer <&"${COPROC[0]}" || fail "no answer to a get"
	[ "$answer" = $i ] || fail "a dialogue answers $answer, not $i"
done
