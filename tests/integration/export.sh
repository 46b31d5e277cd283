#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# kvcli export and import, both formats: any bytes, any length, times to live; a file that
# is cut off or damaged anywhere, an import that is, and how it goes on.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
start_kvd --memory 512M

# Any key and value; empty, short, long; some that expire.
n=$(scaled 3000)
[ $n -ge 300 ] || n=300
for ((i = 0; i < n; i++)); do
	echo "put \"key $i \\x00\\xff\" \"value $i \\n \\\"\\\\ \\xc3\\xa4 $((i * i))\""
done | kvcli >"$tmp/out" || fail "put"
kvcli put empty '' --flags 4275878552 || fail "put empty"
for bytes in 1 4000 20000 300000 3000000; do
	head -c $bytes /dev/urandom | kvcli put "long $bytes" - || fail "put of $bytes bytes"
done
keys=$((n + 6))
listing() { kvcli keys --long | LC_ALL=C sort; }
listing >"$tmp/listing"
kvcli get "long 3000000" | cksum >"$tmp/sum"

expect 0 kvcli export "$tmp/dump"
grep -Eq "^export: [0-9,]+ keys, .* keys/s\)\$" "$tmp/out" || { cat "$tmp/out"; fail "the line at the end"; }
[ ! -e "$tmp/dump.partial" ] || fail "a partial file stays"
[ "$(command stat -c %a "$tmp/dump")" = 600 ] || fail "others may read the export"
expect 0 kvcli import --check "$tmp/dump"
kvcli export - >"$tmp/dump2" 2>"$tmp/err" || fail "export to a pipe"
expect 0 kvcli import --check "$tmp/dump2"
expect 0 kvcli export --json "$tmp/dump.json"
[ "$(wc -l <"$tmp/dump.json")" = $keys ] || fail "lines of JSON"
grep -q '"key":"empty","value":"","flags":4275878552}' "$tmp/dump.json" || fail "flags in JSON"
echo '{"key":"signs","value":"v","stale":true,"claimed":true}' >"$tmp/signs.json"
expect 0 kvcli import "$tmp/signs.json"
expect 0 kvcli export --prefix signs "$tmp/signs"
kvcli del signs >/dev/null
expect 0 kvcli import "$tmp/signs"
kvcli export --json --prefix signs - 2>/dev/null | cmp - "$tmp/signs.json" || fail "signs"
kvcli del signs >/dev/null
# What would move a terminal is escaped, and comes back as it was: ESC, CSI in 8 bits.
kvcli put $'c1\302\233' $'a\302\237b\033[31m\302\240' >/dev/null || fail "put controls"
kvcli export --json --prefix c1 - >"$tmp/c1.json" 2>/dev/null || fail "export of controls"
! LC_ALL=C grep -q $'\302[\200-\237]\|\033' "$tmp/c1.json" || fail "a control character as it is"
grep -q '"c1\\u009b","value":"a\\u009fb\\u001b\[31m' "$tmp/c1.json" || { cat "$tmp/c1.json"; fail "controls in JSON"; }
kvcli del $'c1\302\233' >/dev/null
expect 0 kvcli import "$tmp/c1.json"
[ "$(kvcli get $'c1\302\233')" = $'a\302\237b\033[31m\302\240' ] || fail "controls through JSON"
kvcli del $'c1\302\233' >/dev/null
if command -v python3 >/dev/null; then
	python3 -c 'import json, sys
for line in open(sys.argv[1], encoding="utf-8"): json.loads(line)' "$tmp/dump.json" || fail "no JSON"
fi
expect 0 kvcli export --prefix long "$tmp/some"
grep -q '^export: 5 keys' "$tmp/out" || { cat "$tmp/out"; fail "--prefix"; }

restored() {
	listing >"$tmp/listing2"
	cmp "$tmp/listing" "$tmp/listing2" || fail "$1: other keys or lengths than before"
	kvcli get "long 3000000" | cksum | cmp - "$tmp/sum" || fail "$1: another value"
	kvcli export --json "$tmp/again.json" >"$tmp/out" || fail "$1: export"
	LC_ALL=C sort "$tmp/dump.json" | cmp - <(LC_ALL=C sort "$tmp/again.json") || fail "$1: other values"
}
kvcli flush --yes; expect 0 kvcli import "$tmp/dump"; restored "import"
kvcli flush --yes; kvcli import - <"$tmp/dump2" >"$tmp/out" || fail "import from a pipe"; restored "import from a pipe"
kvcli flush --yes; expect 0 kvcli import "$tmp/dump.json"; restored "import of JSON"
kvcli flush --yes; kvcli export - --json | kvcli import - >"$tmp/out" 2>&1
grep -q 'it is empty' "$tmp/out" || fail "an empty export"
kvcli export "$tmp/none" >"$tmp/out" || fail "export of nothing"
expect 0 kvcli import "$tmp/none"; grep -q '^import: 0 keys' "$tmp/out" || fail "import of nothing"

# Times to live go along, and are not lengthened.
printf '{"key":"soon","value":"v","ttl_ms":600000}\n{"key":"ever","value":"v"}\n' >"$tmp/ttl.json"
expect 0 kvcli import "$tmp/ttl.json"
expect 0 kvcli export "$tmp/ttl"; kvcli flush --yes; expect 0 kvcli import "$tmp/ttl"
expect 0 kvcli export --json "$tmp/ttl2.json"
left=$(sed -nE 's/.*"soon".*"ttl_ms":([0-9]+).*/\1/p' "$tmp/ttl2.json")
[ -n "$left" ] && [ "$left" -le 600000 ] && [ "$left" -gt 300000 ] || { cat "$tmp/ttl2.json"; fail "time to live"; }
grep -q '^{"key":"ever","value":"v"}$' "$tmp/ttl2.json" || fail "without a time to live"
kvcli flush --yes

# Cut off anywhere: it says so, and goes on from where it says.
bytes=$(command stat -c %s "$tmp/dump")
for cut in 1 15 16 20 47 48 $((bytes / 3)) $((bytes / 2)) $((bytes - 33)) $((bytes - 32)) $((bytes - 1)); do
	head -c "$cut" "$tmp/dump" >"$tmp/cut"
	expect 2 kvcli import --check "$tmp/cut"
	expect 2 kvcli import "$tmp/cut"
	says "To go on from there with the whole file: kvcli -s $KVD_ADDR import '$tmp/cut' --from "
	from=$(sed -E 's/.* --from ([0-9]+)$/\1/' "$tmp/err")
	expect 0 kvcli import "$tmp/dump" --from "$from"
	restored "cut at $cut, on from $from"
	kvcli flush --yes
done
head -c $((bytes / 2)) "$tmp/dump" | kvcli import - 2>"$tmp/err" >"$tmp/out" && fail "a pipe that is cut off"
from=$(sed -E 's/.* --from ([0-9]+)$/\1/' "$tmp/err")
kvcli import - --from "$from" <"$tmp/dump" >"$tmp/out" || fail "on from a pipe"
restored "a pipe cut off"
kvcli flush --yes

# Damaged anywhere: nothing of the block is stored, and it is told.
for at in 3 17 30 40 100 $((bytes / 2)) $((bytes - 40)) $((bytes - 20)); do
	cp "$tmp/dump" "$tmp/bad"
	byte=$(od -An -tu1 -j "$at" -N 1 "$tmp/dump")
	printf "\\x$(printf %02x $((byte ^ 16)))" | dd of="$tmp/bad" bs=1 seek="$at" conv=notrunc status=none
	expect 2 kvcli import --check "$tmp/bad"
	grep -Eq 'damaged|cut off|is no export' "$tmp/err" || { cat "$tmp/err"; fail "damage at $at is not told"; }
done
expect 2 kvcli import "$tmp/dump" --from 20; says "no block begins there"
! grep -q 'go on' "$tmp/err" || fail "no way to go on with a damaged file"
head -c 5000 /dev/urandom >"$tmp/noise"; expect 2 kvcli import "$tmp/noise"; says "noise is no export: "
for line in '{"key":"a"}' '{"value":"a"}' '{"key":"","value":"v"}' '{"key":1,"value":"v"}' '{"key":"a","value":"b"' \
	'{"key":"a","value":"\ud800"}' '{"key_base64":"a","value":"b"}' '{"key":"a","value":"b"} x' '{"key":"a","key":"b","value":"c"}' \
	'{"key":"a","value":"b","ttl_ms":-1}' '{"key":"a","value":"b","x":{}}'; do
	printf '{"key":"good","value":"v"}\n%s\n{"key":"behind","value":"v"}\n' "$line" >"$tmp/bad.json"
	expect 2 kvcli import "$tmp/bad.json"
	says "stopped after 1 stored record: the file is damaged at byte 27"
	says "once that line is right: "
	says "--from 27"
done
printf ' { "x" : null, "key" : "\\u00e4\\ud83d\\ude00", "y":[],"value":"v"}' >"$tmp/bad.json"
expect 2 kvcli import --check "$tmp/bad.json"
printf ' {"key":"a","value":"b"}' >"$tmp/bad.json"
expect 2 kvcli import "$tmp/bad.json"; says "no export" # a line begins with {
printf '{"x":null, "key" : "\\u00e4\\ud83d\\ude00", "value" : "v" , "n":1.5e3}' >"$tmp/good.json"
expect 0 kvcli import "$tmp/good.json"
[ "$(kvcli get "$(printf '\303\244\360\237\230\200')")" = v ] || fail "escapes of JSON"
kvcli flush --yes

# kvd goes away under an import: what it says is stored is stored.
mkfifo "$tmp/slow"
"$KVD_BUILD/kvcli" -s "$KVD_ADDR" -t 2s import - <"$tmp/slow" >"$tmp/out" 2>"$tmp/err" &
importer=$!
started_pids+=("$importer")
exec 6>"$tmp/slow"
head -n $((keys / 2)) "$tmp/dump.json" >&6
some_stored() { [ "$(stat keys)" -gt 0 ]; }
wait_for some_stored || fail "nothing is stored"
kill_kvd
(trap '' PIPE; tail -n +$((keys / 2 + 1)) "$tmp/dump.json" >&6) 2>/dev/null
exec 6>&-
wait_exit "$importer"
[ "$status" = 3 ] || { cat "$tmp/err"; fail "kvd went away: status $status"; }
says "--from "

# Interrupted.
start_kvd --memory 512M
"$KVD_BUILD/kvcli" -s "$KVD_ADDR" import - <"$tmp/slow" >"$tmp/out" 2>"$tmp/err" &
importer=$!
started_pids+=("$importer")
exec 6>"$tmp/slow"
head -n $((keys / 2)) "$tmp/dump.json" >&6
wait_for some_stored || fail "nothing is stored"
kill -TERM "$importer"
exec 6>&-
wait_exit "$importer"
[ "$status" = 2 ] || { cat "$tmp/err"; fail "interrupted: status $status"; }
says "--from "
from=$(sed -E 's/.* --from ([0-9]+)$/\1/' "$tmp/err")
expect 0 kvcli import "$tmp/dump.json" --from "$from"
restored "interrupted"

# A file that can't be written.
expect 2 kvcli export "$tmp/no/such/folder"; says "$tmp/no/such/folder"
[ ! -e /dev/full ] || { kvcli export - >/dev/full 2>"$tmp/err" && fail "a full disk"; says "standard output"; }
stop_kvd
