#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Values from files and pipes, and into files, whole or not at all.
. "$(dirname "$0")/../lib/kit.sh"
start_kvd
mkdir "$tmp/to"

# Below and above where files are mapped, and where buffers grow.
for bytes in 0 1 4095 4096 65536 262143 262144 262145 5000000; do
	head -c $bytes /dev/urandom >"$tmp/in"
	expect 0 kvcli put file --file "$tmp/in"
	expect 0 kvcli get file
	cmp "$tmp/out" "$tmp/in" || fail "a file of $bytes bytes"
	expect 0 kvcli put pipe - < <(cat "$tmp/in")
	expect 0 kvcli get pipe --output "$tmp/to/file"
	cmp "$tmp/to/file" "$tmp/in" || fail "a pipe of $bytes bytes"
done

# What was there stays what it is: its mode, and a link a link.
chmod 640 "$tmp/to/file"
ln -s file "$tmp/to/link"
expect 0 kvcli put key new
expect 0 kvcli get key --output "$tmp/to/link"
[ -L "$tmp/to/link" ] || fail "a link was replaced"
[ "$(command stat -c %a "$tmp/to/file")" = 640 ] || fail "a mode was changed"
[ "$(cat "$tmp/to/file")" = new ] || fail "not written"

# A get that fails changes no file, and leaves none.
expect 1 kvcli get none --output "$tmp/to/file"
[ "$(cat "$tmp/to/file")" = new ] || fail "a failed get changed a file"
expect 1 kvcli get none --output "$tmp/to/fresh"
[ ! -e "$tmp/to/fresh" ] || fail "a failed get made a file"
expect 2 kvcli get key --output "$tmp/no/such/folder"
says 'No such file'
expect 2 kvcli get key --output /dev/full
says 'No space left'
[ "$(find "$tmp/to" -name '*.??????' | wc -l)" = 0 ] || fail "a temporary file stayed"
