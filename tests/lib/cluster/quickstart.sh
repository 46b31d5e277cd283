# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
#
# ./quickstart --cluster: three kvds with one set of keys, and a ZooKeeper, on this machine. The caller
# has set build and work, and the functions that put, get and compare files.

packages_cluster="libzookeeper-mt-dev zookeeper default-jre-headless"
zookeeper_jar=/usr/share/java/zookeeper.jar
member_pids=() member_addrs=()

end_cluster() {
	local pid
	for pid in ${member_pids[@]+"${member_pids[@]}"} ${zookeeper_pid:+"$zookeeper_pid"}; do
		kill -TERM "$pid" 2>/dev/null
		wait "$pid" 2>/dev/null
	done
	member_pids=() zookeeper_pid=
}

# until_true SECONDS COMMAND ARG...
until_true() {
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.1
	done
}

# A port that was free a moment ago.
free_port() {
	local port
	for port in $(shuf -i 20000-32000 -n 50); do
		(exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return; }
	done
}

answers() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

start_zookeeper() {
	local port
	[ -r $zookeeper_jar ] || die "ZooKeeper is not there: $zookeeper_jar (Debian: zookeeper)."
	port=$(free_port)
	printf 'dataDir=%s\nclientPort=%s\nclientPortAddress=127.0.0.1\ntickTime=500\nadmin.enableServer=false\n' \
		"$work/zookeeper" "$port" >"$work/zookeeper.cfg"
	java -Xmx96m -cp $zookeeper_jar org.apache.zookeeper.server.ZooKeeperServerMain \
		"$work/zookeeper.cfg" >"$work/zookeeper.log" 2>&1 &
	zookeeper_pid=$!
	until_true 60 answers "$port" || { tail "$work/zookeeper.log"; die "ZooKeeper doesn't start."; }
	agreement=127.0.0.1:$port/quickstart
}

is_ready() { [ -s "$work/ready.$1" ] || ! kill -0 "${member_pids[$1]}" 2>/dev/null; }

# start_member N
start_member() {
	"$build/kvd" --device soft --listen 127.0.0.1:0 --ready-file "$work/ready.$1" --workers 1 \
		--memory $((bytes / 500000 + 128))M --cluster "$agreement" --cluster-key "$work/key" \
		2>"$work/kvd.$1.log" &
	member_pids[$1]=$!
	until_true 30 is_ready "$1"
	[ -s "$work/ready.$1" ] || { cat "$work/kvd.$1.log"; die "kvd doesn't start."; }
	member_addrs[$1]=$(cat "$work/ready.$1")
}

# It is made also where ZooKeeper took longer than an earlier question waited.
make_cluster() { kvcli cluster init --copies 3 >"$work/init" 2>&1 || grep -q 'is made already' "$work/init"; }

# primary_member: the number of the one that serves.
primary_member() {
	local i name
	name=$(kvcli cluster status --json | sed -n 's/.*"primary": *"\([^"]*\)".*/\1/p')
	for i in 0 1 2; do
		grep -q "by the name of $name\$" "$work/kvd.$i.log" && [ -n "$name" ] && echo "$i" && return
	done
}

is_well() { kvcli cluster status >"$work/status" 2>&1; }

run_cluster() {
	local i primary

	title "3. A ZooKeeper and three kvds on the software RDMA device"
	list_files
	[ "$files" -gt 0 ] || die "There are no files in $dir."
	head -c 32 /dev/urandom | basenc --base64url | tr -d = >"$work/key"
	start_zookeeper
	for i in 0 1 2; do start_member "$i"; done
	address=${member_addrs[0]},${member_addrs[1]},${member_addrs[2]}
	until_true 30 make_cluster || { cat "$work/init"; die "The cluster can't be made."; }
	until_true 30 is_well || { cat "$work/status"; die "The cluster doesn't serve."; }
	sed 's/^/  /' "$work/status"

	title "4. The $files files of $dir, $((bytes / 1000)) kB, each on three kvds"
	mkdir -p "$logs"
	step 120 put "kvcli put, each file under its path" put_files || exit 1

	title "5. The primary is killed"
	primary=$(primary_member)
	[ -n "$primary" ] || die "No member is the primary."
	kill -KILL "${member_pids[$primary]}"
	wait "${member_pids[$primary]}" 2>/dev/null
	unset "member_pids[$primary]"
	say "  kill -9 of ${member_addrs[$primary]}; kvcli still has its address first in the list"
	step 120 get "kvcli get, from who took over" get_files || exit 1
	step 60 compare "compare every byte" compare_files || exit 1
	say "  $(tail -n 1 "$logs/compare.log")"
	kvcli cluster status | sed 's/^/  /'
	end_cluster

	title "All well; all of them are stopped. Read on in kvd-cluster(7): man doc/kvd-cluster.7"
}
