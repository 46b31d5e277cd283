#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Commands of kvcli on values and their time to live: conditions, counters, several keys
# at once, patterns.
. "$(dirname "$0")/../lib/kit.sh"
start_kvd

# answers STATUS OUTPUT WORD...
answers() {
	local status=$1 output=$2
	shift 2
	expect "$status" kvcli "$@" </dev/null
	prints "$output"
}

# version_of KEY: as get --json tells it.
version_of() { kvcli get --json "$1" | sed -n 's/.*"version":\([0-9]*\).*/\1/p'; }

# ------------------------------------------------------------------- conditions
answers 0 '' put name Ada --if-absent
answers 1 '' put name Bob --if-absent
version=$(version_of name)
[ "$(cat "$tmp/err")" = "kvcli: not done: \"name\" has version $version" ] || fail "$(cat "$tmp/err")"
answers 0 '' put name Bob --if-version "$version"
answers 1 '' put name Eve --if-version "$version"
answers 0 Bob get name
answers 1 '' put nobody x --if-present
[ "$(cat "$tmp/err")" = 'kvcli: not done: "nobody" is absent' ] || fail "$(cat "$tmp/err")"
answers 0 '' put name Eve --if-present
version=$(version_of name)
printf 'put name x --if-absent\nput name Ada --if-version %s\n' "$version" >"$tmp/in"
expect 1 kvcli <"$tmp/in"
prints "(not done: \"name\" has version $version)"$'\nOK\n'

# --------------------------------------------------------------------- counters
answers 0 $'1\n' incr hits
answers 0 $'42\n' incr hits 41
answers 0 $'-8\n' decr hits 50
answers 0 $'-7\n' decr hits -1
answers 0 -7 get hits
answers 2 '' incr name
says 'the value is not a whole number in decimal text'
answers 0 $'9223372036854775807\n' incr most 9223372036854775807
answers 2 '' incr most
answers 0 9223372036854775807 get most

# ----------------------------------------------------------------------- append
answers 0 '' append log 'one '
answers 0 '' append log two
printf ' three' >"$tmp/in"
expect 0 kvcli append log - <"$tmp/in"
answers 0 '' append log --file "$tmp/in"
answers 0 'one two three three' get log
answers 2 '' append log
says 'append: no value'
answers 0 '' prepend log 'zero '
answers 0 'zero one two three three' get log
answers 0 '' prepend first x
answers 0 'x' get first
answers 2 '' prepend log
says 'prepend: no value'

# ------------------------------------------------------------------------ flags
answers 0 '' put flagged v --flags 4294967295
expect 0 kvcli get flagged --json
grep -q '"flags":4294967295}' "$tmp/out" || fail "get --json shows no flags"
answers 2 '' put flagged v --flags 4294967296
says 'put --flags wants a number of 32 bits'

# ---------------------------------------------------------------- time to live
answers 0 $'never\n' ttl name
answers 0 $'{"key":"name","ttl_ms":null}\n' ttl name --json
answers 1 '' ttl nobody
says 'not found: "nobody"'
answers 0 '' put short v --ttl 2h
expect 0 kvcli ttl short
grep -Exq '(7200\.000|71[0-9][0-9]\.[0-9]{3})s' "$tmp/out" || fail "ttl: $(cat "$tmp/out")"
expect 0 kvcli ttl short --json
grep -Exq '\{"key":"short","ttl_ms":7[12][0-9]{5}\}' "$tmp/out" || fail "ttl: $(cat "$tmp/out")"
answers 0 '' touch short never
answers 0 $'never\n' ttl short
answers 0 '' touch short 20ms
wait_for eval '! kvcli get short >/dev/null 2>&1' || fail "it does not expire"
answers 1 '' touch nobody 1s
answers 0 $'1\n' incr few --ttl 20ms
wait_for eval '! kvcli get few >/dev/null 2>&1' || fail "the counter does not expire"
answers 0 '' append few x --ttl 20ms
wait_for eval '! kvcli get few >/dev/null 2>&1' || fail "what was appended to does not expire"
head -c 200000 /dev/zero >"$tmp/in" # its value is READ alone
answers 0 '' put big --file "$tmp/in" --ttl 10m
expect 0 kvcli ttl big
grep -Exq '(600\.000|5[0-9][0-9]\.[0-9]{3})s' "$tmp/out" || fail "ttl: $(cat "$tmp/out")"
answers 0 '' del big

# ---------------------------------------------------------------- several at once
answers 0 '' put a 1
answers 0 '' put b 2
answers 0 '' put -- $'c\xff' $'\xfe'
answers 0 12 get a b
answers 1 12 get a none b
says 'not found: "none"'
expect 1 kvcli get --json a none $'c\xff'
sed 's/"version":[0-9]*/"version":N/' "$tmp/out" >"$tmp/lines"
mv "$tmp/lines" "$tmp/out"
prints '{"key":"a","value":"1","version":N}
{"key":"none","value":null}
{"key_base64":"Y/8=","value_base64":"/g==","version":N}
'
[ ! -s "$tmp/err" ] || fail "JSON says it already: $(cat "$tmp/err")"
printf 'get a none b\n' >"$tmp/in"
expect 1 kvcli <"$tmp/in"
prints $'1\n(not found)\n2\n'

# What get --json prints, import reads.
kvcli get --json a b >"$tmp/dump" || fail "get --json"
answers 0 '' flush --yes
expect 0 kvcli import "$tmp/dump"
answers 0 12 get a b

# --------------------------------------------------------------------- patterns
answers 0 '' flush --yes
for key in user:1 user:22 user:1:name 'user*' other; do answers 0 '' put "$key" "$key"; done
# lists OUTPUT WORD...: in some order.
lists() {
	local want=$1
	shift
	expect 0 kvcli keys "$@"
	sort -o "$tmp/out" "$tmp/out"
	prints "$want"
}
export LC_ALL=C
lists $'user:1\nuser:1:name\nuser:22\n' 'user:*'
lists $'user:1\n' 'user:?'
lists $'user:1:name\nuser:22\n' 'user:?[2:]*'
lists $'user*\n' 'user\*'
lists $'other\nuser*\nuser:1\nuser:1:name\nuser:22\n' '*'
lists $'other\n' '[!u]*'
lists '' nobody
lists $'{"key":"user:1","value_bytes":6}\n' 'user:?' --json
lists $'           6  user:1\n' 'user:?' --long

# What incr and append have, decr and prepend have.
begun_s=$SECONDS
answers 0 $'-2\n' decr down 2 --ttl 1h
answers 0 '' prepend made b --ttl 1h
printf a >"$tmp/beginning"
answers 0 '' prepend made --file "$tmp/beginning"
answers 0 ab get made
for key in down made; do
	expect 0 kvcli ttl "$key"
	left_s=$(sed -nE 's/^([0-9]+)\.[0-9]+s$/\1/p' "$tmp/out")
	# A second for the beginning of each of the two clocks.
	compute "${left_s:-0} <= 3600 && ${left_s:-0} >= 3600 - ($SECONDS - $begun_s + 2)" || fail "$key: $(cat "$tmp/out")"
done
