#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# kill -9 of a client while it writes, 100 times: kvd serves on, no memory is
# lost, every acknowledged value is intact.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
rounds=$(scaled 100 7) total=0 large_seen=0
start_kvd --memory 256M

# Values of two kinds: some go in a message, some are pulled by kvd.
large_bytes=$((200000 + $(scaled 2800000)))
head -c $large_bytes /dev/urandom >"$tmp/large"
small=$(printf 'v%.0s' $(seq 1000))

# commands ROUND: without end; the n-th key's value tells round and number.
commands() {
	local n
	for ((n = 0; ; n++)); do
		if [ $((n % 10)) = 9 ]; then
			echo "put large.$1.$((n % 30)) --file $tmp/large"
		else
			echo "put $1.$((n % 500)) $1-$n-$small"
		fi || return
	done 2>/dev/null
}

settled() { [ "$(stat connections)" = 1 ]; }

# The index doesn't shrink: let it grow to what a round needs first.  A flush leaves nothing
# else: each worker gives back what its heap keeps, within moments of the answer.
commands warm | head -n 600 | kvcli --timeout 60 >"$tmp/acks" || fail "put"
kvcli flush --yes || fail "flush"
used_before=$(stat memory.used_bytes)

# One round: killed after some tens of milliseconds of writing, at no fixed point.
for ((r = 0; r < rounds; r++)); do
	: >"$tmp/acks"
	start kvcli < <(commands $r) >"$tmp/acks" 2>/dev/null
	client=$pid
	target=$((r % 7 * 700))
	enough() { [ "$(wc -c <"$tmp/acks")" -gt $target ] || gone $client; }
	wait_for enough || fail "the client wrote nothing"
	alive $client || { cat "$tmp/acks" | tail -3; fail "the client ended by itself"; }
	kill -KILL $client
	wait_exit $client
	acked=$(grep -c '^OK$' "$tmp/acks")
	total=$((total + acked))
	# What was acknowledged is there, or what was on its way behind it.
	awk -v r=$r -v acked="$acked" 'BEGIN {
		for (n = 0; n < acked; n++) if (n % 10 != 9) last[n % 500] = n
		for (k in last) print k, last[k] }' >"$tmp/want"
	awk -v r=$r '{ print "get " r "." $1 }' "$tmp/want" | kvcli >"$tmp/got" ||
		fail "an acknowledged key of round $r is gone"
	paste -d' ' "$tmp/want" "$tmp/got" | awk -v r=$r -v small="$small" '{
		split($3, part, "-")
		if (part[1] != r || part[2] < $2 || part[2] % 500 != $1 || part[3] != small) {
			print "key", $1, "acked", $2, "has", substr($3, 1, 40); bad = 1 } }
		END { exit bad }' || fail "an acknowledged value of round $r is not intact"
	# Replaced in the next round: take them away.
	if [ "$acked" -gt 9 ]; then
		kvcli get large.$r.9 --output "$tmp/back" && cmp -s "$tmp/large" "$tmp/back" ||
			fail "an acknowledged large value of round $r is not intact"
		large_seen=$((large_seen + 1))
	fi
	kvcli flush --yes || fail "flush"
done
say "$rounds clients killed, $total changes acknowledged"
reached "changes acknowledged before a kill" "$total" $((rounds * 100))
reached "large values acknowledged before a kill" "$large_seen" $((rounds / 2))

wait_for settled || fail "$(stat connections) connections stay"
# What a killed client had sent may have been stored after the last round's flush.
kvcli flush --yes || fail "flush"
empty() { [ "$(stat memory.used_bytes)" -le "$used_before" ]; }
wait_for empty || lost=1
say "used before $used_before, after $(stat memory.used_bytes)"
[ -z "${lost-}" ] || fail "memory was lost"
stop_kvd
