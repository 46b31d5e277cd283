#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The disk gets full: changes fail and say why, GETs go on, and with room again changes
# are taken again. Then the same at random, under load, with kvd killed in between: all
# that clients saw is linearizable, and transactions are all or nothing.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
. "$KVD_SOURCE/tests/lib/small_disk.sh"
requires_durability
small_disk 48m
rounds=${KVD_TEST_ROUNDS:-$(scaled 20 6)}
options=(--memory 64M --workers 2 --data-dir "$disk/data" --durability sync)

# fill: to the last byte. A reserve is left for the database, which this takes as well.
fill() { dd if=/dev/zero of="$disk/filler" bs=64k >/dev/null 2>&1; true; }

start_kvd "${options[@]}"
kvcli put key old || fail "put"
fill_but 2000
expect 3 kvcli put key new; says "disk is full"
expect 3 kvcli put other new; says "nothing was changed"
expect 3 kvcli del key; says "disk"
expect 3 kvcli flush --yes; says "disk"
expect 0 kvcli get key; prints "old"
[ "$(stat durability.refusing)" = true ] || fail "it doesn't say that it refuses"
grep -q "error: changes are refused from now on, GETs go on: the disk of .* is full" "$kvd_log" ||
	fail "no word of it in the log"
make_room
takes() { kvcli put key newer 2>/dev/null; }
wait_for takes || fail "no change is taken with room again"
grep -q "taken again" "$kvd_log" || fail "no word of it in the log"
expect 0 kvcli get key; prints "newer"
# A kvd that can't start says why.
stop_kvd
fill
blocked() { kvd --listen 127.0.0.1:0 --memory 64M --data-dir "$disk/data"; }
expect 1 blocked; says "o space left"
make_room
start_kvd "${options[@]}"
expect 0 kvcli get key; prints "newer"

address=$KVD_ADDR
start "$KVD_BUILD/tests/torture/torture" -s "$address" --dir "$tmp" --seconds 86400 --clients 4 \
	--threads 2 --readers 1 --keys 24 --value-max 40000 --seed "${KVD_TEST_SEED:-1}" \
	--until "$tmp/end" >"$tmp/torture.log" 2>&1
torture=$pid
start "$KVD_BUILD/tests/torture/bank" "$address" 2 86400 20 0 "${KVD_TEST_SEED:-1}" "$tmp/end" \
	>"$tmp/bank.log" 2>&1
bank=$pid
under_way() { [ "$(stat connections)" -ge 12 ]; }
wait_for under_way || fail "the clients don't begin"
well() { alive $torture && alive $bank; }
refused=0 unknown=0
for ((round = 1; round <= rounds; round++)); do
	sleep 0.$((RANDOM % 200 + 100)) # at random is what it is about
	well || break
	if [ $((round % 2)) = 1 ]; then fill; else fill_but $((RANDOM % 6000)); fi
	sleep 0.$((RANDOM % 300 + 100))
	refused=$((refused + $(stat durability.refused))) unknown=$((unknown + $(stat durability.unknown)))
	case $((round % 3)) in
	0) # killed while it is full
		kill_kvd
		make_room
		start_kvd --listen "$address" "${options[@]}"
		;;
	1) # goes on by itself
		make_room
		wait_for takes || fail "no change is taken with room again"
		;;
	2) # and is killed then
		make_room
		sleep 0.$((RANDOM % 900 + 100))
		kill_kvd
		start_kvd --listen "$address" "${options[@]}"
		;;
	esac
done
echo end >"$tmp/end"
wait_exit $bank; bank_status=$status
wait_exit $torture; torture_status=$status
cat "$tmp/torture.log" "$tmp/bank.log"
say "$((round - 1)) rounds, $refused changes refused, $unknown unknown"
[ $torture_status = 0 ] || fail "the history"
[ $bank_status = 0 ] || fail "the bank"
[ $round -gt $rounds ] || fail "a client ended early"
reached "changes refused for want of room" $refused 1
stop_kvd
