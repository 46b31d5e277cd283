#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Malformed messages, and such as come when they must not, to a kvd that others use: each
# ends its connection and is counted, and the others go on. KVD_FLOOD: how many (the whole
# campaign: 100000; in parts with other seeds: KVD_FLOOD_SEED), from KVD_FLOOD_PROCESSES (20).
#
# What the others lose is measured against the same flood at another kvd of this machine,
# in turns of a few seconds: whoever floods takes processors, here those of the others, and
# takes them in both cases. What is left is what the flood does to the kvd that it is at.
# In the campaign they are also compared with themselves alone.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
attack=$KVD_BUILD/tests/attack/attack
users=$tmp/users
turn_s=3 turns=3 least_percent=70 processes=8 seed=${KVD_FLOOD_SEED:-1}
(umask 077; kvd init --users "$users" >"$tmp/admin" 2>/dev/null) || fail "init"
export KVD_CREDENTIALS_FILE=$tmp/admin
n=${KVD_FLOOD:-$(scaled 3000)}
[ "$n" -le 10000 ] || processes=${KVD_FLOOD_PROCESSES:-20}
n=$((n / processes * processes))
campaign=${KVD_FLOOD:-}
workload=$KVD_SOURCE/bench/workloads/workloada
kvbench() { "$KVD_BUILD/kvbench" "$1" -s "$addr" -P "$workload" -p recordcount=1000 -t 2 "${@:2}"; }
throughput() { sed -n 's/^\[OVERALL\], Throughput(ops\/sec), //p' "$1"; }

# The other one first, so that the last kvd of the kit is the one that is used.
start_kvd --memory 64M --users "$users" --handshakes 0
other=$KVD_ADDR other_pid=$KVD_PID
start_kvd --memory 64M --users "$users" --handshakes 0
addr=$KVD_ADDR
kvbench load >/dev/null 2>"$tmp/err" || { cat "$tmp/err"; fail "load"; }

end_group() { kill -KILL -- "-$1" 2>/dev/null; }
# flood_at ADDR N: sets $pid, a group of processes that is stopped.
flood_at() {
	start setsid "$attack" "$1" flood "$2" "$seed" "$processes" "$tmp/admin" >"$tmp/flood.$1"
	cleanup_fn end_group "$pid"
	wait_for kill -STOP -- "-$pid" 2>/dev/null || fail "no flood"
}
errors_at() {
	"$KVD_BUILD/kvcli" -s "$1" stats --json | flatten | awk '$1 == "protocol_errors" { print $2 }'
}
# turn NAME GROUP ADDR: the others' rate while this group floods that kvd ('': nobody).
turn() {
	local before after
	[ -z "$2" ] || { before=$(errors_at "$3"); kill -CONT -- "-$2" 2>/dev/null; }
	kvbench run --duration "$turn_s" >"$tmp/run" 2>"$tmp/err" || { cat "$tmp/err"; fail "run"; }
	[ -z "$2" ] || { kill -STOP -- "-$2" 2>/dev/null; after=$(errors_at "$3"); }
	echo "$1 $(throughput "$tmp/run") ${2:+$(((after - before) / turn_s))}" >>"$tmp/turns"
}
flood_at "$other" 100000000
control=$pid
flood_at "$addr" "$n"
flood=$pid
turn alone '' ''
while :; do
	turn own $flood "$addr"
	turn other $control "$other"
	if [ -n "$campaign" ]; then turn alone '' ''; else turn other $control "$other"; fi
	turn own $flood "$addr"
	turns=$((turns - 2))
	# Until all of it is through, and there are enough turns.
	[ $turns -gt 0 ] || gone $flood || { [ "$n" -gt 10000 ] && [ $SECONDS -lt 3000 ]; } || break
	! gone $flood || break
done
turn alone '' ''
end_group $control
wait "$control" 2>/dev/null
say "$(($(cpu_ticks "$other_pid") * 1000000 / $(getconf CLK_TCK) / $(errors_at "$other"))) us of kvd's processor time for each, with its connection"
kill -CONT -- "-$flood" 2>/dev/null
patience_s=3600 wait_exit $flood
cat "$tmp/flood.$addr"
[ "$status" = 0 ] || fail "the flood: $status"
say "$(errors_at "$addr") messages were counted as malformed"
[ "$(errors_at "$addr")" -ge $((n * 8 / 10)) ] || fail "not counted"
awk -v least=$least_percent -v campaign="$campaign" '
	{ sum[$1] += $2; bad[$1] += $3; n[$1]++ }
	END {
		for (k in sum) { sum[k] /= n[k]; bad[k] /= n[k] }
		printf "# others: %.0f/s alone; %.0f/s while theirs gets %.0f messages a second\n", sum["alone"],
			sum["own"], bad["own"]
		printf "# %.0f/s while another kvd gets %.0f of them a second\n", sum["other"], bad["other"]
		elsewhere = 100 * sum["own"] / sum["other"]
		alone = 100 * sum["own"] / sum["alone"]
		printf "# %.0f %% of what the same flood elsewhere leaves them, %.0f %% of what they have alone\n",
			elsewhere, alone
		exit elsewhere < least || (campaign && alone < least)
	}' "$tmp/turns" || { cat "$tmp/turns"; fail "the others are disturbed"; }
stop_kvd

# With the limit on: an address that sends such is soon kept out, those who are in go on.
start_kvd --memory 64M --users "$users"
open_batch --credentials "$tmp/admin"
ask "put key value"
SECONDS=0
timeout 60 "$attack" "$KVD_ADDR" flood 400 2 1 "$tmp/admin" >"$tmp/out" 2>"$tmp/err" && fail "400 were let in"
says "too many handshakes"
ask "get key"
[ "$answer" = value ] || fail "who is in is not served: $answer"
ask "stats --json"
bad=$(echo "$answer" | flatten | awk '$1 == "protocol_errors" { print $2 }')
say "$bad malformed messages in one go"
[ "${bad:-0}" -ge 5 ] && [ "$bad" -le $((21 + 5 * (SECONDS + 1))) ] || fail "the limit: $bad"
close_batch 0
stop_kvd
