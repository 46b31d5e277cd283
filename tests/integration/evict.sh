#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A kvd that is a cache never refuses a PUT for want of memory: it removes what is used
# least, also if only one-sided GETs use it, and never what is locked.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"

expect 1 kvd --listen 127.0.0.1:0 --evict --data-dir "$tmp/data"; says "exclude each other"
expect 1 kvd --check-config --evict --data-dir "$tmp/data"; says "exclude each other"

# Zipf's law, ten keys for each that there is room for: better than LRU's list (0.72 to
# 0.77), and every value is that of the key's last PUT, or none.
start_kvd --memory 16M --workers 1 --evict
expect 0 "$KVD_BUILD/bench/enginebench" "$KVD_ADDR" cache "$(($(scaled 380000) + 20000))" 1000
cat "$tmp/out"
of() { awk -v n="$1" '$1 == n { print $2 }' "$tmp/out"; }
compute "$(of hit_ratio) > $(of lru_ratio) - 0.02" || fail "fewer hits than LRU: used keys go"
compute "$(of evictions) > 1000" || fail "nothing was removed"
compute "$(of hint_messages_per_get) > 0" || fail "kvd is told of no GET"
compute "$(of hint_messages_per_get) < 0.01" || fail "a message for so few GETs"
[ "$(stat memory.used_bytes)" -le $((16 << 20)) ] || fail "more is used than there is"
stop_kvd

# The same of 16 to 1,000 bytes each: an LRU list of as many bytes.
start_kvd --memory 16M --workers 1 --evict
expect 0 "$KVD_BUILD/bench/enginebench" "$KVD_ADDR" cache "$(($(scaled 380000) + 20000))" 0
cat "$tmp/out"
compute "$(of hit_ratio) > $(of lru_ratio) - 0.02" || fail "values of many lengths: fewer hits than LRU"
compute "$(of evictions) > 1000" || fail "nothing was removed"
stop_kvd

# Keys that only one-sided GETs use are there at the end; those that came with them and
# were not used are not.
start_kvd --memory 16M --workers 2 --evict
text=$(printf 'v%.0s' $(seq 400))
count=$(scaled 160000)
# From 100,000 on keys, and so items, are longer by a byte: slots of another class.
[ "$count" -gt 130000 ] || count=130000
for ((i = 0; i < 100; i++)); do
	echo "put hot$i $text"
	echo "put cold$i $text"
done >"$tmp/first"
for ((i = 0; i < count; i++)); do
	echo "put key$i $text"
	echo "get hot$((i % 100))"
done >"$tmp/flood"
kvcli <"$tmp/first" >"$tmp/out" || fail "the first keys"
kvcli <"$tmp/flood" >"$tmp/out" 2>"$tmp/err"
! grep -q '^ERROR' "$tmp/out" "$tmp/err" || fail "an error: $(grep -h -m1 '^ERROR' "$tmp/out" "$tmp/err")"
hot=0 cold=0
for ((i = 0; i < 100; i++)); do
	kvcli get "hot$i" >/dev/null 2>&1 && hot=$((hot + 1))
	kvcli get "cold$i" >/dev/null 2>&1 && cold=$((cold + 1))
done
say "$hot of 100 used keys are there, $cold of 100 that were not"
[ "$hot" -ge 90 ] || fail "keys that were used all the time are gone"
[ "$cold" -le 50 ] || fail "keys that nobody used are there"

# A locked key stays.  Those of the flood that share its lock are answered busy after two
# seconds: eight clients at a time wait for that, and the holder may.
stop_kvd
start_kvd --memory 16M --workers 2 --evict --lease 600000
grep '^put' "$tmp/flood" | split -n r/8 - "$tmp/flood."
flood_at_once() {
	local file
	for file in "$tmp"/flood.*; do
		"$KVD_BUILD/kvcli" -s "$KVD_ADDR" <"$file" >/dev/null 2>&1 &
	done
	wait
	"$KVD_BUILD/kvcli" -s "$KVD_ADDR" get mine
}
export -f flood_at_once
export tmp KVD_BUILD KVD_ADDR
kvcli put mine precious
kvcli lock mine -- bash -c flood_at_once >"$tmp/mine" || fail "lock"
[ "$(stat eviction.evictions)" -gt 10000 ] || fail "nothing was removed"
[ "$(cat "$tmp/mine")" = precious ] || fail "a locked key was removed"
stop_kvd

# Values of all sizes, also such as take whole pages side by side.
start_kvd --memory 32M --workers 2 --evict
head -c 3000000 /dev/urandom >"$tmp/large"
for ((i = 0; i < 2000; i++)); do
	case $((i % 100)) in
	50) echo "put large$i --file $tmp/large" ;;
	*[13579]) echo "put key$i $text$text$text" ;;
	*) echo "put key$i ${text:0:$((i * 7 % 300 + 1))}" ;;
	esac
	for ((j = 0; j < 20; j++)); do echo "put small$i.$j ${text:0:$((j * 20 + 1))}"; done
done >"$tmp/mixed"
kvcli <"$tmp/mixed" >"$tmp/out" 2>"$tmp/err"
! grep -q '^ERROR' "$tmp/out" "$tmp/err" || fail "an error: $(grep -h -m1 '^ERROR' "$tmp/out" "$tmp/err")"
kvcli get large1950 --output "$tmp/back" && cmp -s "$tmp/large" "$tmp/back" || fail "the last large value"
[ "$(stat eviction.evictions)" -gt 100 ] || fail "nothing was removed"
expect 3 kvcli put huge --file <(head -c 33000000 /dev/urandom)
stop_kvd
