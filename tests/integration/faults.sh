#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A client whose device flips bits of what it READs, or tears it, never takes
# what came for a value: every answer is right, or none.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
[ $soft = 1 ] || skip "only the software device injects faults"
count=$(scaled 2000 500) # a fault in a hundred requests happens now and then
start_kvd --memory 64M

text=$(printf 'v%.0s' $(seq 400))
for ((i = 0; i < count; i++)); do echo "put key$i $i-$text"; done | kvcli >"$tmp/put"
[ "$(grep -c '^OK$' "$tmp/put")" = "$count" ] || fail "put $count keys"
head -c 300000 /dev/urandom >"$tmp/large"
expect 0 kvcli put large --file "$tmp/large"
for ((i = 0; i < count; i++)); do echo "get key$i"; done >"$tmp/gets"

# gets_under FAULTS: the answers are right or none at all.
gets_under() {
	under_faults "$1" kvcli <"$tmp/gets" >"$tmp/out" 2>"$tmp/err"
	check_faults "$1" "$tmp/faults"
	[ "$(wc -l <"$tmp/out")" = "$count" ] || { head -3 "$tmp/err"; fail "$1: not every GET was answered"; }
	awk -v text="$text" -v faults="$1" '$0 == NR - 1 "-" text { right++; next }
		/^\(not found\)$|^ERROR/ { none++; next }
		{ print "wrong:", substr($0, 1, 60); wrong++ }
		END { printf "# %s: %d right, %d none, %d wrong\n", faults, right, none, wrong; exit wrong > 0 }' \
		"$tmp/out" || fail "$1: a wrong value was returned"
	# A fault or none: it is a READ or two.
	if SOFTVERBS_FAULT=$1 kvcli get large --output "$tmp/back" 2>/dev/null; then
		cmp -s "$tmp/large" "$tmp/back" || fail "$1: a wrong large value was returned"
	fi
}

for seed in 1 2 3; do
	gets_under "seed=$seed,flip=1000"
	gets_under "seed=$seed,flip=200"
	gets_under "seed=$seed,torn=1000"
	gets_under "seed=$seed,error=20"
done
gets_under ""
[ "$(grep -c -e '(not found)' -e ERROR "$tmp/out")" = 0 ] || fail "without faults all must be right"
stop_kvd
