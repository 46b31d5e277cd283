# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The kit of tests with a cluster, behind kit.sh: a real ZooKeeper, members, and what they are.

jar=/usr/share/java/zookeeper.jar
addr=() pids=() logs=() names=()

requires_cluster() {
	requires java python3
	[ -r $jar ] || skip "ZooKeeper's server is not installed (Debian: zookeeper)"
	grep -q '^#define HAVE_ZOOKEEPER 1' "$KVD_BUILD/config.h" || skip "kvd was built without ZooKeeper"
	[ $soft = 1 ] || [ "${KVD_VM-}" = 1 ] || skip "it is for the software device, and for the guest"
	head -c 32 /dev/urandom | basenc --base64url | tr -d = >"$tmp/key"
}

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# start_zookeeper: sets zk_port at first, zk_pid, and zookeepers; again where it was, with what it had.
start_zookeeper() {
	if [ -z "${zk_port-}" ]; then
		zk_port=$(free_port)
		zookeepers=127.0.0.1:$zk_port
		mkdir -p "$tmp/zk"
		printf 'dataDir=%s\nclientPort=%s\nclientPortAddress=127.0.0.1\ntickTime=500\nadmin.enableServer=false\n' \
			"$tmp/zk" "$zk_port" >"$tmp/zk.cfg"
	fi
	run_zookeeper "$tmp/zk"
	zk_pid=$pid
}

run_zookeeper() {
	start java -Xmx96m -cp $jar org.apache.zookeeper.server.quorum.QuorumPeerMain "$1.cfg" >>"$1.log" 2>&1
}

# start_ensemble: a ZooKeeper of three, which goes on without one; sets zookeepers and zk_pids.
start_ensemble() {
	local i ports=() all
	zookeepers='' zk_pids=()
	for i in 0 1 2 3 4 5 6 7 8; do
		ports[i]=$(free_port)
	done
	for i in 0 1 2; do
		all="${all-}server.$i=127.0.0.1:${ports[i + 3]}:${ports[i + 6]};127.0.0.1:${ports[i]}
"
		zookeepers=$zookeepers${zookeepers:+,}127.0.0.1:${ports[i]}
	done
	for i in 0 1 2; do
		mkdir -p "$tmp/zk$i"
		echo $i >"$tmp/zk$i/myid"
		printf 'dataDir=%s\ntickTime=200\ninitLimit=50\nsyncLimit=10\nadmin.enableServer=false\n%s' \
			"$tmp/zk$i" "$all" >"$tmp/zk$i.cfg"
		start_server $i
	done
}

# start_server I: of the ensemble.
start_server() {
	run_zookeeper "$tmp/zk$1"
	zk_pids[$1]=$pid
}

kill_server() {
	kill -KILL "${zk_pids[$1]}"
	wait_exit "${zk_pids[$1]}"
}

# zookeeper_leader: sets leader to which server of the ensemble leads.
zookeeper_leader() {
	local ports
	IFS=', ' read -r -a ports <<<"${zookeepers//127.0.0.1:/}"
	for leader in 0 1 2; do
		(exec 3<>"/dev/tcp/127.0.0.1/${ports[leader]}" && echo srvr >&3 && timeout 2 cat <&3) 2>/dev/null |
			grep -q '^Mode: leader' && return
	done
	return 1
}

# start_member N ARG...: sets addr[N], pids[N], logs[N] and names[N].
start_member() {
	start_kvd --memory 64M --workers 2 --poll event --cluster "$zookeepers/test" --cluster-key "$tmp/key" "${@:2}"
	addr[$1]=$KVD_ADDR pids[$1]=$KVD_PID logs[$1]=$kvd_log
	names[$1]=$(stat cluster.member)
}

# on N: the next kvcli is for that one.
on() { KVD_ADDR=${addr[$1]}; }

state_is() { on "$1"; [ "$(stat cluster.state)" = "$2" ]; }

# one_is_primary A B...: sets primary, and backup, the last of the others that are that.
one_is_primary() {
	local i
	primary='' backup=''
	for i; do
		on "$i"
		case $(stat cluster.state) in
		primary) primary=$i ;;
		backup) backup=$i ;;
		esac
	done
	[ -n "$primary" ] && [ -n "$backup" ]
}

reaches() { wait_for grep -q 'ZooKeeper.*: connected' "${logs[$1]}" || fail "ZooKeeper doesn't answer"; }

# made [COPIES]: it is made also where ZooKeeper took longer than an earlier question waited.
made() {
	kvcli cluster init ${1:+--copies "$1"} >"$tmp/out" 2>"$tmp/err" || grep -q 'is made already' "$tmp/err"
}

# init_cluster [COPIES]: once so many are there.
init_cluster() { wait_for made "$@" || fail "the cluster can't be made"; }

served() { kvcli put key value 2>/dev/null; }

# start_two: a ZooKeeper and a cluster of two, which serves; sets primary and backup.
start_two() {
	start_zookeeper
	start_member 1
	start_member 2
	init_cluster 2
	wait_for one_is_primary 1 2 || fail "nobody is primary"
	on "$primary"
	wait_for served || fail "the primary doesn't serve"
}

kill_member() {
	kill -KILL "${pids[$1]}"
	wait_exit "${pids[$1]}"
	check_log "${logs[$1]}"
}

# stop_members: all of them; others may be started.
stop_members() {
	local i
	for i in "${!pids[@]}"; do kill -TERM "${pids[i]}"; done
	for i in "${!pids[@]}"; do wait_exit "${pids[i]}"; done
	addr=() pids=() logs=() names=()
}

# -------------------------------------------------------------------- three that come and go
# ask_member N: its figures, for of_member NAME; false: it does not answer.
ask_member() {
	figures=$("$KVD_BUILD/kvcli" -s "${addr[$1]}" -t 2s stats --json 2>/dev/null | flatten) &&
		[ -n "$figures" ]
}
of_member() { awk -v path="cluster.$1" '$1 == path { print $2 }' <<<"$figures"; }

# one_serves N: sets primary, of all in addr; N, which may be frozen, is not asked.
one_serves() {
	for primary in "${!addr[@]}"; do
		[ "$primary" != "$1" ] && ask_member "$primary" && [ "$(of_member state)" = primary ] && return
	done
	return 1
}
is_whole() { one_serves 0 && [ "$(of_member in_sync)" = ${#addr[@]} ]; }

# without_was: as one_serves, of all but was.
without_was() { one_serves "$was"; }

# restart N ARG...: comes back as another one, empty, where clients know it.
restart() { start_member "$1" --listen "${addr[$1]}" "${@:2}"; }

# -------------------------------------------------------------------- keys of before
# put_old N, check_old N: so many keys; each has its value at the primary.
put_old() {
	for ((i = 0; i < $1; i++)); do
		echo "put old$i value$i"
	done | "$KVD_BUILD/kvcli" -s "${addr[$primary]}" >"$tmp/out" || fail "put"
	! grep -v '^OK$' "$tmp/out" | grep -q . || fail "a key was not stored"
}
check_old() {
	for ((i = 0; i < $1; i++)); do
		echo "get old$i"
	done | "$KVD_BUILD/kvcli" -s "${addr[$primary]}" >"$tmp/out" || fail "get"
	for ((i = 0; i < $1; i++)); do
		echo "value$i"
	done | cmp - "$tmp/out" || fail "keys of before are lost or others"
}

# -------------------------------------------------------------------- more than fits
requires_filler() {
	export KVD_LIBRARY=$KVD_BUILD/client/.libs/libkvd.so PYTHONPATH=$KVD_SOURCE/python PYTHONDONTWRITEBYTECODE=1
	[ -e "$KVD_LIBRARY" ] || skip "built without shared libraries"
}
# fill put|check ...: fill.py says how.
fill() { python3 "$KVD_SOURCE/tests/lib/cluster/fill.py" "$@" 2>"$tmp/err" || { cat "$tmp/err"; return 1; }; }
