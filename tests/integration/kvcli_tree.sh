#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Folders: put-tree, check-tree, get-tree.
. "$(dirname "$0")/../lib/kit.sh"
start_kvd

# sums_up TEXT: the line that the command ends with.
sums_up() {
	grep -qF -- "$1" "$tmp/out" || fail "no '$1' in: $(cat "$tmp/out")"
}

mkdir -p "$tmp/in/sub/deep" "$tmp/in/none"
head -c 3000000 /dev/urandom >"$tmp/in/sub/large"
: >"$tmp/in/empty"
echo 1 >"$tmp/in/sub/with space"
echo 2 >"$tmp/in/sub/deep/new"$'\n'"line"
for i in $(seq 300); do
	echo "$i" >"$tmp/in/sub/deep/$i"
done
cp -r "$tmp/in" "$tmp/want.tree"
rmdir "$tmp/want.tree/none"
ln -s empty "$tmp/in/link"

expect 0 kvcli put-tree "$tmp/in" --prefix t/
sums_up 'put-tree: 304 files,'
sums_up ' 1 left out'
expect 0 kvcli get 't/sub/with space'
prints $'1\n'
expect 0 kvcli check-tree "$tmp/in" --prefix t/
sums_up 'check-tree: 304 files,'
expect 0 kvcli get-tree "$tmp/copy" --prefix t/
sums_up 'get-tree: 304 files,'
diff -r "$tmp/want.tree" "$tmp/copy" || fail "the copy differs"

# One byte of one file, another length of one, and a file more.
printf '\377' >"$tmp/byte"
cmp -s -n 1 -i 2000000:0 "$tmp/in/sub/large" "$tmp/byte" && printf '\0' >"$tmp/byte"
dd if="$tmp/byte" of="$tmp/in/sub/large" bs=1 seek=2000000 conv=notrunc status=none
echo longer >"$tmp/in/sub/deep/1"
echo >"$tmp/in/more"
expect 1 kvcli check-tree "$tmp/in" --prefix t/
says "sub/large: the value's bytes differ"
says "sub/deep/1: the value's length differs"
says "more: not found"
sums_up 'check-tree: 302 files,'
sums_up ' 3 differ'

# Keys that would lead elsewhere.
for key in e/../../evil e//evil e/good/.. e/good; do
	expect 0 kvcli put "$key" x
done
mkdir "$tmp/careful"
expect 2 kvcli get-tree "$tmp/careful/inner" --prefix e/
says '../../evil'
sums_up ' 3 failed'
[ "$(cd "$tmp/careful" && find . -type f)" = ./inner/good ] || fail "get-tree wrote elsewhere"

expect 2 kvcli put-tree "$tmp/nowhere"
says 'No such file'

# A shell that does many of them keeps no folder open.
mkdir "$tmp/one"
echo 1 >"$tmp/one/file"
for i in $(seq 40); do
	printf '%s\n' "put-tree $tmp/one --prefix s/" "check-tree $tmp/one --prefix s/" "get-tree $tmp/again --prefix s/"
done >"$tmp/commands"
(ulimit -n 60 && kvcli <"$tmp/commands") >"$tmp/out" 2>&1 || fail "trees from a shell: $(tail -n 1 "$tmp/out")"
[ "$(grep -c 'tree: 1 files,\|tree: 1 file,' "$tmp/out")" = 120 ] || fail "trees from a shell: $(tail -n 2 "$tmp/out")"
