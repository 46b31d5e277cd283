#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# kvcli txn: a batch of operations takes place as a whole or not at all.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
start_kvd --memory 64M

# -------------------------------------------------------------- what it does
expect 0 kvcli txn 'put a 1' 'put "b c" "two words"' 'absent d'
prints ''
expect 0 kvcli txn 'get a' 'get "b c"' 'get none'
prints $'1\ntwo words\n(not found)\n'
expect 0 kvcli txn 'check a 1' 'put a 2' 'get a' 'del "b c"' 'get "b c"'
prints $'2\n(not found)\n'
expect 0 kvcli get a
prints 2
expect 1 kvcli get 'b c'

# ---------------------------------------------------------- all or nothing
expect 1 kvcli txn 'put a 3' 'put e 1' 'check f 1'
says '"f" is not there: nothing was done'
expect 1 kvcli txn 'put a 3' 'check a 2' 'put e 1'
says '"a" has another value'
expect 1 kvcli txn 'check a 3' 'del a'
expect 1 kvcli txn 'absent a' 'put a 9'
says '"a" is there'
expect 1 kvcli txn 'put e 1' 'present none'
expect 0 kvcli get a
prints 2
expect 1 kvcli get e

# -------------------------------------------------------------- wrong batches
expect 2 kvcli txn 'put a 9' 'get'
says 'there are get KEY'
expect 2 kvcli txn 'put a 9' 'steal a'
expect 2 kvcli txn 'put a 9' 'put a "'
for ((i = 0; i < 17; i++)); do echo "put key$i 1"; done >"$tmp/many"
expect 2 kvcli txn <"$tmp/many"
says '16 keys'
expect 1 kvcli get key0
expect 0 kvcli get a
prints 2

# ------------------------------------------------- from standard input, a shell
printf '# a batch\nput a 4\n\nget a\n' >"$tmp/lines"
expect 0 kvcli txn <"$tmp/lines"
prints $'4\n'
expect 0 kvcli <<<"txn 'check a 4' 'put a \"5 6\"' 'get a'"
prints $'5 6\nOK\n'
expect 2 kvcli <<<"txn"

# ------------------------------------------------------- several at the same time
# Each moves 1 from one account to another, as often as it takes: none is lost.
rounds=$((20 * ${KVD_TEST_SCALE:-100} / 100 + 2))
expect 0 kvcli txn 'put x 1000' 'put y 1000'
move() {
	local i x y
	for ((i = 0; i < rounds;)); do
		mapfile -t got < <(kvcli txn 'get x' 'get y')
		x=${got[0]} y=${got[1]}
		[ $((x + y)) = 2000 ] || return 1
		kvcli txn "check x $x" "check y $y" "put x $((x - 1))" "put y $((y + 1))" 2>/dev/null
		case $? in
		0) i=$((i + 1)) ;;
		1) ;;
		*) return 1 ;;
		esac
	done
}
movers=()
for m in 1 2 3; do
	move &
	movers+=($!)
done
for pid in "${movers[@]}"; do
	wait "$pid" || fail "a mover failed, or saw another sum"
done
expect 0 kvcli txn 'get x' 'get y'
prints "$((1000 - 3 * rounds))"$'\n'"$((1000 + 3 * rounds))"$'\n'
