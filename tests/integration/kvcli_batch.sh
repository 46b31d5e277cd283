#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Batches from a pipe: an answer to each command, in order, at the right time.
. "$(dirname "$0")/../lib/kit.sh"
start_kvd

cat >"$tmp/in" <<'END'
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
frobnicate
put "open
put x -
get x
END
expect 2 kvcli <"$tmp/in"
printf 'OK\n1\nOK\ntwo words\n\0\nOK\n(not found)\n(not found)\nno\nOK\n-\n' >"$tmp/want"
head -n 11 "$tmp/out" | cmp - "$tmp/want" || fail "answers: $(cat -v "$tmp/out")"
[ "$(tail -n +12 "$tmp/out" | cut -c 1-6 | tr '\n' .)" = 'ERROR .ERROR .ERROR .-.' ] ||
	fail "errors: $(cat -v "$tmp/out")"
[ ! -s "$tmp/err" ] || fail "on standard error: $(cat "$tmp/err")"

# The status is that of the worst; the last line needs no newline.
expect 0 kvcli <<<'put a 1'
expect 1 kvcli < <(printf 'get none\nget a\n')
expect 0 kvcli </dev/null
expect 0 kvcli < <(printf 'put last 1\nget last')
prints $'OK\n1\n'

# Changes and reads of few keys, many in flight.
awk -v count="$(scaled 20000)" -v want="$tmp/want" 'BEGIN {
	srand(7)
	print "flush --yes"; print "OK" >want
	for (i = 1; i <= count; i++) {
		k = int(rand() * 20); r = rand(); old = v[k] == "" ? "(not found)" : v[k]
		if (r < .4) { print "put k" k " v" i; v[k] = "v" i; print "OK" >want }
		else if (r < .8) { print "get k" k; print old >want }
		else { print "del k" k; print (v[k] == "" ? old : "OK") >want; v[k] = "" }
	}
}' >"$tmp/in"
expect 1 kvcli <"$tmp/in"
cmp "$tmp/out" "$tmp/want" || fail "answers of many in flight"

# Values of all lengths, longer than any buffer too.
for bytes in 4095 4096 4097 100000 3000000; do
	value=$(head -c $bytes /dev/zero | tr '\0' v)
	printf 'put long %s\nget long\nget long\n' "$value"
	printf 'OK\n%s\n%s\n' "$value" "$value" >&3
done >"$tmp/in" 3>"$tmp/want"
expect 0 kvcli <"$tmp/in"
cmp "$tmp/out" "$tmp/want" || fail "answers of long values"

# What can't be read is told.
expect 2 kvcli <"$tmp"
grep -q '^ERROR reading commands: Is a directory' "$tmp/out" || fail "a folder for commands: $(cat "$tmp/out")"

# --stop-on-error runs nothing behind it.
expect 2 kvcli --stop-on-error < <(printf 'put s 1\nfrobnicate\nput s 2\n')
[ "$(wc -l <"$tmp/out")" = 2 ] || fail "--stop-on-error: $(cat "$tmp/out")"
expect 0 kvcli get s
prints 1

# A dialogue: each answer comes before the next command is written.
coproc "$KVD_BUILD/kvcli" -s "$KVD_ADDR"
for i in 1 2 3; do
	for command in "put c $i" "get c"; do
		echo "$command" >&"${COPROC[1]}"
		read -r -t "$patience_s" answer <&"${COPROC[0]}" || fail "no answer to: $command"
		[ "$command/$answer" = "put c $i/OK" ] || [ "$command/$answer" = "get c/$i" ] ||
			fail "$command is answered with $answer"
	done
done
input=${COPROC[1]}
exec {input}>&-
