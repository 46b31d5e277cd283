#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The commands of kvd-cluster(7) in their order, in a network of its own, with a ZooKeeper; a machine
# dies where the manual says so, and what it shows is compared.
if [ -z "${KVD_SHOWN_INSIDE-}" ]; then
	. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
	. "$KVD_SOURCE/tests/lib/cluster/kit.sh"
	requires_cluster
	requires ip unshare
	user=()
	[ "$(id -u)" = 0 ] || user=(--user --map-root-user)
	unshare "${user[@]}" --net true 2>/dev/null || skip "no network namespaces for this user"
	KVD_SHOWN_INSIDE=1 KVD_SOURCE=$KVD_SOURCE KVD_BUILD=$KVD_BUILD unshare "${user[@]}" --net bash "$0"
	exit
fi
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
. "$KVD_SOURCE/tests/lib/cluster/kit.sh"
ip link set lo up || fail "no loopback"
for address in 192.0.2.10 192.0.2.11 192.0.2.12; do
	ip address add $address/32 dev lo || fail "no address $address"
done
mkdir "$tmp/bin" "$tmp/here"
ln -s "$KVD_BUILD/kvd" "$KVD_BUILD/kvcli" "$tmp/bin"
PATH=$tmp/bin:$PATH
unset -f kvd kvcli # the kit's
cd "$tmp/here" || fail "no folder"
start_zookeeper

# The commands, a line each, and what they print; "== NAME" where a part begins.
awk '
	/^\.Ss/ { print "== " substr($0, 5) }
	/^\.Bd -literal/ { block = 1; next }
	/^\.Ed/ { block = 0; next }
	block && day { print }
	/^\.Sh/ { day = /A DAY/ }' "$KVD_SOURCE/doc/kvd-cluster.7" | sed 's/\\e/\\/g' >"$tmp/lines"
[ "$(grep -c '^\$ ' "$tmp/lines")" -ge 10 ] || fail "the manual's commands were not found"

serving() { grep -q 'serving' "$tmp/member.$1"; }
made() { bash -c "$1" >"$tmp/out" 2>"$tmp/err"; }

# run COMMAND: a kvd in the background; others have to succeed, or to say that something is wrong.
members=0
run() {
	local command=${1//192.0.2.1:2181,192.0.2.2:2181,192.0.2.3:2181/127.0.0.1:$zk_port}
	case $command in
	kvd\ *)
		members=$((members + 1))
		eval "start ${command%&} --device soft" >"$tmp/member.$members" 2>&1
		pids[members]=$pid
		wait_for serving $members || { cat "$tmp/member.$members"; fail "$1"; }
		;;
	*) wait_for made "$command" || [[ $command == *status* ]] || { cat "$tmp/out" "$tmp/err"; fail "$1"; } ;;
	esac
}

part='' ran=0 patience_s=20
while IFS= read -r line <&3; do
	case $line in
	'== A machine dies') kill -KILL "${pids[1]}"; wait_exit "${pids[1]}" ;;
	'== An upgrade'*) break ;; # it needs a copy that is done
	esac
	case $line in
	'== '*) part=${line#== } ;;
	'$ '*)
		patience_s=20
		[[ $line != *status* || $part != 'A machine '* ]] || patience_s=2
		run "${line#\$ }"
		ran=$((ran + 1))
		;;
	*) [ "$(cat "$tmp/out")" = "$line" ] || { cat "$tmp/out"; fail "$part: something else than $line"; } ;;
	esac
done 3<"$tmp/lines"
reached "commands" $ran 8
patience_s=60
grep -q "1 of 2 copies" "$tmp/out" || say "the copy is there already"
