#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A data folder that is damaged is not served, and kvd says what is wrong; only a log
# whose last record is torn, as a crash of the machine leaves it, is taken up to there.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
requires_durability
good=$tmp/good data=$tmp/data

# flip FILE OFFSET: one bit of it.
flip() {
	local byte
	byte=$(od -An -tu1 -j "$2" -N 1 "$1") || fail "flip"
	printf "\\x$(printf %02x $((byte ^ 4)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

the() { # the PATTERN: the one file of that name that has something in it
	find "$data" -name "$1" -size +0 | sort | tail -n 1
}

fresh() { rm -rf "$data"; cp -a "$good" "$data"; }

refused() {
	timeout 60 "$KVD_BUILD/kvd" --listen 127.0.0.1:0 --memory 64M --data-dir "$data" 2>"$tmp/err"
	status=$?
	check_log "$tmp/err"
	[ $status = 1 ] || { cat "$tmp/err"; fail "status $status with $1"; }
	grep -q "kvd: error: .*$data" "$tmp/err" || { cat "$tmp/err"; fail "no reason with $1"; }
	say "$1: $(grep error "$tmp/err" | head -n 1 | sed "s,$data,DIR,g")"
}

taken() {
	start_kvd --memory 64M --data-dir "$data"
	[ "$(kvcli keys | wc -l)" -ge "$2" ] || fail "$(kvcli keys | wc -l) keys with $1"
	expect 0 kvcli get key1; prints "value 1"
	stop_kvd
	say "$1: taken, $(grep -c torn "$kvd_log") warning"
}

# Some in files, some in the log.
start_kvd --memory 64M --data-dir "$good"
for ((i = 1; i <= 50; i++)); do echo "put key$i 'value $i'"; done | kvcli --stop-on-error >/dev/null || fail "put"
stop_kvd
start_kvd --memory 64M --data-dir "$good"
for ((i = 51; i <= 100; i++)); do echo "put key$i 'value $i'"; done | kvcli --stop-on-error >/dev/null || fail "put"
kill_kvd

fresh; taken "nothing" 100
fresh; log=$(the '*.log'); bytes=$(/usr/bin/stat -c %s "$log")
truncate -s $((bytes - 5)) "$log"; taken "a torn end" 99
fresh; flip "$(the '*.log')" $((bytes - 5)); taken "a bad last record" 99
grep -q "torn" "$kvd_log" || fail "a bad last record is passed over in silence"
fresh; flip "$(the '*.log')" $((bytes / 2)); refused "a bad log"
fresh; flip "$(the '*.log')" 20; refused "a bad first record"
fresh; flip "$(the '*.sst')" 40; refused "a bad file"
fresh; rm "$(the '*.sst')"; refused "a missing file"
fresh; rm "$(the '*.log')"; refused "a missing log"
fresh; rm "$(the CURRENT)"; refused "a missing CURRENT"
fresh; flip "$(the 'MANIFEST*')" 30; refused "a bad MANIFEST"
fresh; rm "$(the 'MANIFEST*')"; refused "a missing MANIFEST"
fresh; rm "$(the KVD-DATA)"; refused "a missing KVD-DATA"
fresh; echo "kvd data, format 9" >"$data/KVD-DATA"; refused "another format"
fresh; rm -rf "$data"; echo x >"$data"; refused "a file"
rm -rf "$data"; mkdir "$data"; echo x >"$data/mine"; refused "somebody else's folder"
