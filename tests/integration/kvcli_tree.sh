#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Folders: put-tree, check-tree, get-tree.
. "$(dirname "$0")/../lib/kit.sh"
start_kvd
cli() { "$kvcli" -s "$server" "$@"; }

mkdir -p "$tmp/in/sub/deep" "$tmp/in/none"
head -c 3000000 /dev/urandom >"$tmp/in/sub/large"
: >"$tmp/in/empty"
echo 1 >"$tmp/in/sub/with space"
echo 2 >"$tmp/in/sub/deep/new
line"
for i in $(seq 300); do
	echo "$i" >"$tmp/in/sub/deep/$i"
done
cp -r "$tmp/in" "$tmp/expected"
rmdir "$tmp/expected/none"
ln -s empty "$tmp/in/link"

cli put-tree "$tmp/in" --prefix t/ >"$tmp/out"
grep -q '^put-tree: 304 files, .* 1 left out' "$tmp/out" || fail "put-tree: $(cat "$tmp/out")"
[ "$(cli keys | wc -l)" = 304 ] || fail "$(cli keys | wc -l) keys"
[ "$(cli get 't/sub/with space')" = 1 ] || fail "a key has not the path of its file"
cli check-tree "$tmp/in" --prefix t/ >"$tmp/out" || fail "check-tree: $(cat "$tmp/out")"
cli get-tree "$tmp/copy" --prefix t/ >"$tmp/out" || fail "get-tree: $(cat "$tmp/out")"
diff -r "$tmp/expected" "$tmp/copy" || fail "the copy differs"

# One byte of one file, and a file more.
printf x | dd of="$tmp/in/sub/large" bs=1 seek=2000000 conv=notrunc status=none
printf y | dd of="$tmp/in/sub/large" bs=1 seek=2000001 conv=notrunc status=none
echo >"$tmp/in/more"
status=0
cli check-tree "$tmp/in" --prefix t/ >"$tmp/out" 2>"$tmp/err" || status=$?
[ $status = 1 ] || fail "check-tree of a changed file: status $status"
grep -q 'sub/large: .*bytes differ' "$tmp/err" || fail "check-tree: $(cat "$tmp/err")"
grep -q 'more: not found' "$tmp/err" || fail "check-tree: $(cat "$tmp/err")"

# Keys that would lead elsewhere.
cli put e/../../evil x
cli put e//abs x
cli put e/good x
status=0
cli get-tree "$tmp/careful/inner" --prefix e/ >"$tmp/out" 2>"$tmp/err" || status=$?
[ $status = 2 ] || [ ! -d "$tmp/careful" ] || fail "get-tree of bad keys: status $status"
mkdir -p "$tmp/careful"
status=0
cli get-tree "$tmp/careful/inner" --prefix e/ >"$tmp/out" 2>"$tmp/err" || status=$?
[ $status = 2 ] || fail "get-tree of bad keys: status $status"
[ "$(cd "$tmp/careful" && find . -type f)" = ./inner/good ] || fail "get-tree wrote elsewhere"

status=0
cli put-tree "$tmp/nowhere" 2>"$tmp/err" || status=$?
[ $status = 2 ] || fail "put-tree of no folder: status $status"
