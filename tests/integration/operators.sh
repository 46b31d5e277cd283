#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# What an operator gets wrong, or wants to know: each in one sentence that says what to do.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"

# ------------------------------------------------------------------- options
expect 2 kvd --memory 1T; says "--memory: this machine has"; says "1 TiB"
expect 2 kvd --memory 16M --namespace big:memory=1T; says "for all namespaces"
expect 2 kvd --durability async; says "nothing is durable without --data-dir"
expect 2 kvd --durability-lag 5; says "--durability-lag: nothing is durable"
printf 'durability = sync\n' >"$tmp/conf"
expect 2 kvd --config "$tmp/conf"; says "without --data-dir"
if "$KVD_BUILD/kvd" --check-config >/dev/null && [ ! -d /sys/class/infiniband ]; then
	expect 1 timeout 60 "$KVD_BUILD/kvd" --listen 0.0.0.0:0 --memory 16M
	says "no other machine could reach kvd there"
	# The machine's address in the network, if it has one.
	address=$(hostname -I 2>/dev/null | tr ' ' '\n' | grep -m 1 '^[0-9.]*$') || address=
	if [ "$address" ]; then
		start_kvd --listen "$address:0" --device soft --memory 16M
		wait_for grep -q "serves this machine alone: no other one reaches $address" "$kvd_log" ||
			fail "nothing is said of the software device"
		stop_kvd
	fi
fi

# --------------------------------------------------------------- credentials
umask 022
expect 0 kvd init --users "$tmp/users" --output "$tmp/admin.key"; says "$tmp/admin.key"
prints ''
[ "$(command stat -c %a "$tmp/admin.key")" = 600 ] || fail "the mode of the credentials"
ln -s "$tmp/elsewhere" "$tmp/link"
expect 1 kvd init --users "$tmp/more" --output "$tmp/link"; says "is there already"
[ ! -e "$tmp/elsewhere" ] && [ ! -e "$tmp/more" ] || fail "a link was followed"
export KVD_USERS_FILE=$tmp/users
local_kvcli() { "$KVD_BUILD/kvcli" "$@"; }
expect 0 local_kvcli user add ada write --output "$tmp/ada.key"; prints ''
[ "$(command stat -c %a "$tmp/ada.key")" = 600 ] || fail "the mode of a user's credentials"
grep -q '^kvd1:ada:' "$tmp/ada.key" || fail "no credentials of ada"
expect 2 local_kvcli user add bob write --output "$tmp/ada.key"; says "is there already"
expect 0 local_kvcli user list
! grep -q bob "$tmp/out" || fail "a user whose credentials nobody has"
unset KVD_USERS_FILE

# ------------------------------------------------------------------ addresses
start_kvd --memory 64M --metrics 0
grep -q "http://127.0.0.1:" "$kvd_log" || grep -q "built without libmicrohttpd" "$kvd_log" ||
	fail "--metrics 0 is no port of 127.0.0.1"
expect 0 kvcli put key value
if [ "${KVD_ADDR%:*}" = 127.0.0.1 ]; then
	expect 0 local_kvcli -s "${KVD_ADDR##*:}" get key
	prints value
fi
expect 2 local_kvcli -s 174800 ping; says "the port '174800' is not a number from 0 to 65535"
KVD_SERVER=$KVD_ADDR expect 0 local_kvcli ${KVD_TEST_CLIENT_DEVICE:+--device "$KVD_TEST_CLIENT_DEVICE"} get key
prints value
KVD_SERVER=127.0.0.1:1 expect 0 kvcli get key # -s wins
KVD_SERVER=127.0.0.1:1 expect 3 "$KVD_BUILD/kvbench" load -q -p recordcount=1
says "127.0.0.1:1"
expect 3 local_kvcli -s 127.0.0.1:1 -t 1s ping
says "nothing listens on that port: is kvd running? (RDMA_CM_EVENT_"

# The software device serves one user: who can't reach another's kvd is told that there is one.
if [ $soft = 1 ]; then
	SOFTVERBS_FABRIC=another expect 3 local_kvcli -s "$KVD_ADDR" -t 1s ping
	says "on that port there is a kvd of user $(id -u), and the software device serves one user only: be that user (sudo -u '#$(id -u)' ...)"
	stop_kvd
	SOFTVERBS_FABRIC=another start_kvd --memory 64M
	expect 3 kvcli -t 1s ping
	says "in another fabric of the software device: set SOFTVERBS_FABRIC=another"
	SOFTVERBS_FABRIC=another expect 0 kvcli ping --count 1
	expect 3 local_kvcli -s 127.0.0.1:1 -t 1s ping
	says "nothing listens on that port"
	if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null && setpriv --reuid nobody --clear-groups test -x "$KVD_BUILD/kvcli"; then
		expect 3 setpriv --reuid nobody --clear-groups "$KVD_BUILD/kvcli" -s "$KVD_ADDR" -t 1s ping
		says "set SOFTVERBS_FABRIC=another"
	fi
	stop_kvd
	start_kvd --memory 64M
fi

# ---------------------------------------------------------------------- files
echo text >"$tmp/text"
expect 2 kvcli get-tree "$tmp/text"; says "$tmp/text: it is a file, and no folder"
[ "$(wc -l <"$tmp/err")" = 1 ] || fail "not one line: $(cat "$tmp/err")"
expect 2 kvcli import "$tmp/text"; says "$tmp/text is no export: it is neither"
! grep -q "go on" "$tmp/err" || fail "no way to go on with what is no export"
: >"$tmp/empty"
expect 2 kvcli import "$tmp/empty"; says "is no export: it is empty"
head -c 3000000 /dev/zero >"$tmp/value"
for i in 1 2 3; do kvcli put "key$i" --file "$tmp/value" || fail "put"; done
kvcli export "$tmp/dump" >/dev/null || fail "export"
head -c 5000000 "$tmp/dump" >"$tmp/cut"
expect 2 kvcli import "$tmp/cut"; says "the file is cut off"
says "with the whole file: kvcli -s $KVD_ADDR import "
head -c 100 "$tmp/dump" >"$tmp/head"
{ kvcli export - 2>"$tmp/err"; echo $? >"$tmp/status"; } | head -c 100 >"$tmp/out"
cmp "$tmp/head" "$tmp/out" || true # another time stands in it
[ "$(cat "$tmp/status")" = 0 ] && [ ! -s "$tmp/err" ] ||
	fail "export into a pipe that ends: $(cat "$tmp/status" "$tmp/err")"

# ------------------------------------------------------------ kvd that is gone
open_batch -t 1s
ask 'put a b'
kill_kvd
# What it READs of the memory may come before it hears that its owner is gone.
has_heard() { ask 'get a'; [ "$answer" != b ]; }
wait_for has_heard || fail "it does not hear that kvd is gone"
for i in 1 2 3; do
	ask 'get a'
	case $answer in
	*"is kvd running"*) ;;
	*) fail "it doesn't ask whether kvd runs: $answer" ;;
	esac
	case $answer in
	*"no answer within "*)
		[[ $answer == *"no answer within "1000" ms"* ]] || fail "a part of the time is told: $answer" ;;
	esac
done
close_batch 3

# A server that fills up in the middle of an import: how to go on.
start_kvd --memory 16M
for i in 4 5 6 7 8 9; do cat "$tmp/value"; done >/dev/null
for i in 1 2 3 4; do kvcli put "old$i" --file "$tmp/value" || break; done 2>/dev/null
status=0
kvcli import "$tmp/dump" 2>"$tmp/err" >"$tmp/out" || status=$?
[ $status != 0 ] || fail "it all fits"
says "To go on from there: kvcli -s $KVD_ADDR import '$tmp/dump' --from "
stop_kvd

# ------------------------------------------------------------------- a backup
if "$KVD_BUILD/kvd" --version | grep -q 'durability: yes'; then
	start_kvd --memory 32M --data-dir "$tmp/data"
	expect 3 kvcli backup "$tmp/none/backup"; says "there is no folder $tmp/none on kvd's machine"
	stop_kvd
fi
