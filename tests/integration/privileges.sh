#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# kvd that is started as root with --user is that user in every thread, with no capability
# and no way to one, with all the locked memory that it wants, and serves.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
field() { sed -n "s/^$1:[[:space:]]*//p" "/proc/$2/status"; }

# Whoever it is: nothing that is executed may get more.
start_kvd --memory 16M
[ "$(field NoNewPrivs "$KVD_PID")" = 1 ] || fail "no_new_privs is not set"
stop_kvd
expect 1 timeout 60 "$KVD_BUILD/kvd" --user nobody-of-that-name --memory 16M; says "no user nobody-of-that-name"
expect 1 timeout 60 "$KVD_BUILD/kvd" --check-config --user nobody-of-that-name; says "no user"
[ "$(id -u)" = 0 ] || { expect 1 timeout 60 "$KVD_BUILD/kvd" --user nobody --memory 16M; says "only root"; skip "the rest needs root"; }
expect 1 timeout 60 "$KVD_BUILD/kvd" --user root --memory 16M; says "is root"
requires setpriv
who=nobody
chmod 755 "$tmp"
mkdir -m 755 "$tmp/his"
chown "$who" "$tmp/his"
setpriv --reuid "$who" --clear-groups test -x "$KVD_BUILD/kvcli" || skip "$who can't execute $KVD_BUILD/kvcli"

# As somebody else who is not root; and where shedding fails, it ends. Without the right
# to change the user, then without that to change what can be got back.
expect 1 timeout 60 setpriv --reuid "$who" --clear-groups "$KVD_BUILD/kvd" --user daemon --memory 16M; says "only root"
for right in setuid setgid setpcap; do
	expect 1 timeout 60 setpriv --inh-caps=-$right --bounding-set=-$right "$KVD_BUILD/kvd" --listen "$KVD_TEST_ADDR:0" \
		--memory 16M --user "$who"
	says "--user: can't"
done

# A users file of root's alone is none that the user can read.
(umask 077; "$KVD_BUILD/kvd" init --users "$tmp/his/users" >"$tmp/his/admin" 2>/dev/null) || fail "init"
expect 1 timeout 60 "$KVD_BUILD/kvd" --listen "$KVD_TEST_ADDR:0" --memory 16M --user "$who" --users "$tmp/his/users"; says "ermission denied"
chown "$who" "$tmp/his/users" "$tmp/his/admin"

as_him() { setpriv --reuid "$who" --regid "$(id -g "$who")" --clear-groups "$KVD_BUILD/kvcli" -s "$KVD_ADDR" --credentials "$tmp/his/admin" "$@"; }
ready_in=$tmp/his
launch_kvd --memory 64M --user "$who" --users "$tmp/his/users" --ready-file "$ready_in/ready" \
	--namespace "b:memory=16M,users=$tmp/his/users"
ready_file=$ready_in/ready
wait_for kvd_ready_or_gone || fail "kvd doesn't get ready"
[ -s "$ready_file" ] || fail "kvd doesn't start"
KVD_ADDR=$(cat "$ready_file")
uid=$(id -u "$who") gid=$(id -g "$who") threads=0
for task in "/proc/$KVD_PID/task"/*; do
	t=$KVD_PID/task/${task##*/}
	[ "$(field Uid "$t" | xargs)" = "$uid $uid $uid $uid" ] || fail "thread $t is $(field Uid "$t")"
	[ "$(field Gid "$t" | xargs)" = "$gid $gid $gid $gid" ] || fail "thread $t is of group $(field Gid "$t")"
	[ "$(field Groups "$t" | xargs)" = "$gid" ] || fail "thread $t has groups $(field Groups "$t")"
	for set in CapInh CapPrm CapEff CapBnd CapAmb; do
		[ "$(field $set "$t" | tr -d 0)" = "" ] || fail "thread $t has $set $(field $set "$t")"
	done
	[ "$(field NoNewPrivs "$t")" = 1 ] || fail "thread $t has no no_new_privs"
	threads=$((threads + 1))
done
say "$threads threads of $who without a capability"
[ $threads -ge 5 ] || fail "only $threads threads"
awk '/^Max locked memory/ { print "# locked memory: " $4 }' "/proc/$KVD_PID/limits"
expect 0 as_him put key value
expect 0 as_him get key; prints value
# It still reads its users again.
as_him user add late read --users "$tmp/his/users" >/dev/null || fail "user add"
reread() { grep -q '2 in .*users; 0 connections ended' "$kvd_log"; }
wait_for reread || fail "the users are not read again"
stop_kvd
