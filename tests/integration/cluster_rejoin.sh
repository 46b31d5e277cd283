#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Clusters of two and of three whose primary is killed, or stopped, again and again: the dead one
# comes back empty, gets a copy while changes go on, and is of the set before the next round. A joiner
# is killed, or stopped, too. Writers know what was acknowledged; all of it is there, at each time, and at
# the end at the last member.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"

jar=/usr/share/java/zookeeper.jar
requires java python3
[ -r $jar ] || skip "ZooKeeper's server is not installed (Debian: zookeeper)"
grep -q '^#define HAVE_ZOOKEEPER 1' "$KVD_BUILD/config.h" || skip "kvd was built without ZooKeeper"
[ $soft = 1 ] || skip "it is for the software device, yet"
rounds=$(scaled 24 4)
keys=$(scaled 20000 1000)

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

start_zookeeper() {
	zk_port=$(free_port)
	mkdir -p "$tmp/zk"
	printf 'dataDir=%s\nclientPort=%s\nclientPortAddress=127.0.0.1\ntickTime=500\nadmin.enableServer=false\n' \
		"$tmp/zk" "$zk_port" >"$tmp/zk.cfg"
	start java -Xmx96m -cp $jar org.apache.zookeeper.server.ZooKeeperServerMain "$tmp/zk.cfg" \
		>"$tmp/zk.log" 2>&1
}

# start_member N ARG...: sets addr[N], pids[N], logs[N], names[N].
start_member() {
	start_kvd --memory 128M --workers 2 --poll event --cluster "127.0.0.1:$zk_port/test$members" \
		--cluster-key "$tmp/key" "${@:2}"
	addr[$1]=$KVD_ADDR pids[$1]=$KVD_PID logs[$1]=$kvd_log
	names[$1]=$(sed -n 's/.*by the name of //p' "$kvd_log")
	printf '%s\n' "${addr[@]}" >"$tmp/addresses.new"
	mv "$tmp/addresses.new" "$tmp/addresses"
}

# The JSON of a member's part in the cluster.
cluster_of() {
	"$KVD_BUILD/kvcli" -s "${addr[$1]}" stats --json 2>/dev/null | tr -d '\n ' |
		grep -o '"cluster":{[^}]*'
}

# Sets $primary; $1 is not asked.
one_is_primary() {
	local i
	for ((i = 1; i <= members; i++)); do
		[ $i = "$1" ] || ! cluster_of $i | grep -q '"state":"primary"' || { primary=$i; return 0; }
	done
	return 1
}

# All are of the set, by the word of the primary.
is_whole() {
	local i set
	one_is_primary 0 || return 1
	set=$(cluster_of $primary | grep -o '"set":"[^"]*"')
	for ((i = 1; i <= members; i++)); do
		case $set in *"${names[$i]}"*) ;; *) return 1 ;; esac
	done
}

await_take_over() {
	wait_for one_is_primary "$victim" || { cat "${logs[@]}"; fail "$1: nobody takes over"; }
}

await_return() {
	local was=$EPOCHREALTIME
	wait_for is_whole || { cat "${logs[@]}"; fail "$1: the member doesn't come back into the set"; }
	say "$1: back in the set after $(awk "BEGIN { printf \"%d\", ($EPOCHREALTIME - $was) * 1000 }") ms"
	alive "$load_pid" || fail "$1: the writers ended: $(cat "$tmp/load.out")"
}

kill_member() {
	kill -KILL "${pids[$1]}"
	wait_exit "${pids[$1]}"
	check_log "${logs[$1]}"
}

# By its name, or by another one.
restart() {
	if [ $((round % 2)) = 0 ]; then
		start_member "$1" --cluster-listen "${names[$1]}"
	else
		start_member "$1"
	fi
}

# says_more PATTERN COUNT: the primary's log has more such lines than that.
said() { grep -c -e "$1" "${logs[$primary]}"; }
says_more() { [ "$(said "$1")" -gt "$2" ]; }

# The primary dies, and then the joiner dies, or stands still, on its way in.
harm_joiner() {
	local begun="copying the shard to member" ended="is given up\|is of the set" was were
	kill_member "$victim"
	await_take_over "round $round, killed"
	was=$(said "$begun") were=$(said "$ended")
	restart "$victim"
	wait_for says_more "$begun" "$was" || fail "round $round: nothing is copied"
	if [ "$1" = killed ]; then
		kill_member "$victim"
		restart "$victim"
	else
		stop_process "${pids[$victim]}"
		wait_for says_more "$ended" "$were" ||
			fail "round $round: a joiner that stands still is waited for"
		resume_process "${pids[$victim]}"
	fi
}

one_round() {
	victim=$primary
	case $((round % 4)) in
	1)
		kill_member "$victim"
		await_take_over "round $round, killed"
		restart "$victim"
		;;
	2) harm_joiner killed ;;
	3)
		stop_process "${pids[$victim]}"
		await_take_over "round $round, stopped"
		resume_process "${pids[$victim]}"
		;;
	0) harm_joiner stopped ;;
	esac
	await_return "of $members, round $round"
}

# Each key of before has its value at the primary.
check_old() {
	for ((i = 0; i < keys; i++)); do
		echo "get old$i"
	done | "$KVD_BUILD/kvcli" -s "${addr[$primary]}" >"$tmp/out" || fail "get"
	for ((i = 0; i < keys; i++)); do
		echo "value$i"
	done | cmp - "$tmp/out" || fail "keys of before are lost or others"
}

made() { "$KVD_BUILD/kvcli" -s "${addr[1]}" cluster init --copies "$members" >"$tmp/out" 2>&1; }

# run_cluster N ROUNDS
run_cluster() {
	members=$1 addr=() pids=() logs=() names=()
	rm -f "$tmp/stop"
	for ((i = 1; i <= members; i++)); do
		start_member $i
	done
	wait_for made || { cat "${logs[@]}"; fail "the cluster can't be made"; }
	wait_for is_whole || { cat "${logs[@]}"; fail "nobody is primary of all"; }
	for ((i = 0; i < keys; i++)); do
		echo "put old$i value$i"
	done | "$KVD_BUILD/kvcli" -s "${addr[$primary]}" >"$tmp/out" || fail "put"
	! grep -v '^OK$' "$tmp/out" | grep -q . || fail "a key was not stored"
	start python3 "$KVD_SOURCE/tests/integration/cluster_load.py" "$KVD_BUILD/kvcli" \
		"$tmp/addresses" "$tmp/stop" 4 50 >"$tmp/load.out" 2>&1
	load_pid=$pid
	for ((round = 1; round <= $2; round++)); do
		one_round
	done
	touch "$tmp/stop"
	wait_exit "$load_pid"
	cat "$tmp/load.out"
	[ "$status" = 0 ] || { cat "${logs[@]}"; fail "an acknowledged change is lost, or one came twice"; }
	reached "changes were acknowledged" "$(sed -n 's/^changes //p' "$tmp/load.out")" $(($2 * 10))
}

# One after the other goes; the last one has all.
end_cluster() {
	local left=$members
	while [ $left -gt 1 ]; do
		victim=$primary
		kill_member "$victim"
		addr[$victim]=127.0.0.1:1
		await_take_over "at the end"
		left=$((left - 1))
	done
	check_old
	kill -TERM "${pids[$primary]}"
	wait_exit "${pids[$primary]}"
	[ "$status" = 0 ] || fail "the last member ended with $status"
}

head -c 32 /dev/urandom | basenc --base64url | tr -d = >"$tmp/key"
start_zookeeper
run_cluster 2 "$rounds"
end_cluster
run_cluster 3 "$rounds"
end_cluster
