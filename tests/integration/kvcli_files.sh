#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Values from files and pipes, and into files, whole or not at all.
. "$(dirname "$0")/../lib/kit.sh"
start_kvd
cli() { "$kvcli" -s "$server" "$@"; }

# Below and above where files are mapped, and where buffers grow.
for bytes in 0 1 4095 4096 262143 262144 262145 5000000; do
	head -c $bytes /dev/urandom >"$tmp/in"
	cli put file --file "$tmp/in"
	cli get file | cmp - "$tmp/in" || fail "file of $bytes bytes"
	cat "$tmp/in" | cli put pipe -
	cli get pipe --output "$tmp/out"
	cmp "$tmp/out" "$tmp/in" || fail "pipe of $bytes bytes"
done

# What was there stays what it is: its mode, and a link a link.
chmod 640 "$tmp/out"
ln -s out "$tmp/link"
cli put key new
cli get key --output "$tmp/link"
[ -L "$tmp/link" ] || fail "a link was replaced"
[ "$(stat -c %a "$tmp/out")" = 640 ] || fail "a mode was changed"
[ "$(cat "$tmp/out")" = new ] || fail "not written"

# A get that fails changes no file, and leaves none.
status=0
cli get none --output "$tmp/out" 2>"$tmp/err" || status=$?
[ $status = 1 ] || fail "get --output of no key: status $status"
[ "$(cat "$tmp/out")" = new ] || fail "a failed get changed a file"
cli get none --output "$tmp/fresh" 2>"$tmp/err" || :
[ ! -e "$tmp/fresh" ] || fail "a failed get made a file"
status=0
cli get key --output "$tmp/no/such/folder" 2>"$tmp/err" || status=$?
[ $status = 2 ] || fail "get --output into no folder: status $status"
grep -q 'No such file' "$tmp/err" || fail "get --output into no folder says $(cat "$tmp/err")"
[ "$(find "$tmp" -name '*.??????' | wc -l)" = 0 ] || fail "a temporary file stayed"
