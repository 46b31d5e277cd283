#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# 10,000 real files of mixed size, up to 64 MiB, stored by four clients at once
# and read back by four others at once, have equal SHA-256.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
requires sha256sum find split

# The files of this machine, as they come, each below 4 MiB, and some large ones.
list_files() {
	find /usr/share /usr/lib /usr/include /usr/bin /etc "$KVD_SOURCE" -xdev \
		-type f -readable -size -4097k -printf '%s %p\n' 2>/dev/null |
		awk -v max="$1" -v budget="$2" 'length($0) < 900 && !/["\\\x27]/ && !/[^ -~]/ {
			bytes += $1; if (bytes > budget || n++ >= max) exit
			sub(/^[0-9]* /, ""); print }'
}

make_large() {
	local i=0 kib
	for kib in 65536 65535 40000 20001 8192 4097; do
		# One of several messages at any size.
		[ $((kib * 100)) -le $((65536 * KVD_TEST_SCALE)) ] || [ $kib = 4097 ] || continue
		i=$((i + 1))
		head -c ${kib}k /dev/urandom >"$tmp/large.$i"
		echo "$tmp/large.$i"
	done
	# Where a message ends and a pull begins, and nothing at all.
	for kib in 0 1 8000 8191 8192 8193 1048576; do
		head -c $kib /dev/urandom >"$tmp/edge.$kib"
		echo "$tmp/edge.$kib"
	done
}

make_large >"$tmp/list"
list_files "$(scaled 10000)" $(($(scaled 800) << 20)) | head -n -1 >>"$tmp/list"
count=$(wc -l <"$tmp/list")
# A machine with fewer files than that: the rest is made.
mkdir "$tmp/made"
for ((; count < $(scaled 10000); count++)); do
	head -c $((RANDOM % 9000)) /dev/urandom >"$tmp/made/$count"
	echo "$tmp/made/$count"
done >>"$tmp/list"
say "$count files, $(tr '\n' '\0' <"$tmp/list" | du -ch --apparent-size --files0-from=- | tail -1)"
start_kvd --memory $(($(scaled 1600) + 64))M
shuf --random-source=/bin/ls "$tmp/list" >"$tmp/mixed"
split -n r/4 "$tmp/mixed" "$tmp/part."

# client PART: put each file of the list under its own path.
put_part() { sed 's/.*/put "&" --file "&"/' "$1" | kvcli --timeout 60; }
get_part() {
	local dir=$1.back
	mkdir "$dir"
	awk -v dir="$dir" '{ printf "get \"%s\" --output \"%s/%d\"\n", $0, dir, NR }' "$1" |
		kvcli --timeout 60
}

# all_parts FUNCTION: by four clients at once.
all_parts() {
	local part pids=()
	for part in "$tmp"/part.a?; do
		start "$1" "$part" >"$part.$1" 2>&1
		pids+=("$pid")
	done
	for pid in "${pids[@]}"; do
		patience_s=500 wait_exit "$pid"
		[ "$status" = 0 ] || { grep -hv '^OK' "$tmp"/part.a?."$1" | head; fail "$1: status $status"; }
	done
}

reached "files" "$count" "$(scaled 10000)"
reached "files of a megabyte and more" "$(tr '\n' '\0' <"$tmp/list" | du -k --apparent-size --files0-from=- | awk '$1 >= 1024' | wc -l)" 2
all_parts put_part
[ "$(cat "$tmp"/part.a?.put_part | grep -c '^OK$')" = "$count" ] || fail "not every PUT was answered by OK"
[ "$(stat keys)" = "$count" ] || fail "$(stat keys) keys for $count files"
gets_before=$(stat operations.get)
all_parts get_part
say "GETs that had to ask kvd: $(($(stat operations.get) - gets_before))"

for part in "$tmp"/part.a?; do
	awk -v dir="$part.back" '{ printf "%s\n%s/%d\n", $0, dir, NR }' "$part" | tr '\n' '\0' |
		xargs -0 sha256sum | awk '{ sum = $1; if (NR % 2) want = sum
			else if (want != sum) { print "differs:", $2; bad = 1 } n++ }
			END { exit bad || n == 0 }' || fail "a file came back otherwise"
done
[ "$(find "$tmp"/part.a?.back -type f | wc -l)" = "$count" ] || fail "files are missing"
stop_kvd
