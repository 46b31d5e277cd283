#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A full store refuses the PUT, keeps the old value, serves on, and takes values
# again once some are deleted.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
start_kvd --memory 32M

# A flush leaves nothing but the index (buckets of 64 bytes, in segments of 64 KiB): each
# worker gives back what its heap keeps, within moments of the answer.
beside_buckets() { echo $(($(stat memory.used_bytes) - 64 * $(stat index.buckets))); }
at_start=$(beside_buckets)
text=$(printf 'v%.0s' $(seq 1000))
for ((i = 0; i < 4000; i++)); do echo "put key$i $text"; done | kvcli >"$tmp/out" || fail "put"
kvcli flush --yes || fail "flush"
empty() { [ $(($(beside_buckets) - at_start)) -le 65536 ]; }
wait_for empty || fail "$(($(beside_buckets) - at_start)) bytes are kept after a flush"

head -c 1000000 /dev/urandom >"$tmp/value"

kvcli put small old || fail "put"
for ((i = 0; i < 64; i++)); do echo "put key$i --file $tmp/value"; done | kvcli >"$tmp/out"
stored=$(grep -c '^OK$' "$tmp/out")
say "$stored values of 1 MB fit into 32 MiB"
[ "$stored" -ge 20 ] && [ "$stored" -lt 34 ] || fail "that is not what was to be expected"
[ "$(grep -c '^ERROR' "$tmp/out")" = $((64 - stored)) ] || fail "each of the others is an error"
grep -m1 '^ERROR' "$tmp/out"
grep '^ERROR' "$tmp/out" | grep -qi -e memory -e full || fail "the error doesn't say why"
[ "$(stat memory.used_bytes)" -le $((32 << 20)) ] || fail "more is used than there is"

# Each that was stored is intact; a refused change left the old value.
expect 3 kvcli put key0 --file <(head -c 16000000 /dev/urandom)
for ((i = 0; i < stored; i++)); do
	kvcli get key$i --output "$tmp/back" && cmp -s "$tmp/value" "$tmp/back" || fail "key$i"
done
expect 0 kvcli get small; prints "old"
expect 0 kvcli del key1 key2
expect 0 kvcli put key1 --file "$tmp/value"
expect 0 kvcli get key1 --output "$tmp/back"
cmp "$tmp/value" "$tmp/back" || fail "key1"

# Filled with another size after a flush: as much fits as should.
kvcli flush --yes || fail "flush"
count=$(scaled 40000)
for ((i = 0; i < count; i++)); do echo "put key$i $text"; done | kvcli >"$tmp/out"
stored=$(grep -c '^OK$' "$tmp/out")
say "$stored values of 1,000 bytes"
[ "$stored" -ge $((count < 22000 ? count : 22000)) ] || fail "memory was lost"
stop_kvd
