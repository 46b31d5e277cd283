#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Symbolic links that somebody else put in the way lead nobody to write where they don't
# mean to: a file beside another is a new one, and get-tree stays in its folder.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
echo "keep me" >"$tmp/victim"
kept() { [ "$(cat "$tmp/victim")" = "keep me" ] || fail "a link was followed: $1"; }

# kvd's readiness file.
mkdir "$tmp/run"
ln -s "$tmp/victim" "$tmp/run/ready.tmp"
start_kvd --memory 64M
# shellcheck disable=SC2046 # one word or none
start "$KVD_BUILD/kvd" --listen "$KVD_TEST_ADDR:0" $(insecure) ${KVD_TEST_DEVICE:+--device "$KVD_TEST_DEVICE"} \
	--memory 16M --ready-file "$tmp/run/ready" 2>/dev/null
is_there() { [ -s "$tmp/run/ready" ]; }
wait_for is_there || fail "kvd writes no readiness file"
kept "PATH.tmp by --ready-file"
[ "$(command stat -c %a "$tmp/run/ready")" = "$(printf '%o' $((0666 & ~$(umask))))" ] || fail "the mode of the readiness file"
[ "$(ls "$tmp/run")" = $'ready\nready.tmp' ] || fail "something stays beside the readiness file"

# An export.
expect 0 kvcli put key value
ln -s "$tmp/victim" "$tmp/run/dump.partial"
expect 0 kvcli export "$tmp/run/dump"
kept "PATH.partial by export"
expect 0 kvcli import --check "$tmp/run/dump"
[ "$(command stat -c %a "$tmp/run/dump")" = 600 ] || fail "others may read the export"
expect 2 kvcli export "$tmp/nowhere/dump"; says "nowhere/dump"

# A tree: links to a file, to a folder, to nothing; a file where a folder is to be.
mkdir -p "$tmp/tree/real" "$tmp/elsewhere"
ln -s "$tmp/victim" "$tmp/tree/file"
ln -s "$tmp/elsewhere" "$tmp/tree/folder"
ln -s "$tmp/elsewhere/new" "$tmp/tree/dangling"
echo old >"$tmp/tree/plain"
chmod 640 "$tmp/tree/real" "$tmp/tree/plain"
chmod 750 "$tmp/tree/real"
for key in file folder/inner folder/sub/inner dangling real/a/b plain plain/inner; do
	expect 0 kvcli put "t/$key" "new $key"
done
expect 2 kvcli get-tree "$tmp/tree" --prefix t/
kept "to a file, by get-tree"
[ -z "$(ls -A "$tmp/elsewhere")" ] || fail "get-tree wrote through a link: $(ls -A "$tmp/elsewhere")"
for key in file folder/inner folder/sub/inner dangling; do
	grep -q "get-tree: $key: .*symbolic link" "$tmp/err" || { cat "$tmp/err"; fail "$key is not told"; }
	[ ! -f "$tmp/tree/$key" ] || [ "$(cat "$tmp/tree/$key")" = "keep me" ] || fail "$key was written"
done
grep -q "get-tree: plain/inner: Not a directory" "$tmp/err" || { cat "$tmp/err"; fail "plain/inner"; }
[ "$(cat "$tmp/tree/real/a/b")" = "new real/a/b" ] || fail "a file in a real folder"
[ "$(cat "$tmp/tree/plain")" = "new plain" ] || fail "a file that was there"
[ "$(command stat -c %a "$tmp/tree/plain")" = 640 ] || fail "the mode of a file that was there"
[ -L "$tmp/tree/file" ] && [ -L "$tmp/tree/folder" ] && [ -L "$tmp/tree/dangling" ] || fail "a link is gone"

# The folder itself may be a link: the user named it.
mkdir "$tmp/named"
ln -s "$tmp/named" "$tmp/by_name"
expect 0 kvcli get-tree "$tmp/by_name" --prefix t/real/
[ "$(cat "$tmp/named/a/b")" = "new real/a/b" ] || fail "a folder named by a link"
stop_kvd
